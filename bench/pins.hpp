// Loops over pinned views, for arrays that have them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "atoll/array.hpp"

namespace atoll::bench {

template <typename A>
concept Pinnable = requires(const A& array, std::uint64_t i) {
  array.pin_read(i).status().or_throw();
  array.pin_read(i).span().data();
  array.pin_read(i).end();
  array.pin_write(i).span().data();
};

/// The sum of the elements from `first` to `end`, view by view. REQUIRES: both are borders of chunks.
template <typename A>
[[gnu::noinline]] std::uint64_t sum_pinned(const A& array, std::uint64_t first, std::uint64_t end) {
  std::uint64_t total = 0;
  if constexpr (Pinnable<A>) {
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
  if constexpr (Pinnable<A>) {
    while (first < end) {
      auto view = array.pin_write(first);
      view.status().or_throw();
      for (auto& element : view.span()) element = first++;
      first = view.end();
    }
  }
}

}  // namespace atoll::bench
