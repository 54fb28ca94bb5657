#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "atoll/atoll.hpp"
#include "bench/board.hpp"
#include "bench/darray.hpp"
#include "bench/pins.hpp"
#include "bench/refcount.hpp"
#include "bench/zipf.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {
namespace {

using Words = Array<std::uint64_t>;

/// The array, and what the systems need beside it.
struct Stage {
  Node& node;
  Words& array;
  Words& lines;                       // the same in chunks of one line of the heap, for reads without a cache
  std::vector<std::uint64_t> plain;   // ordinary memory of the same size
  ChunkEntries entries;               // for reference counting
  std::vector<std::uint32_t> places;  // by Zipf's law; empty when no point needs them
  double seconds;                     // of a run that is not one pass
};

/// How long a thread goes on.
struct TimeLimits {
  double least = 0;  // seconds: passes over the array are repeated so long
  double most = 0;   // seconds: then it ends, in the middle of a pass if need be
};

// Loops that look at the clock now and then. `touch(i)` returns what it has read, or 0.

constexpr std::uint64_t kBatch = 1024;     // accesses between two looks at the clock,
constexpr std::uint64_t kSlowBatch = 32;   // where they may have to wait for others
constexpr std::uint64_t kDraws = 1 << 16;  // of places by Zipf's law

template <typename Touch>
std::uint64_t in_order(std::uint64_t words, const TimeLimits& limits, bool reads, Touch&& touch) {
  const Clock::time_point start = Clock::now();
  std::uint64_t done = 0;
  do {
    std::uint64_t i = 0, sum = 0;
    while (i < words && seconds_since(start) < limits.most) {
      for (const std::uint64_t end = std::min(words, i + kBatch); i < end; ++i) sum += touch(i);
    }
    if (reads) expect_sum(sum, i * (i - 1) / 2);
    done += i;
  } while (seconds_since(start) < limits.least);
  return done;
}

template <typename Next, typename Touch>
std::uint64_t at_random(double seconds, std::uint64_t batch, bool reads, Next&& next, Touch&& touch) {
  const Clock::time_point start = Clock::now();
  std::uint64_t done = 0;
  while (seconds_since(start) < seconds) {
    for (std::uint64_t k = 0; k < batch; ++k) {
      const std::uint64_t i = next();
      const std::uint64_t found = touch(i);
      if (reads && found != i) [[unlikely]]
        expect_sum(found, i);
    }
    done += batch;
  }
  return done;
}

/// One thread's part of a point.
class Worker {
 public:
  Worker(Stage& stage, const DarrayPoint& point, unsigned thread)
      : stage_(stage), point_(point), random_(stage.node.id() * 64u + thread + 1) {}

  /// Operations that were done.
  std::uint64_t run() {
    switch (point_.access) {
      case Access::kRead: return read();
      case Access::kWrite: return write();
      case Access::kOperate: return operate();
    }
    return 0;
  }

 private:
  std::uint64_t read() {
    Words& array = stage_.array;
    switch (point_.system) {
      case System::kNative:
        return walk([at = stage_.plain.data()](std::uint64_t i) {
          return std::atomic_ref(at[i]).load(std::memory_order_relaxed);  // atomic, so that it is not vectorised
        });
      case System::kAtoll: return walk([&](std::uint64_t i) { return array.get(i).value(); });
      case System::kPinned: return pinned();
      case System::kRefcount:
        return walk([&](std::uint64_t i) {
          ChunkEntry& entry = stage_.entries.of(i);
          entry.acquire(is_readable);
          const std::uint64_t value = array.get(i).value();
          entry.release();
          return value;
        });
      case System::kUncached: return walk([&](std::uint64_t i) { return read_uncached(i); });
      case System::kLock:
      case System::kAtomic: break;
    }
    throw Error("no such system for reads");
  }

  std::uint64_t write() {
    Words& array = stage_.array;
    switch (point_.system) {
      case System::kNative:
        return walk([at = stage_.plain.data()](std::uint64_t i) {
          std::atomic_ref(at[i]).store(i, std::memory_order_relaxed);
          return std::uint64_t{0};
        });
      case System::kAtoll: return walk([&](std::uint64_t i) { return checked(array.set(i, i)); });
      case System::kPinned: return pinned();
      case System::kRefcount:
        return walk([&](std::uint64_t i) {
          ChunkEntry& entry = stage_.entries.of(i);
          entry.acquire(is_writable);
          const Status status = array.set(i, i);
          entry.release();
          return checked(status);
        });
      case System::kUncached:
      case System::kLock:
      case System::kAtomic: break;
    }
    throw Error("no such system for writes");
  }

  std::uint64_t operate() {
    Words& array = stage_.array;
    Node& node = stage_.node;
    switch (point_.system) {
      case System::kNative:
        return walk([at = stage_.plain.data()](std::uint64_t i) {
          std::atomic_ref(at[i]).fetch_add(1, std::memory_order_relaxed);
          return std::uint64_t{0};
        });
      case System::kAtoll: return walk([&](std::uint64_t i) { return checked(array.apply(i, kAdd, 1)); });
      case System::kPinned: return pinned();
      case System::kRefcount:
        return walk([&](std::uint64_t i) {
          ChunkEntry& entry = stage_.entries.of(i);
          entry.acquire([](ChunkState state) { return state != ChunkState::kInvalid; });
          const Status status = array.apply(i, kAdd, 1);
          entry.release();
          return checked(status);
        });
      case System::kLock:
        return walk([&](std::uint64_t i) {
          const WriteGuard guard(node, array.at(i));
          guard.status().or_throw();
          return checked(node.write(array.at(i), node.read(array.at(i)).value() + 1));
        });
      case System::kAtomic:
        return walk([&](std::uint64_t i) {
          keep(node.fetch_add(array.at(i), 1).value());
          return std::uint64_t{0};
        });
      case System::kUncached: break;
    }
    throw Error("no such system for operators");
  }

  static constexpr auto kAdd = op::add<std::uint64_t>;
  static std::uint64_t checked(const Status& status) {
    if (!status.ok()) [[unlikely]]
      status.or_throw();
    return 0;
  }

  /// Another node's element at its home: the whole line is read, which Atoll never keeps.
  std::uint64_t read_uncached(std::uint64_t i) {
    Node& node = stage_.node;
    const GlobalAddress address = stage_.lines.at(i).address();
    if (address.node() == node.id()) return node.read<std::uint64_t>(address).value();
    const std::uint64_t into_line = address.bits() % line_.size();
    node.read(GlobalAddress(address.bits() - into_line), std::span(line_)).or_throw();
    std::uint64_t value = 0;
    std::memcpy(&value, line_.data() + into_line, sizeof(value));
    return value;
  }

  /// Chunk by chunk; in order only.
  std::uint64_t pinned() {
    const Words& array = stage_.array;
    const Clock::time_point start = Clock::now();
    const double most = limits().most;
    std::uint64_t i = 0, sum = 0;
    while (i < array.size() && seconds_since(start) < most) {
      const std::uint64_t end = std::min(array.size(), i + 8 * ChunkEntries::kChunk);
      switch (point_.access) {
        case Access::kRead: sum += sum_pinned(array, i, end); break;
        case Access::kWrite: store_pinned(array, i, end); break;
        case Access::kOperate: add_pinned(array, i, end); break;
      }
      i = end;
    }
    if (point_.access == Access::kRead) expect_sum(sum, i * (i - 1) / 2);
    return i;
  }

  template <typename Touch>
  std::uint64_t walk(Touch&& touch) {
    const bool reads = point_.access == Access::kRead;
    const std::uint64_t words = stage_.array.size();
    const std::uint64_t batch = point_.system == System::kNative ? kBatch : kSlowBatch;
    switch (point_.places) {
      case Places::kInOrder: return in_order(words, limits(), reads, touch);
      case Places::kUniform:
        return at_random(
            stage_.seconds, batch, reads, [&] { return random_.next() * words >> 32; }, touch);
      case Places::kZipf:
        return at_random(
            stage_.seconds, batch, reads, [&] { return stage_.places[drawn_++ % kDraws]; }, touch);
    }
    return 0;
  }

  /// Ordinary memory is never cold, and soon passed: many passes of it are one measurement.
  [[nodiscard]] TimeLimits limits() const noexcept {
    constexpr double kLeastOfNative = 0.02;
    return {point_.system == System::kNative ? kLeastOfNative : 0, 10 * stage_.seconds};
  }

  Stage& stage_;
  const DarrayPoint& point_;
  Lcg random_;
  std::uint64_t drawn_ = 0;
  std::vector<std::byte> line_ = std::vector<std::byte>(stage_.node.line_bytes());
};

/// All threads of this node at once; nothing when the point is node 0's alone and this is another.
Tally run_threads(Stage& stage, const DarrayPoint& point) {
  Tally all;
  if (point.alone && stage.node.id() != 0) return all;
  std::vector<Tally> tallies(point.threads);
  std::vector<std::exception_ptr> thrown(point.threads);
  const auto work = [&](unsigned t) {
    try {
      Worker worker(stage, point, t);
      tallies[t].begun_ns = now_ns();
      tallies[t].operations = worker.run();
      stage.node.fence().or_throw();
      tallies[t].ended_ns = now_ns();
    } catch (...) {
      thrown[t] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned t = 1; t < point.threads; ++t) others.emplace_back(work, t);
    work(0);
  }
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
  for (const Tally& tally : tallies) all.add(tally);
  return all;
}

/// Writes i to every element i, by its home: no node has a copy of another's element after that. Returns what the
/// elements of this node held beyond i: the operators that reached them.
std::uint64_t make_cold(Stage& stage) {
  stage.node.barrier().or_throw();
  std::uint64_t more = 0;
  std::vector<std::uint64_t> piece(512);
  for (std::uint64_t at = stage.array.local_begin(); at < stage.array.local_end(); at += piece.size()) {
    stage.array.read(at, piece).or_throw();
    for (std::uint64_t i = 0; i < piece.size(); ++i) {
      more += piece[i] - (at + i);
      piece[i] = at + i;
    }
    stage.array.write(at, piece).or_throw();
  }
  for (std::uint64_t i = 0; i < stage.plain.size(); ++i) stage.plain[i] = i;
  stage.node.fence().or_throw();
  stage.node.barrier().or_throw();
  return more;
}

/// Lines of the board that a node may have to fetch to add up.
constexpr std::uint64_t kOfTheBoard = 64;

/// Once: what all nodes together have done, from a cold array on, or, at random places, from a cache that is filled.
Tally run_once(Stage& stage, Board& board, const DarrayPoint& point) {
  (void)make_cold(stage);
  std::uint64_t expected = 0;
  if (point.places != Places::kInOrder) expected += board.sum(run_threads(stage, point)).operations;
  const std::uint64_t misses = stage.node.stats().read_misses;
  const Tally all = board.sum(run_threads(stage, point));
  if (point.system == System::kUncached && stage.node.stats().read_misses > misses + kOfTheBoard) {
    throw Error("what was to be read without a cache was cached");
  }
  expected += all.operations;
  if (point.access == Access::kOperate && point.system != System::kNative) {
    const Tally reached{make_cold(stage), 0, 0};
    if (const std::uint64_t found = board.sum(reached).operations; found != expected) {
      throw Error(fmt::format("{} operands were applied, and {} arrived", expected, found));
    }
  }
  return all;
}

/// One measurement, in million operations per second. What is soon done is done several times.
double measure(Stage& stage, Board& board, const DarrayPoint& point) {
  constexpr int kMost = 8;
  double operations = 0, ns = 0;
  for (int i = 0; i < kMost && ns < stage.seconds * 1e9 / 3; ++i) {  // the same on all nodes: so is the sum
    const Tally all = run_once(stage, board, point);
    operations += double(all.operations);
    ns += double(all.ended_ns - all.begun_ns);
  }
  return operations * 1e3 / ns;
}

}  // namespace

void run_darray_node() {
  const nlohmann::json job = cluster::current_job();
  const auto points = job.at("points").get<std::vector<DarrayPoint>>();
  const auto labels = job.at("labels").get<std::vector<std::string>>();
  const auto words = job.at("words").get<std::uint64_t>();
  const int repetitions = job.at("repetitions").get<int>();
  Node node;
  const bool tells = node.id() == 0;
  Board board(node);
  Words array(node, words);
  Words lines(node, words, {.chunk = std::uint32_t(node.line_bytes() / sizeof(std::uint64_t))});
  for (std::uint64_t i = array.local_begin(); i < array.local_end(); ++i) array.set(i, i).or_throw();
  for (std::uint64_t i = lines.local_begin(); i < lines.local_end(); ++i) lines.set(i, i).or_throw();
  Stage stage{
      node, array, lines, std::vector<std::uint64_t>(words), ChunkEntries(words), {}, job.at("seconds").get<double>()};
  const bool zipf =
      std::any_of(points.begin(), points.end(), [](const DarrayPoint& point) { return point.places == Places::kZipf; });
  if (zipf) stage.places = zipf_places(words, kDraws, node.id() + 1u);
  Progress progress(job.at("done").get<int>(), job.at("total").get<int>());
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (tells) progress.begin(labels[i]);
    Samples samples{labels[i], node.count(), {}, {}};
    for (int repetition = 0; repetition < repetitions; ++repetition) {
      if (tells) progress.step(repetition + 1, repetitions);
      samples.values.push_back(measure(stage, board, points[i]));
    }
    if (tells) cluster::report(job, samples);
  }
}

}  // namespace atoll::bench
