#include "metrics/histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.hpp"

namespace atoll::metrics {
namespace {

/// A bucket of [2^(bits-1) * w, ...) is w wide: its error is less than 2^-(bits-1) of the value.
unsigned bits_for(int digits) {
  return unsigned(std::bit_width(std::uint64_t(std::pow(10, digits)) - 1)) + 1;
}

}  // namespace

Histogram::Histogram(int digits, std::uint64_t highest) : bits_(bits_for(digits)), highest_(highest) {
  counts_.resize(index_of(highest) + 1);
}

void Histogram::record(std::uint64_t value, std::uint64_t count) noexcept {
  if (count == 0) return;
  value = std::min(value, highest_);
  counts_[index_of(value)] += count;
  count_ += count;
  sum_ += double(value) * double(count);
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
}

void Histogram::merge(const Histogram& other) noexcept {
  ATOLL_CHECK(bits_ == other.bits_ && highest_ == other.highest_);
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

std::uint64_t Histogram::percentile(double percent) const noexcept {
  constexpr double kRounding = 1e-12;  // so that 99.9 % of 1000 are 999
  const double wanted = std::ceil(percent / 100 * double(count_) * (1 - kRounding));
  const std::uint64_t rank = std::clamp<std::uint64_t>(std::uint64_t(std::max(wanted, 0.0)), 1, count_ + 1);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size() && count_ > 0; ++i) {
    seen += counts_[i];
    if (seen >= rank) return std::clamp(value_of(i), min_, max_);
  }
  return max();
}

std::vector<Histogram::Bucket> Histogram::buckets() const {
  std::vector<Bucket> result;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] > 0) result.push_back({std::min(value_of(i), max_), counts_[i]});
  }
  return result;
}

std::size_t Histogram::index_of(std::uint64_t value) const noexcept {
  if (value < (std::uint64_t{1} << bits_)) return value;
  const unsigned shift = unsigned(std::bit_width(value)) - bits_;
  // (value >> shift) is from 2^(bits-1) to 2^bits.
  return (std::uint64_t{shift} << (bits_ - 1)) + (value >> shift);
}

std::uint64_t Histogram::value_of(std::size_t index) const noexcept {
  if (index < (std::size_t{1} << bits_)) return index;
  const unsigned shift = unsigned(index >> (bits_ - 1)) - 1;
  const std::uint64_t top = index - (std::uint64_t{shift} << (bits_ - 1));
  return ((top + 1) << shift) - 1;
}

}  // namespace atoll::metrics
