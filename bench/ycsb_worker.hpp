// What the threads of `atoll bench ycsb` do.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "atoll/node.hpp"
#include "bench/store.hpp"
#include "bench/ycsb_workload.hpp"
#include "metrics/histogram.hpp"

namespace atoll::bench::ycsb {

/// `work(t)` by that many threads, of which this is one. Throws what the first of them has thrown.
template <typename Work>
void in_threads(unsigned threads, Work&& work) {
  std::vector<std::exception_ptr> thrown(threads);
  const auto guarded = [&](unsigned t) {
    try {
      work(t);
    } catch (...) {
      thrown[t] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned t = 1; t < threads; ++t) others.emplace_back(guarded, t);
    guarded(0);
  }
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

/// Which of the workers of all nodes a thread is.
struct WorkerId {
  unsigned number = 0;
  unsigned workers = 1;  // of all nodes
};

/// Records beyond those that were loaded. Each worker inserts its own, and tells all others now and then how many they
/// are, so that everybody reads only what is there.
///
/// Thread-safety: a worker's methods are called by that worker alone.
class Inserted {
 public:
  /// All nodes together; `name` is another one for each store.
  Inserted(Node& node, const std::string& name, std::uint64_t loaded, unsigned workers);

  /// The record of a worker's insert with that number.
  [[nodiscard]] std::uint64_t record(unsigned worker, std::uint64_t number) const noexcept {
    return loaded_ + number * workers_ + worker;
  }
  [[nodiscard]] std::uint64_t loaded() const noexcept { return loaded_; }
  void tell(unsigned worker, std::uint64_t count);
  /// How many each worker told of.
  void look(std::vector<std::uint64_t>& counts) const;
  /// The record that is so far behind the last one, about: the last ones of all workers come first.
  [[nodiscard]] std::uint64_t latest(const std::vector<std::uint64_t>& counts, std::uint64_t behind) const noexcept;

 private:
  [[nodiscard]] GlobalAddress place_of(unsigned worker) const noexcept {
    return first_ + std::int64_t(worker * std::uint64_t{node_.line_bytes()});
  }
  Node& node_;
  std::uint64_t loaded_;
  unsigned workers_;
  GlobalAddress first_;  // a line for each worker
};

using Histograms = std::array<metrics::Histogram, kOperations>;

struct Limits {
  double seconds = 0;            // 0: no matter how long
  std::uint64_t operations = 0;  // 0: no matter how many
};

/// A thread that runs a workload on a store. Every value that it reads is checked: it throws Error when one is not all
/// of one put of the record, or when a record is not there.
///
/// Thread-safety: none.
class Worker {
 public:
  Worker(Store& store, Inserted& inserted, WorkerId id, const Mix& mix, std::size_t value_size, std::uint64_t seed);

  /// How many operations were done; how long each took, if that is wanted.
  std::uint64_t run(const Limits& limits, Histograms* histograms);

 private:
  static constexpr std::size_t kDraws = 1 << 16;
  static constexpr std::uint64_t kBatch = 32;      // operations between two looks at the clock
  static constexpr std::uint64_t kTellEvery = 16;  // inserts
  static constexpr std::uint64_t kLookEvery = 256;

  void execute(const Draw& draw, std::string_view key);
  void read(std::uint64_t record, std::string_view key);
  void update(std::uint64_t record, std::string_view key);
  void insert();
  void scan(const Draw& draw);
  void modify(std::uint64_t record, std::string_view key);
  [[nodiscard]] std::uint64_t next_stamp() noexcept { return std::uint64_t{id_.number} << 40 | ++stamps_; }

  Store& store_;
  Inserted& inserted_;
  WorkerId id_;
  bool latest_;
  std::vector<Draw> draws_;
  std::vector<Key> keys_;  // of draws_, where they are known beforehand
  std::size_t next_ = 0;
  std::uint64_t stamps_ = 0;
  std::uint64_t count_ = 0;  // of own inserts
  std::vector<std::uint64_t> counts_;
  std::uint64_t looked_ = 0;
  std::string found_, value_;
  std::vector<Key> scanned_;
  std::vector<std::string_view> views_;
};

/// Puts the worker's share of records 0 to `records`, which must be new. `told` hears now and then how much of it.
void load(Store& store, WorkerId id, std::uint64_t records, std::size_t value_size,
          const std::function<void(int percent)>& told);

/// What became of records.
struct Verdict {
  std::uint64_t right = 0;
  std::uint64_t missing = 0;
  std::uint64_t wrong = 0;  // no value of this record at all
  std::uint64_t stale = 0;  // a value, not the last one

  [[nodiscard]] bool ok() const noexcept { return missing + wrong + stale == 0; }
};
/// Compares each record below `records` with the stamp that it must have.
[[nodiscard]] Verdict verify(Store& store, std::uint64_t records,
                             const std::function<std::uint64_t(std::uint64_t record)>& stamp);

}  // namespace atoll::bench::ycsb
