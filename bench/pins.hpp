// Loops over pinned views, for arrays that have them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "atoll/array.hpp"

namespace atoll::bench {

template <typename A>
concept HasReadPins = requires(const A& array, std::uint64_t i) {
  array.pin_read(i).status().or_throw();
  array.pin_read(i).span().data();
  array.pin_read(i).end();
};
template <typename A>
concept HasWritePins = requires(const A& array, std::uint64_t i) {
  array.pin_write(i).status().or_throw();
  array.pin_write(i).span().data();
  array.pin_write(i).end();
};

/// The sum of the elements from `first` to `end`, view by view. REQUIRES: both are borders of chunks.
template <typename A>
[[gnu::noinline]] std::uint64_t sum_pinned(const A& array, std::uint64_t first, std::uint64_t end) {
  std::uint64_t total = 0;
  if constexpr (HasReadPins<A>) {
    while (first < end) {
      const auto view = array.pin_read(first);
      view.status().or_throw();
      for (const auto& element : view.span()) total += element;
      first = view.end();
    }
  }
  return total;
}

/// Stores i to each element i from `first` to `end`, view by view. REQUIRES: both are borders of chunks.
template <typename A>
[[gnu::noinline]] void store_pinned(const A& array, std::uint64_t first, std::uint64_t end) {
  if constexpr (HasWritePins<A>) {
    while (first < end) {
      auto view = array.pin_write(first);
      view.status().or_throw();
      for (auto& element : view.span()) element = first++;
      first = view.end();
    }
  }
}

}  // namespace atoll::bench
