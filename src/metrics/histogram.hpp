// How values are distributed, in bounded memory: counts in buckets whose width grows with the value, as in HDR
// histograms.
#pragma once

#include <cstdint>
#include <vector>

#include "atoll/detail/namespace.hpp"

namespace atoll::metrics {

/// Counts of values from 0 to `highest`. What it says about a value is never more than 10^-digits of it too much, and
/// exact for small ones.
///
/// Thread-safety: none; threads have one each, and merge them.
/// Invariants:
///   1. Values below 2^bits have a bucket each; beyond, each doubling of the value has 2^(bits - 1) buckets.
///   2. `count()` is the sum of all buckets.
class Histogram {
 public:
  static constexpr std::uint64_t kHour = 3'600'000'000'000;  // in nanoseconds

  /// REQUIRES: 1 <= digits <= 5; 0 < highest < 2^62.
  explicit Histogram(int digits = 3, std::uint64_t highest = kHour);

  /// What is beyond `highest` is counted as that.
  void record(std::uint64_t value, std::uint64_t count = 1) noexcept;
  /// REQUIRES: made with the same arguments.
  void merge(const Histogram& other) noexcept;

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// Of what was recorded, exactly; 0 when nothing was.
  [[nodiscard]] std::uint64_t min() const noexcept { return count_ == 0 ? 0 : min_; }
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }
  [[nodiscard]] double mean() const noexcept { return count_ == 0 ? 0 : sum_ / double(count_); }
  /// The least value that `percent` of all values do not exceed, up to the error. 0 when nothing was recorded.
  /// REQUIRES: 0 <= percent <= 100.
  [[nodiscard]] std::uint64_t percentile(double percent) const noexcept;

  /// The buckets that are not empty, in order. `record` of all of them makes a histogram with the same percentiles.
  struct Bucket {
    std::uint64_t value = 0;  // the largest that it may have counted
    std::uint64_t count = 0;
  };
  [[nodiscard]] std::vector<Bucket> buckets() const;
  [[nodiscard]] std::size_t memory_bytes() const noexcept { return counts_.size() * sizeof(counts_[0]); }

 private:
  [[nodiscard]] std::size_t index_of(std::uint64_t value) const noexcept;
  /// The largest value of a bucket.
  [[nodiscard]] std::uint64_t value_of(std::size_t index) const noexcept;

  unsigned bits_;
  std::uint64_t highest_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  std::uint64_t min_ = UINT64_MAX;
  std::uint64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace atoll::metrics
