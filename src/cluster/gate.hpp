// The master's door to the network: who knocks at its TCP port is let in when it has proven the cluster key.
#pragma once

#include <poll.h>

#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/control.hpp"
#include "cluster/handshake.hpp"
#include "cluster/key.hpp"
#include "cluster/tcp.hpp"

namespace atoll::cluster {

/// Says who was refused and why, in at most one line a second, so that a flood of refusals does not flood the log.
///
/// Thread-safety: none; one thread.
class RefusalLog {
 public:
  RefusalLog() = default;
  RefusalLog(const RefusalLog&) = default;
  ~RefusalLog() { tick(next_line_); }  // nothing is kept back for ever
  void note(std::string_view peer, std::string_view why, Clock::time_point now);
  /// Says what was held back, when its time has come.
  void tick(Clock::time_point now);
  /// When `tick` has something to say; none while nothing is held back.
  [[nodiscard]] std::optional<Clock::time_point> due() const noexcept;

 private:
  Clock::time_point next_line_{};
  std::uint64_t held_back_ = 0;
  std::string last_;  // of those held back
};

/// Listens at a TCP address and leads who connects through the handshake.
///
/// Thread-safety: none; the master's thread.
/// Invariants:
///   1. At most kMaxHalfOpen connections that have not proven the key, each with a message's room and no more; one
///      more drops the oldest, and each is dropped after kProofTime.
///   2. No call blocks. One round takes at most kAcceptAtOnce new connections, and first hears those that are there: a
///      flood does not keep out who answers.
class Gate {
 public:
  static constexpr std::size_t kMaxHalfOpen = 256;
  static constexpr std::size_t kAcceptAtOnce = 32;
  static constexpr auto kProofTime = std::chrono::seconds(5);

  /// Who has proven the key.
  struct Admitted {
    base::Fd socket;
    Seals seals;
    std::string peer;  // its address, for people
  };

  /// Listens. Throws Error.
  Gate(const TcpAddress& address, const Key& key) : key_(key), listener_(listen_tcp(address)) {}
  [[nodiscard]] const TcpAddress& address() const noexcept { return listener_.address; }
  [[nodiscard]] std::size_t half_open() const noexcept { return half_open_.size(); }

  /// Appends what to poll, and lowers `until` to when it wants to be called without an event.
  void prepare(std::vector<pollfd>& polls, Clock::time_point& until) const;
  /// Deals with what poll found of the entries that `prepare` appended.
  [[nodiscard]] std::vector<Admitted> handle(std::span<const pollfd> polls, Clock::time_point now);

 private:
  struct HalfOpen {
    HalfOpen(base::Fd s, const Key& key, std::string p, Clock::time_point d)
        : socket(std::move(s)), handshake(Role::kMaster, key, make_nonce()), peer(std::move(p)), deadline(d) {}
    base::Fd socket;
    Handshake handshake;
    std::string peer;
    Clock::time_point deadline;
  };

  static void hear(HalfOpen& client);
  void accept_some(Clock::time_point now);

  const Key key_;
  const TcpListener listener_;
  std::list<HalfOpen> half_open_;  // the oldest first
  Clock::time_point accept_after_{};
  RefusalLog refusals_;
};

}  // namespace atoll::cluster
