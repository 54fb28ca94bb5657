// Which of the items of an attempt has a hash.
#pragma once

#include "atoll/detail/namespace.hpp"

#include <bit>
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <vector>

namespace atoll::txn {

/// Numbers of items by the lower halves of their hashes, in one small array: what an attempt looks up again and again.
///
/// Thread-safety: none.
/// Invariants:
///   1. Less than half of the places are taken, so that a search ends.
class HashIndex {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  HashIndex(std::pmr::memory_resource* memory, std::size_t items)
      : places_(std::bit_ceil(2 * items), Place{}, memory) {}

  /// The item of this hash of which `is_it(number)` is true; kNone: there is none.
  template <typename IsIt>
  [[nodiscard]] std::uint32_t find(std::uint64_t hash, IsIt&& is_it) const {
    for (std::size_t at = hash & mask();; at = (at + 1) & mask()) {
      const Place& place = places_[at];
      if (place.item == kNone) return kNone;
      if (place.hash == std::uint32_t(hash) && is_it(place.item)) return place.item;
    }
  }
  /// REQUIRES: the item is not there.
  void add(std::uint64_t hash, std::uint32_t item) {
    if (2 * (size_ + 1) >= places_.size()) grow();
    put({std::uint32_t(hash), item});
    ++size_;
  }

 private:
  struct Place {  // small: an attempt begins with many of them, and may need few
    std::uint32_t hash = 0;
    std::uint32_t item = kNone;
  };
  [[nodiscard]] std::size_t mask() const noexcept { return places_.size() - 1; }
  void put(const Place& place) {
    std::size_t at = place.hash & mask();
    while (places_[at].item != kNone) at = (at + 1) & mask();
    places_[at] = place;
  }
  void grow() {
    const std::pmr::vector<Place> old = std::move(places_);
    places_ = std::pmr::vector<Place>(2 * old.size(), Place{}, old.get_allocator());
    for (const Place& place : old) {
      if (place.item != kNone) put(place);
    }
  }

  std::pmr::vector<Place> places_;
  std::size_t size_ = 0;
};

}  // namespace atoll::txn
