// How a node and a master that meet over TCP show each other that they have the cluster key, without saying it.
//
//   node -> master   hello      'H' | "atoll control" | version (u16, LE) | the node's nonce (32)      48 bytes
//   master -> node   challenge  'C' | the master's nonce (32)                                          33 bytes
//   node -> master   proof      'P' | BLAKE2b-256, keyed with the cluster key (32)                     33 bytes
//   master -> node   proof      'P' | the same, of the master (32)                                     33 bytes
//
// Hashed is, always 80 bytes: "atoll control" | version (u16, LE) | purpose (1 byte) | the node's nonce | the master's
// nonce. The purpose is 1 for the node's proof, 2 for the master's, 3 for the key of the session, which the frames that
// follow are sealed with (seal.hpp). So a proof is of use to nobody else: not on another connection (fresh nonces), not
// turned back (the purpose), not in another protocol or version. docs/control-protocol.md says more.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "cluster/key.hpp"
#include "cluster/seal.hpp"
#include "coherence/table.hpp"

namespace atoll::cluster {

inline constexpr std::uint16_t kHandshakeVersion = 1;
inline constexpr std::string_view kHandshakeLabel = "atoll control";
inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kHelloBytes = 1 + 13 + 2 + kNonceBytes;  // the longest message
static_assert(kHandshakeLabel.size() == 13);
using Nonce = std::array<std::uint8_t, kNonceBytes>;

/// Fresh. Throws Error when the system has no randomness.
[[nodiscard]] Nonce make_nonce();

enum class TrustState : std::uint8_t {
  kAwaitHello,        // a master's first
  kAwaitNodeProof,    // its challenge is out
  kAwaitChallenge,    // a node's first: its hello is out
  kAwaitMasterProof,  // its proof is out
  kTrusted,           // both have shown the key
  kRefused,           // for ever
  kCount
};
enum class TrustEvent : std::uint8_t {
  kHello,
  kOtherVersion,  // a hello, but of another version
  kChallenge,
  kProof,       // the right one
  kWrongProof,  // any other
  kNonsense,    // no message of the handshake, or bytes behind one
  kEnd,         // of the connection
  kCount
};
enum class TrustAction : std::uint8_t { kSendChallenge, kSendProof };
using TrustTable = coherence::Table<TrustState, TrustEvent, TrustAction>;
[[nodiscard]] const TrustTable& trust_table() noexcept;

/// One end of a handshake: bytes in, bytes out; no socket, no clock.
///
/// Thread-safety: none; one thread.
/// Invariants:
///   1. Holds at most one message. Each end waits for the other, so a byte behind a message is nonsense.
///   2. A master sends nothing but a nonce, and a node nothing but its proof, before the other has proven the key.
///   3. State is changed by the table alone.
class Handshake {
 public:
  /// REQUIRES: `key` outlives this; `nonce` is used for this one alone.
  Handshake(Role role, const Key& key, const Nonce& nonce);

  /// What is to be sent now.
  [[nodiscard]] std::string take_output() noexcept { return std::exchange(output_, {}); }
  void feed(std::string_view bytes);
  /// The other side has closed the connection.
  void end() { apply(TrustEvent::kEnd); }

  [[nodiscard]] TrustState state() const noexcept { return state_; }
  [[nodiscard]] bool trusted() const noexcept { return state_ == TrustState::kTrusted; }
  [[nodiscard]] bool refused() const noexcept { return state_ == TrustState::kRefused; }
  /// Why it was refused, as "it ..."; empty when it was not.
  [[nodiscard]] const char* why() const noexcept { return why_; }
  /// What the frames that follow are sealed with. REQUIRES: trusted().
  [[nodiscard]] Seals seals() const;

 private:
  enum class Purpose : std::uint8_t { kNodeProof = 1, kMasterProof = 2, kSession = 3 };

  void apply(TrustEvent event);
  [[nodiscard]] TrustEvent judge();
  [[nodiscard]] Key keyed_hash(Purpose purpose) const;
  void send(char kind, std::string_view content);

  const Role role_;
  const Key& key_;
  Nonce node_nonce_{}, master_nonce_{};
  TrustState state_;
  const char* why_ = "";
  std::array<char, kHelloBytes> message_{};
  std::size_t have_ = 0;  // bytes of message_
  std::string output_;
};

}  // namespace atoll::cluster
