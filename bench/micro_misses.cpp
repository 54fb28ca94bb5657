// Cases that need the other node: what a miss costs against a bare round trip, and how fast lines stream.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/random.hpp"
#include "bench/native.hpp"
#include "bench/pair.hpp"

namespace atoll::bench {
namespace {

constexpr double kMiB = 1 << 20;

/// The first words of all lines of `area` in an order that no read-ahead can guess.
std::vector<std::uint64_t> shuffled_lines(const Pair& pair, const Area& area) {
  const std::uint64_t step = pair.node.line_bytes() / sizeof(std::uint64_t);
  std::vector<std::uint64_t> words(area.count / step);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i * step;
  std::shuffle(words.begin(), words.end(), base::Random(7));
  return words;
}

std::vector<Samples> read_cold(Pair& pair) {
  const Area area = pair.cold.part(pair.quick ? kFarWords / 16 : kFarWords / 4);
  const std::vector<std::uint64_t> lines = shuffled_lines(pair, area);
  Samples samples{"read_cold", pair.node.count(), {}, {}};
  Samples to_lines{"read_cold_lines", pair.node.count(), {}, {}};
  pair.repeat([&] {
    pair.make_cold(area);
    pair.alone([&] {
      std::vector<double> times;
      times.reserve(lines.size());
      for (const std::uint64_t at : lines) {
        const Clock::time_point start = Clock::now();
        const std::uint64_t found = pair.node.read(area.first + std::int64_t(at)).value();
        times.push_back(seconds_since(start) * 1e9);
        if (found != at) throw Error(fmt::format("read {} where {} was written", found, at));
      }
      samples.values.push_back(median(std::move(times)));
    });
    samples.baselines.push_back(pair.bare_round_trip());
    to_lines.baselines.push_back(pair.bare_round_trip(BareLines::kCold));
  });
  to_lines.values = samples.values;
  return {samples, to_lines};
}

/// Seconds to read `area` by pieces of 4 KiB.
double stream(Pair& pair, const Area& area) {
  std::vector<std::uint64_t> piece(kPieceWords);
  const Clock::time_point start = Clock::now();
  for (std::uint64_t at = 0; at < area.count; at += kPieceWords) {
    pair.node.read((area.first + std::int64_t(at)).address(), std::as_writable_bytes(std::span(piece))).or_throw();
    if (piece.front() != at || piece.back() != at + kPieceWords - 1) {
      throw Error(fmt::format("read {} where {} was written", piece.front(), at));
    }
  }
  return seconds_since(start);
}

std::vector<Samples> stream_cold(Pair& pair) {
  const Area area = pair.cold;
  const double mib = double(area.count * sizeof(std::uint64_t)) / kMiB;
  std::vector<std::uint64_t> from(area.count), into(area.count), piece(kPieceWords);
  native_store(from);
  native_store(into);
  const auto rate = [mib](auto&& work) {
    const Clock::time_point start = Clock::now();
    work();
    return mib / seconds_since(start);
  };
  Samples samples{"stream_cold", pair.node.count(), {}, {}};
  Samples pieces{"stream_cold_pieces", pair.node.count(), {}, {}};
  const auto once = [&](bool counts) {
    pair.make_cold(area);
    pair.alone([&] {
      const double ours = mib / stream(pair, area);
      const double streamed = rate([&] { native_stream(from, piece); });
      const double buffer_to_buffer =
          rate([&] { std::memcpy(into.data(), from.data(), from.size() * sizeof(from[0])); });
      keep(into.data());
      if (!counts) return;
      samples.values.push_back(ours);
      samples.baselines.push_back(buffer_to_buffer);
      pieces.values.push_back(ours);
      pieces.baselines.push_back(streamed);
    });
  };
  once(false);  // the first one touches the pages of the cache
  pair.repeat([&] { once(true); });
  return {samples, pieces};
}

/// Million writes per second, one for each line of `area`, until all are done.
double write_lines(Pair& pair, const Area& area, const std::vector<std::uint64_t>& lines, Consistency consistency) {
  const Clock::time_point start = Clock::now();
  for (const std::uint64_t at : lines) {
    const Status status = pair.node.write(area.first + std::int64_t(at), at, consistency);
    if (!status.ok()) [[unlikely]]
      status.or_throw();
  }
  pair.node.fence().or_throw();
  return double(lines.size()) / seconds_since(start) / 1e6;
}

/// Each line is written twice, and the second time counts. The first (write_pso_first) is also about what is neither
/// order's: what the nodes know of the lines is in no processor's cache, and the other node was just woken, as a rule
/// where this one runs, which the system notices after some milliseconds.
std::vector<Samples> write_pso(Pair& pair) {
  const Area area = pair.cold.part(pair.quick ? kFarWords / 16 : kFarWords / 4);
  const std::vector<std::uint64_t> lines = shuffled_lines(pair, area);
  Samples second{"write_pso", pair.node.count(), {}, {}};
  Samples first{"write_pso_first", pair.node.count(), {}, {}};
  const auto measure = [&](Consistency consistency, std::vector<double> Samples::*rates) {
    pair.make_cold(area);
    pair.alone([&] {
      (first.*rates).push_back(write_lines(pair, area, lines, consistency));
      (second.*rates).push_back(write_lines(pair, area, lines, consistency));
    });
  };
  pair.repeat([&] {
    for (int i = 0; i < 5; ++i) {  // it is soon done, and the system has its moods
      measure(Consistency::kPso, &Samples::values);
      measure(Consistency::kTso, &Samples::baselines);
    }
  });
  return {second, first};
}

/// Node 0 chooses a moment soon, both wait for it awake. Without that, the one that a barrier wakes first would be done
/// with thousands of operations before the other begins. steady_clock is one clock for all processes of a host.
Clock::time_point start_together(Pair& pair) {
  constexpr std::chrono::milliseconds kSoon{2};
  if (pair.measures()) {
    const Clock::duration at = (Clock::now() + kSoon).time_since_epoch();
    pair.node.write(pair.notes.first, std::uint64_t(at.count())).or_throw();
  }
  pair.together();
  const Clock::time_point start{Clock::duration(pair.node.read(pair.notes.first).value())};
  while (Clock::now() < start) __builtin_ia32_pause();
  return start;
}

/// Both nodes do `increment` to one word for a while; the time of each in ns, against bare round trips.
template <typename Increment>
Samples both_at_once(Pair& pair, const char* name, Increment increment) {
  const std::chrono::milliseconds duration(pair.quick ? 200 : 500);
  Samples samples{name, pair.node.count(), {}, {}};
  pair.repeat([&] {
    if (pair.measures()) pair.node.write(pair.word.first, 0).or_throw();
    const Clock::time_point start = start_together(pair);
    std::uint64_t mine = 0;
    while (Clock::now() < start + duration) {
      constexpr std::uint64_t kBatch = 8;  // so that looking at the clock costs little of it
      for (std::uint64_t i = 0; i < kBatch; ++i) increment();
      mine += kBatch;
    }
    const double took = seconds_since(start);
    pair.node.write(pair.notes.first + pair.node.id(), mine).or_throw();
    pair.together();
    std::uint64_t total = 0;
    for (NodeId i = 0; i < pair.node.count(); ++i) total += pair.node.read(pair.notes.first + i).value();
    if (const std::uint64_t found = pair.node.read(pair.word.first).value(); found != total) {
      throw Error(fmt::format("{}: {} increments were counted as {}", name, total, found));
    }
    samples.values.push_back(took * 1e9 / double(total));
    samples.baselines.push_back(pair.bare_round_trip());
  });
  return samples;
}

std::vector<Samples> lock_contended(Pair& pair) {
  const auto counter = pair.word.first;
  return {both_at_once(pair, "lock_contended", [&pair, counter] {
    pair.node.write_lock(counter.address(), sizeof(std::uint64_t)).or_throw();
    pair.node.write(counter, pair.node.read(counter).value() + 1).or_throw();
    pair.node.unlock(counter.address(), sizeof(std::uint64_t)).or_throw();
  })};
}

std::vector<Samples> atomic_bounce(Pair& pair) {
  const auto counter = pair.word.first;
  return {both_at_once(pair, "atomic_bounce", [&pair, counter] { keep(pair.node.fetch_add(counter, 1).value()); })};
}

constexpr PairCase kCases[] = {
    {"read_cold", read_cold},           {"stream_cold", stream_cold},     {"write_pso", write_pso},
    {"lock_contended", lock_contended}, {"atomic_bounce", atomic_bounce},
};

}  // namespace

std::span<const PairCase> miss_cases() {
  return kCases;
}

}  // namespace atoll::bench
