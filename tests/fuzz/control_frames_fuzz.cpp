// The decoder of control connections: however the bytes are cut into reads, the same frames come out.
//
//   input = how many pieces (1 byte), their lengths (1 byte each) | the stream; the last piece is the rest
#include <fcntl.h>

#include <string>
#include <vector>

#include "cluster/control.hpp"
#include "fuzz.hpp"

namespace atoll::fuzz {
namespace {

using cluster::Decoded;
using cluster::Frame;
using cluster::FrameDecoder;

struct Outcome {
  std::vector<std::string> frames;
  std::size_t fds = 0;
  bool bad = false;
  bool midway = false;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// What every handler does with a frame: looks for fields of whatever type.
void read_fields(const Frame& frame) {
  for (const char* key : {"id", "node", "fds", "name", "op", "address", "peers"}) {
    cluster::Fields numbers(frame.body), texts(frame.body);
    const std::uint64_t number = numbers.number(key, 1000);
    const std::string text = texts.text(key, 100);
    ATOLL_FUZZ_CHECK(number <= 1000 && text.size() <= 100);
    ATOLL_FUZZ_CHECK(!numbers.ok() || !texts.ok());  // nothing is both
  }
}

void drain(FrameDecoder& decoder, Outcome& outcome) {
  Frame frame;
  while (true) {
    switch (decoder.next(frame)) {
      case Decoded::kFrame: break;
      case Decoded::kNeedMore: return;
      case Decoded::kBad:
        ATOLL_FUZZ_CHECK(!decoder.why().empty());
        outcome.bad = true;
        return;
    }
    ATOLL_FUZZ_CHECK(frame.body.is_object() && frame.fds.size() <= cluster::kMaxFrameFds);
    read_fields(frame);
    outcome.frames.push_back(frame.op() + frame.body.dump());
    outcome.fds += frame.fds.size();
  }
}

/// The stream in pieces. `fds`: so many descriptors come with the first of them.
Outcome decode(std::string_view stream, const std::vector<std::size_t>& pieces, std::size_t fds) {
  FrameDecoder decoder;
  Outcome outcome;
  std::vector<base::Fd> descriptors;
  for (std::size_t k = 0; k < fds; ++k) descriptors.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (std::size_t k = 0; k <= pieces.size() && !stream.empty(); ++k) {
    const std::string_view piece = k < pieces.size() ? stream.substr(0, pieces[k]) : stream;
    stream.remove_prefix(piece.size());
    if (piece.empty()) continue;
    decoder.feed(piece, std::exchange(descriptors, {}));
    drain(decoder, outcome);
  }
  outcome.midway = decoder.midway();
  return outcome;
}

}  // namespace
}  // namespace atoll::fuzz

using namespace atoll;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  std::vector<std::size_t> pieces(input.below(16));
  for (std::size_t& piece : pieces) piece = input.byte();
  const std::size_t fds = input.below(4);
  const std::string_view stream = input.text(input.left());
  const fuzz::Outcome whole = fuzz::decode(stream, {}, 0);
  ATOLL_FUZZ_CHECK(whole == fuzz::decode(stream, pieces, 0));
  (void)fuzz::decode(stream, pieces, fds);
  // What we write ourselves is read as it was meant.
  if (!whole.frames.empty()) {
    const cluster::Json body = {{"op", whole.frames[0]}};
    const std::string text = body.dump();
    if (text.size() <= cluster::kMaxFrameBytes) {
      const fuzz::Outcome again = fuzz::decode(cluster::encode_frame(body), pieces, 0);
      ATOLL_FUZZ_CHECK(again.frames.size() == 1 && again.frames[0] == whole.frames[0] + text);
    }
  }
  return 0;
}
