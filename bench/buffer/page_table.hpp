// A hash table in the pages of a file: what a program would build on a buffer pool first.
#pragma once

#include <cstdint>
#include <optional>

#include "atoll/buffer_pool.hpp"

namespace atoll::bench {

/// Open addressing with linear probing, 8-byte keys and values; key 0 is a free place. The file begins as zeros.
///
/// Thread-safety: any thread of any node, each with a pool of its node: a probe holds one page at a time, so two that
/// insert the same new key at once may both do so where it goes on into the next page.
class PageTable {
 public:
  struct Slot {
    std::uint64_t key = 0;
    std::uint64_t value = 0;
  };

  /// REQUIRES: the pool's file has `pages` pages.
  PageTable(BufferPool& pool, std::uint32_t file, std::uint64_t pages) noexcept
      : pool_(pool), file_(file), pages_(pages), per_page_(pool.page_bytes() / sizeof(Slot)) {}

  /// Inserts it, or replaces the value. True: it is new. Throws Error when there is no room, or the pool fails.
  /// REQUIRES: key != 0.
  bool put(std::uint64_t key, std::uint64_t value);
  [[nodiscard]] std::optional<std::uint64_t> get(std::uint64_t key);
  [[nodiscard]] std::uint64_t slots() const noexcept { return pages_ * per_page_; }

 private:
  /// `visit(slot)` for one after the other, from the key's place on, until it says true; false: it never did.
  template <typename Page, typename Fix, typename Visit>
  bool probe(std::uint64_t key, Fix&& fix, Visit&& visit);

  BufferPool& pool_;
  std::uint32_t file_;
  std::uint64_t pages_, per_page_;
};

}  // namespace atoll::bench
