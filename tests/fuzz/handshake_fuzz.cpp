// Who shakes hands with a master or a node and says anything; and sealed frames that were tampered with on their way.
//
//   input = what (1 byte) | bytes to a master (0) or a node (1), cut into pieces: length (1 byte) | so many bytes; or
//           changes of a meeting (2) or of a stream of sealed frames (3): 3 bytes each, see `Change`
#include "cluster/handshake.hpp"

#include <string>
#include <vector>

#include "cluster/control.hpp"
#include "fuzz.hpp"

namespace atoll::fuzz {
namespace {

using cluster::Handshake;
using cluster::Role;

const cluster::Key& test_key() {
  static const cluster::Key key = cluster::Key::parse(std::string(64, '7'), "the fuzzer");
  return key;
}

cluster::Nonce nonce_of(std::uint8_t byte) {
  cluster::Nonce nonce;
  nonce.fill(byte);
  return nonce;
}

/// Nobody without the key is trusted, nor told more than a handshake's messages.
void play_stranger(Role role, Input& input) {
  Handshake handshake(role, test_key(), nonce_of(1));
  std::size_t said = 0;
  while (!input.empty()) {
    handshake.feed(input.text(input.byte()));
    said += handshake.take_output().size();
    ATOLL_FUZZ_CHECK(!handshake.trusted());
    ATOLL_FUZZ_CHECK(handshake.refused() == (*handshake.why() != '\0'));
  }
  ATOLL_FUZZ_CHECK(said <= cluster::kHelloBytes + 33);
  handshake.end();
  ATOLL_FUZZ_CHECK(handshake.refused());
}

/// Something that is done to bytes on their way: one of them is changed, or some are left out, repeated or put in.
struct Change {
  explicit Change(Input& input) : how(input.byte()), where(input.byte()), what(input.byte()) {}
  void apply(std::string& bytes) const {
    if (bytes.empty()) return;
    const std::size_t at = where % bytes.size();
    switch (how % 4) {
      case 0: bytes[at] = char(bytes[at] ^ what); return;
      case 1: bytes.erase(at, what); return;
      case 2: bytes.insert(at, bytes.substr(at, what)); return;
      default: bytes.insert(at, 1, char(what)); return;
    }
  }
  std::uint8_t how, where, what;
};

/// An honest meeting whose messages are changed on their way: trust only where nothing was.
void play_meeting(Input& input) {
  Handshake node(Role::kNode, test_key(), nonce_of(1)), master(Role::kMaster, test_key(), nonce_of(2));
  bool changed = false, last_changed = false;
  const auto pass = [&](Handshake& from, Handshake& to) {
    const std::string sent = from.take_output();
    std::string bytes = sent;
    if (!input.empty() && input.below(2) == 1) Change(input).apply(bytes);
    last_changed = bytes != sent;
    changed = changed || last_changed;
    to.feed(bytes);
  };
  for (int round = 0; round < 2; ++round) {
    pass(node, master);
    pass(master, node);
  }
  ATOLL_FUZZ_CHECK(node.trusted() == !changed);
  ATOLL_FUZZ_CHECK(!changed || !master.trusted() || last_changed);  // it cannot know what became of its last word
}

/// A stream of sealed frames that was changed: what comes out is what was sent, as far as it goes.
void play_frames(Input& input) {
  cluster::Seal out(test_key(), Role::kNode);
  std::string stream;
  std::vector<std::string> sent;
  for (int k = 0; k < 4; ++k) {
    const std::string frame = cluster::encode_frame({{"op", std::string(std::size_t(1 + k), 'a')}, {"id", k}});
    const cluster::Seal::Tag tag = out.next(frame);
    sent.emplace_back(std::size_t(1 + k), 'a');
    stream.append(frame).append(tag.data(), tag.size());
  }
  const std::string honest = stream;
  while (!input.empty()) Change(input).apply(stream);
  cluster::FrameDecoder decoder;
  decoder.seal(cluster::Seal(test_key(), Role::kNode));
  decoder.feed(stream, {});
  cluster::Frame frame;
  std::size_t came = 0;
  while (decoder.next(frame) == cluster::Decoded::kFrame) {
    ATOLL_FUZZ_CHECK(came < sent.size() && frame.op() == sent[came]);
    ++came;
  }
  ATOLL_FUZZ_CHECK(stream != honest || came == sent.size());
}

}  // namespace
}  // namespace atoll::fuzz

using namespace atoll;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::quiet_logging();
  fuzz::Input input(data, size);
  switch (input.below(4)) {
    case 0: fuzz::play_stranger(cluster::Role::kMaster, input); break;
    case 1: fuzz::play_stranger(cluster::Role::kNode, input); break;
    case 2: fuzz::play_meeting(input); break;
    default: fuzz::play_frames(input); break;
  }
  return 0;
}
