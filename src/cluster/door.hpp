// How nodes of one host hand each other their segments when the master, perhaps on another host, cannot.
#pragma once

#include <string>
#include <thread>

#include "base/fd.hpp"
#include "cluster/control.hpp"

namespace atoll::cluster {

inline constexpr std::size_t kMaxHostBytes = 128;  // of a host's identity
inline constexpr std::size_t kMaxDoorBytes = 96;   // of a door's name, and of its token

/// Equal for two processes when they can reach each other's abstract sockets, take each other for the same user and so
/// hand each other descriptors: one boot of one kernel, one network namespace, one user namespace, one user. Where that
/// cannot be found out it is a text that no other process has.
[[nodiscard]] std::string host_identity();

/// Where peers of the same host get this node's segment: an abstract socket with a name that nobody can guess, and a
/// token that only peers are told. Open as long as this object lives.
///
///   peer -> door   {"op": "fetch", "token": ...}
///   door -> peer   {"op": "segment", "fds": 1}
///
/// Thread-safety: made and ended by one thread; a thread of its own serves.
/// Invariants:
///   1. The segment goes to processes of the same user (the kernel says which) that show the token, and to nobody else.
///   2. Peers are served one after the other, each for at most kServeTime: one that says nothing holds up nobody for
///   long.
class Door {
 public:
  static constexpr auto kServeTime = std::chrono::seconds(2);

  /// REQUIRES: `segment` outlives this. Throws Error.
  explicit Door(const base::Fd& segment);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& token() const noexcept { return token_; }

 private:
  void serve() noexcept;
  void serve_one(base::Fd socket);

  const base::Fd& segment_;
  const std::string name_, token_;
  const base::Fd listener_, stop_;
  std::thread thread_;
};

/// The segment behind a peer's door. Throws Error: kNotFound when there is no such door on this host.
[[nodiscard]] base::Fd fetch_segment(const std::string& door, const std::string& token, Clock::time_point deadline);

}  // namespace atoll::cluster
