// The bare round trip that misses are compared with: two processes, a word each way through shared memory, 512
// bytes copied into the reply, and the same way of waiting as Atoll's. No protocol, no directory, no queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/fd.hpp"

namespace atoll::bench {

inline constexpr std::uint32_t kBareBytes = 512;  // Atoll's default line

/// Which bytes a reply copies.
enum class BareLines : std::uint8_t {
  kHot,   // always the same, to the same place: both stay in the processor's caches
  kCold,  // others each time, out of 16 MiB and to a place of their own: as much memory is touched as by cold reads
};

/// Thread-safety: none; one thread of each of the two processes uses it.
class Bare {
 public:
  /// A file that both processes map; it is inherited by what this process starts.
  static base::Fd make_file();
  /// `file`: from make_file; the mapping stays when it is closed. Throws Error.
  explicit Bare(int file);
  ~Bare();
  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;

  /// The median time of `count` round trips in ns. The other process must call serve alike at the same time.
  [[nodiscard]] double ping(std::uint32_t count, BareLines lines);
  void serve(std::uint32_t count, BareLines lines);

 private:
  struct Shared;
  Shared* shared_;
  std::vector<std::byte> served_;  // what the replies are copied from
};

}  // namespace atoll::bench
