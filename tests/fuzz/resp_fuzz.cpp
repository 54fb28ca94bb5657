// A client of the key-value server that sends anything, on a map of its own. The same requests are found whatever
// pieces the bytes come in, every request has one answer, and every answer is whole and of the client's version.
//
//   input = a byte of flags, a byte that says how the rest is cut into pieces, the bytes of the client
#include <charconv>
#include <random>
#include <string>
#include <vector>

#include "atoll/atoll.hpp"
#include "atoll/hash_map.hpp"
#include "fuzz.hpp"
#include "kv/session.hpp"

namespace atoll::fuzz {
namespace {

constexpr std::uint8_t kWithPassword = 1;
constexpr int kMostRounds = 10'000;

/// A cluster of one node with a map, for all inputs.
struct World {
  World() {
    options.memory_bytes = 16 << 20;
    options.cache_bytes = 1 << 20;
    node = std::make_unique<Node>(options);
    HashMapOptions fixed;
    fixed.seed = 1;
    map = std::make_unique<HashMap>(*node, fixed);
  }
  Options options;
  std::unique_ptr<Node> node;
  std::unique_ptr<HashMap> map;
};

kv::ServiceOptions service_options(std::uint8_t flags, std::int64_t& now) {
  kv::ServiceOptions options;
  options.limits.request_bytes = 1 << 20;
  options.limits.output_pause_bytes = 64 << 10;
  options.limits.output_limit_bytes = 8 << 20;
  if ((flags & kWithPassword) != 0) options.password = "secret";
  options.clock = [&now] { return ++now; };  // so that things expire
  return options;
}

/// The requests of a stream, with `piece()` bytes more each time.
template <typename Piece>
std::vector<std::vector<std::string>> requests_of(std::string_view stream, const Piece& piece) {
  std::vector<std::vector<std::string>> requests;
  kv::RespParser parser;
  std::size_t begin = 0, end = 0;
  while (end < stream.size()) {
    end = std::min(stream.size(), end + piece());
    while (true) {
      std::string bytes(stream.substr(begin, end - begin));  // at another place each time, and no byte beyond
      bytes.shrink_to_fit();
      const kv::RespParser::Outcome outcome = parser.parse(bytes.data(), bytes.size(), {});
      if (outcome == kv::RespParser::Outcome::kMore) break;
      if (outcome == kv::RespParser::Outcome::kError) {
        requests.push_back({"an error", parser.error()});
        return requests;
      }
      ATOLL_FUZZ_CHECK(parser.consumed() > 0 && parser.consumed() <= bytes.size());
      requests.emplace_back(parser.arguments().begin(), parser.arguments().end());
      begin += parser.consumed();
      parser.next();
    }
  }
  return requests;
}

/// Takes one answer from the front. False: it is none, or not whole.
bool take_answer(std::string_view& bytes, int depth = 0) {
  const std::size_t end = bytes.find("\r\n");
  if (end == std::string_view::npos || end == 0 || depth > 5) return false;
  const char kind = bytes[0];
  const std::string_view line = bytes.substr(1, end - 1);
  bytes.remove_prefix(end + 2);
  if (kind == '+' || kind == '-' || kind == '_') return true;
  std::int64_t number = 0;
  const auto [read, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc{} || read != line.data() + line.size()) return false;
  if (kind == ':' || number == -1) return true;
  if (number < 0) return false;
  if (kind == '$' || kind == '=') {
    if (bytes.size() < std::size_t(number) + 2 || bytes.substr(std::size_t(number), 2) != "\r\n") return false;
    bytes.remove_prefix(std::size_t(number) + 2);
    return true;
  }
  if (kind != '*' && kind != '%' && kind != '~') return false;
  for (std::int64_t i = 0; i < (kind == '%' ? number * 2 : number); ++i) {
    if (!take_answer(bytes, depth + 1)) return false;
  }
  return true;
}

/// What the session answers to the stream, cut into pieces.
template <typename Piece>
std::string answers_to(kv::Session& session, kv::Batch& batch, std::string_view stream, const Piece& piece) {
  std::string answers;
  while (!stream.empty() && !session.closing()) {
    const std::size_t size = std::min(stream.size(), piece());
    session.in().append(stream.substr(0, size));
    stream.remove_prefix(size);
    auto progress = kv::Session::Progress::kAgain;
    for (int round = 0; progress != kv::Session::Progress::kIdle; ++round) {
      ATOLL_FUZZ_CHECK(round < kMostRounds);
      progress = session.advance(batch);
      batch.run();
      if (session.reply().overflowed()) return answers;
      answers += session.out().view();
      session.out().consume(session.out().size());
    }
  }
  return answers;
}

void run(const std::uint8_t* data, std::size_t size) {
  static World& world = *new World;
  Input input(data, size);
  const std::uint8_t flags = input.byte();
  std::minstd_rand random(input.byte() + 1u);
  const auto piece = [&random] { return std::size_t(random() % 40 + 1); };
  const std::string_view stream = input.text(input.left());

  const auto requests = requests_of(stream, piece);
  ATOLL_FUZZ_CHECK(requests == requests_of(stream, [&] { return stream.size(); }));

  std::int64_t now = 1'700'000'000'000;
  ATOLL_FUZZ_CHECK(world.map->clear().ok());
  kv::Service service(*world.node, *world.map, service_options(flags, now));
  kv::Worker worker(service);
  kv::Batch batch(worker);
  kv::Session session(worker);
  const std::string answers = answers_to(session, batch, stream, piece);
  if (session.reply().overflowed()) return;
  std::size_t answered = 0;
  for (std::string_view left = answers; !left.empty(); ++answered) ATOLL_FUZZ_CHECK(take_answer(left));
  std::size_t asked = 0;
  for (const auto& request : requests) asked += request.empty() ? 0 : 1;
  // One that is cut is told why, perhaps about a request that is not complete: a stranger may send less than others.
  ATOLL_FUZZ_CHECK(session.closing() ? answered <= asked + 1 : answered == asked);
}

}  // namespace
}  // namespace atoll::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  atoll::fuzz::quiet_logging();
  atoll::fuzz::run(data, size);
  return 0;
}
