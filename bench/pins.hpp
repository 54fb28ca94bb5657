// Loops over pinned views.
#pragma once

#include <cstdint>

#include "atoll/array.hpp"

namespace atoll::bench {

/// The sum of the elements from `first` to `end`, view by view.
[[gnu::noinline]] inline std::uint64_t sum_pinned(const Array<std::uint64_t>& array, std::uint64_t first,
                                                  std::uint64_t end) {
  std::uint64_t total = 0;
  array
      .read_chunks(first, end - first,
                   [&](std::uint64_t, std::span<const std::uint64_t> view) {
                     for (const std::uint64_t element : view) total += element;
                   })
      .or_throw();
  return total;
}

/// Stores i to each element i from `first` to `end`, view by view.
[[gnu::noinline]] inline void store_pinned(const Array<std::uint64_t>& array, std::uint64_t first, std::uint64_t end) {
  array
      .write_chunks(first, end - first,
                    [](std::uint64_t i, std::span<std::uint64_t> view) {
                      for (std::uint64_t& element : view) element = i++;
                    })
      .or_throw();
}

/// Adds one to each element from `first` to `end`, view by view.
[[gnu::noinline]] inline void add_pinned(const Array<std::uint64_t>& array, std::uint64_t first, std::uint64_t end) {
  array
      .operate_chunks(first, end - first, op::add<std::uint64_t>,
                      [](std::uint64_t, std::span<std::uint64_t> view) {
                        for (std::uint64_t& operand : view) ++operand;
                      })
      .or_throw();
}

}  // namespace atoll::bench
