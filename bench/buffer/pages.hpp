// Files of pages that the buffer pool and what it is compared with read alike.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "bench/harness.hpp"

namespace atoll::bench {

inline constexpr std::uint32_t kPageBytes = 4096;
inline constexpr std::uint32_t kCacheLine = 64;

/// Makes a file of so many pages; every word of page p is p. None of it stays in the system's page cache. Throws Error.
void make_page_file(const std::string& path, std::uint64_t pages);
/// What is read next comes from the disk. Throws Error.
void drop_page_cache(const std::string& path);

/// The first cache line of a page, as a sum: what every reader reads.
inline std::uint64_t sum_of_line(const std::byte* page) noexcept {
  std::uint64_t words[kCacheLine / sizeof(std::uint64_t)];
  std::memcpy(words, page, sizeof(words));
  std::uint64_t sum = 0;
  for (const std::uint64_t word : words) sum += word;
  return sum;
}
/// What it is for page `page` of a file of make_page_file.
inline std::uint64_t line_sum(std::uint64_t page) noexcept {
  return page * (kCacheLine / sizeof(std::uint64_t));
}

/// Pages at random, all alike; other ones for each seed.
class RandomPages {
 public:
  RandomPages(std::uint64_t pages, std::uint64_t seed) : pages_(pages), random_(seed * 0x9e3779b97f4a7c15u) {}
  std::uint64_t next() { return random_.next() * pages_ >> 32; }

 private:
  std::uint64_t pages_;
  Lcg random_;
};

}  // namespace atoll::bench
