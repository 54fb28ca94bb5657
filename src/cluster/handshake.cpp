#include "cluster/handshake.hpp"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace atoll::cluster {
namespace {

using S = TrustState;
using E = TrustEvent;
using A = TrustAction;
using Row = coherence::Row<S, E, A>;

// clang-format off
constexpr Row kRows[] = {
  // The master's end.
  {S::kAwaitHello, {E::kHello}, S::kAwaitNodeProof, {A::kSendChallenge}, "it speaks the protocol: it gets a fresh nonce, and nothing else"},
  {S::kAwaitHello, {E::kOtherVersion}, S::kRefused, {}, "it speaks another version of the handshake; build program and command from the same sources"},
  {S::kAwaitHello, {E::kChallenge, E::kProof, E::kWrongProof, E::kNonsense}, S::kRefused, {}, "it does not speak the protocol"},
  {S::kAwaitHello, {E::kEnd}, S::kRefused, {}, "it left without a hello"},
  {S::kAwaitNodeProof, {E::kProof}, S::kTrusted, {A::kSendProof}, "it has the key; now it is shown that we have it"},
  {S::kAwaitNodeProof, {E::kWrongProof}, S::kRefused, {}, "it does not have the cluster key"},
  {S::kAwaitNodeProof, {E::kHello, E::kOtherVersion, E::kChallenge, E::kNonsense}, S::kRefused, {}, "it does not speak the protocol"},
  {S::kAwaitNodeProof, {E::kEnd}, S::kRefused, {}, "it left without a proof of the cluster key"},
  // The node's end.
  {S::kAwaitChallenge, {E::kChallenge}, S::kAwaitMasterProof, {A::kSendProof}, "a proof is of use for this pair of nonces alone: it tells nothing"},
  {S::kAwaitChallenge, {E::kHello, E::kOtherVersion, E::kProof, E::kWrongProof, E::kNonsense}, S::kRefused, {}, "it is no Atoll master"},
  {S::kAwaitChallenge, {E::kEnd}, S::kRefused, {}, "it closed the connection at our hello: it is no Atoll master of this version, or too many knock at it"},
  {S::kAwaitMasterProof, {E::kProof}, S::kTrusted, {}, "it has the key, and knows that we do"},
  {S::kAwaitMasterProof, {E::kWrongProof}, S::kRefused, {}, "it does not have our cluster key"},
  {S::kAwaitMasterProof, {E::kHello, E::kOtherVersion, E::kChallenge, E::kNonsense}, S::kRefused, {}, "it is no Atoll master"},
  {S::kAwaitMasterProof, {E::kEnd}, S::kRefused, {}, "it did not take our cluster key"},
  // Both.
  {S::kTrusted, {E::kHello, E::kOtherVersion, E::kChallenge, E::kProof, E::kWrongProof, E::kNonsense}, S::kRefused, {}, "it sent more than the handshake has"},
  {S::kTrusted, {E::kEnd}, S::kRefused, {}, "it left after the handshake"},
  {S::kRefused, {E::kHello, E::kOtherVersion, E::kChallenge, E::kProof, E::kWrongProof, E::kNonsense, E::kEnd}, S::kRefused, {}, "nothing mends a refusal"},
};
// clang-format on
constexpr TrustTable kTable(kRows);
static_assert(kTable.complete());

constexpr std::size_t bytes_of(char kind) noexcept {
  if (kind == 'H') return kHelloBytes;
  if (kind == 'C') return 1 + kNonceBytes;
  return kind == 'P' ? 1 + Key::kBytes : 0;
}

std::string_view text_of(const Nonce& nonce) noexcept {
  return {reinterpret_cast<const char*>(nonce.data()), nonce.size()};
}

std::string version_text() {
  return {char(kHandshakeVersion & 0xff), char(kHandshakeVersion >> 8)};
}

}  // namespace

const TrustTable& trust_table() noexcept {
  return kTable;
}

Nonce make_nonce() {
  Nonce nonce;
  fill_random(nonce);
  return nonce;
}

Handshake::Handshake(Role role, const Key& key, const Nonce& nonce)
    : role_(role), key_(key), state_(role == Role::kNode ? S::kAwaitChallenge : S::kAwaitHello) {
  (role == Role::kNode ? node_nonce_ : master_nonce_) = nonce;
  if (role != Role::kNode) return;
  send('H', std::string(kHandshakeLabel).append(version_text()).append(text_of(node_nonce_)));
}

void Handshake::send(char kind, std::string_view content) {
  output_.push_back(kind);
  output_.append(content);
}

void Handshake::feed(std::string_view bytes) {
  while (!bytes.empty() && !refused()) {
    if (trusted()) return apply(E::kNonsense);
    message_[have_++] = bytes.front();
    bytes.remove_prefix(1);
    const std::size_t wanted = bytes_of(message_[0]);
    if (wanted == 0) return apply(E::kNonsense);
    if (have_ < wanted) continue;
    have_ = 0;
    const E event = judge();
    apply(bytes.empty() ? event : E::kNonsense);  // who does not wait for an answer does not want one
  }
}

/// What the message that has come is.
TrustEvent Handshake::judge() {
  const char* content = message_.data() + 1;
  Nonce& theirs = role_ == Role::kNode ? master_nonce_ : node_nonce_;
  if (message_[0] == 'H') {
    if (std::memcmp(content, kHandshakeLabel.data(), kHandshakeLabel.size()) != 0) return E::kNonsense;
    content += kHandshakeLabel.size();
    if (std::memcmp(content, version_text().data(), 2) != 0) return E::kOtherVersion;
    if (state_ == S::kAwaitHello) std::memcpy(theirs.data(), content + 2, theirs.size());
    return E::kHello;
  }
  if (message_[0] == 'C') {
    if (state_ == S::kAwaitChallenge) std::memcpy(theirs.data(), content, theirs.size());
    return E::kChallenge;
  }
  const Key expected = keyed_hash(role_ == Role::kNode ? Purpose::kMasterProof : Purpose::kNodeProof);
  return ::sodium_memcmp(expected.bytes().data(), content, Key::kBytes) == 0 ? E::kProof : E::kWrongProof;
}

void Handshake::apply(TrustEvent event) {
  const auto& cell = kTable.at(state_, event);
  if (cell.next == S::kRefused && state_ != S::kRefused) why_ = cell.why;
  state_ = cell.next;
  for (std::size_t k = 0; k < cell.action_count; ++k) {
    switch (cell.actions[k]) {
      case A::kSendChallenge: send('C', text_of(master_nonce_)); break;
      case A::kSendProof: {
        const Key proof = keyed_hash(role_ == Role::kNode ? Purpose::kNodeProof : Purpose::kMasterProof);
        send('P', {reinterpret_cast<const char*>(proof.bytes().data()), Key::kBytes});
        break;
      }
    }
  }
}

Key Handshake::keyed_hash(Purpose purpose) const {
  std::string text(kHandshakeLabel);
  text.append(version_text()).push_back(char(purpose));
  text.append(text_of(node_nonce_)).append(text_of(master_nonce_));
  Key::Bytes hash;
  (void)::crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                             key_.bytes().data(), Key::kBytes);
  const Key result(hash);
  ::sodium_memzero(hash.data(), hash.size());
  return result;
}

Seals Handshake::seals() const {
  ATOLL_CHECK(trusted());
  return {keyed_hash(Purpose::kSession), role_};
}

}  // namespace atoll::cluster
