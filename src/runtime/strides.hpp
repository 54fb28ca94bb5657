// How a thread's reads follow each other: forwards, backwards, in steps.
#pragma once

#include <algorithm>
#include <cstdint>

#include "atoll/detail/namespace.hpp"

namespace atoll::runtime {

/// Guesses which lines a thread will read next from those that it has read.
///
/// Lines are numbers; neighbours differ by one. A run is lines at one distance from each other, its stride, in either
/// direction; one in between may be missing. Neighbours in ascending order are a run at once, all else when the
/// distance comes for the third time: random reads practically never make one. What is asked for ahead grows while the
/// run lasts, and begins anew with the next.
///
/// Thread-safety: none; it is one thread's own.
class Strides {
 public:
  static constexpr std::int64_t kMaxStride = 64;
  static constexpr std::uint32_t kFirstWindow = 8;
  static constexpr std::uint32_t kRepeats = 2;

  /// The thread has read the lines from `first` to `last`.
  void note(std::uint64_t first, std::uint64_t last) noexcept {
    if (first >= first_ && last <= last_) return;  // again
    const bool apart = first > last_ || last < first_;
    const std::int64_t step = !apart ? 0 : first > last_ ? std::int64_t(first - last_) : -std::int64_t(first_ - last);
    const std::uint64_t lines = last - first + 1;
    first_ = first;
    last_ = last;
    if (step != 0 && (step == stride_ || step == 2 * stride_)) {
      const std::uint64_t passed = std::uint64_t(step / stride_) + (stride_ == 1 || stride_ == -1 ? lines - 1 : 0);
      ahead_ -= std::uint32_t(std::min<std::uint64_t>(ahead_, passed));
      is_run_ = is_run_ || ++repeated_ == kRepeats;
    } else {
      stride_ = step >= -kMaxStride && step <= kMaxStride ? step : 0;
      is_run_ = step == 1;
      repeated_ = 0;
      window_ = ahead_ = 0;
    }
  }

  /// Would a read of this line go on with neighbours that were read in this order?
  [[nodiscard]] bool goes_on_with(std::uint64_t line) const noexcept {
    return line - last_ - 1 <= 1 || (stride_ == -1 && first_ - line - 1 <= 1);
  }

  /// Lines to fetch: `count` of them, at this distance from each other.
  struct Wish {
    std::uint64_t first = 0;
    std::int64_t stride = 0;
    std::uint32_t count = 0;
  };
  /// What to fetch now, if up to `most` lines may be under way.
  [[nodiscard]] Wish wish(std::uint32_t most) const noexcept {
    const std::uint32_t window = std::min(window_ == 0 ? kFirstWindow : window_, most);
    if (!is_run_ || window == 0 || ahead_ > window / 2) return {};
    const std::uint64_t edge = stride_ > 0 ? last_ : first_;
    return {edge + std::uint64_t(stride_) * (ahead_ + 1), stride_, window - ahead_};
  }
  /// So many lines of the wish were asked for.
  void asked(std::uint32_t count, std::uint32_t most) noexcept {
    ahead_ += count;
    window_ = std::min(2 * (window_ == 0 ? kFirstWindow : window_), most);
  }

 private:
  std::uint64_t first_ = 0, last_ = 0;  // lines of the last read
  std::int64_t stride_ = 0;             // from one read to the next; 0: none
  std::uint32_t window_ = 0;            // lines that may be asked for ahead; 0: the run has just begun
  std::uint32_t ahead_ = 0;             // lines asked for beyond the last read
  std::uint32_t repeated_ = 0;          // how often the stride has come again, until it is a run
  bool is_run_ = false;
};

}  // namespace atoll::runtime
