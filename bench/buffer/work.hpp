// What the cases of `atoll bench buffer` share at a node.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "atoll/atoll.hpp"
#include "atoll/buffer_pool.hpp"
#include "bench/buffer/pages.hpp"
#include "bench/harness.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {

/// A group of cases at one node.
///
/// Thread-safety: none; every method but `measures`, `wants` and `report` is called by all nodes alike.
class BufferWork {
 public:
  BufferWork(Node& joined, const nlohmann::json& given)
      : node(joined),
        job(given),
        quick(given.at("quick").get<bool>()),
        repetitions(given.at("repetitions").get<int>()),
        frames(given.at("frames").get<std::uint64_t>()),
        folder(given.at("folder").get<std::string>()),
        cases_(given.at("cases").get<std::vector<std::string>>()) {}

  [[nodiscard]] bool measures() const noexcept { return node.id() == 0; }
  [[nodiscard]] bool wants(std::string_view name) const {
    return std::find(cases_.begin(), cases_.end(), name) != cases_.end();
  }
  void report(const Samples& samples) const {
    if (wants(samples.name) && !samples.values.empty()) cluster::report(job, samples);
  }
  void together() { node.barrier().or_throw(); }
  /// Runs `work` on node 0 while the others sleep in a barrier.
  template <typename Work>
  void alone(Work&& work) {
    together();
    if (measures()) work();
    together();
  }

  Node& node;
  const nlohmann::json& job;
  const bool quick;
  const int repetitions;
  const std::uint64_t frames;  // pages that have room in the memory of their home
  const std::string folder;

 private:
  std::vector<std::string> cases_;
};

/// A pool with one file, at `home`.
inline BufferPool open_pool(Node& node, const std::string& path, NodeId home = 0) {
  BufferPool pool(node, kPageBytes);
  FileOptions options;
  options.node = home;
  (void)pool.add_file(path, options).value();
  return pool;
}

/// Fixes the page, reads a line of it, and checks that.
inline void fix_and_check(BufferPool& pool, std::uint64_t page) {
  const SharedPage fixed = pool.fix_shared({0, page});
  fixed.status().or_throw();
  expect_sum(sum_of_line(fixed.bytes().data()), line_sum(page));
}

/// Random reads of a pool's file, with `depth` pages on their way ahead of the one that is fixed: how many pages.
[[nodiscard]] std::uint64_t read_ahead(BufferPool& pool, std::uint64_t pages, unsigned depth, double seconds,
                                       std::uint64_t seed);

/// `work(thread)` in so many threads: seconds. What one of them throws is thrown here.
template <typename Work>
double in_threads_s(unsigned count, Work&& work) {
  std::vector<std::exception_ptr> failures(count);
  std::vector<std::thread> threads;
  const Clock::time_point begun = Clock::now();
  for (unsigned t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      try {
        work(t);
      } catch (...) {
        failures[t] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = seconds_since(begun);
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return seconds;
}

// The groups.
void run_hits(BufferWork& work);    // hits.cpp
void run_disk(BufferWork& work);    // disk.cpp
void run_frames(BufferWork& work);  // frames.cpp
void run_remote(BufferWork& work);
void run_set(BufferWork& work);
void run_paper(BufferWork& work);   // paper.cpp
void run_hash(BufferWork& work);    // hash.cpp
void run_rivals(BufferWork& work);  // rivals.cpp

}  // namespace atoll::bench
