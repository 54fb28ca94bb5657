// Random reads of a file without a buffer pool: a plain io_uring program, and fio.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "atoll/detail/namespace.hpp"

namespace atoll::bench {

struct RawReads {
  std::string path;  // made by make_page_file
  std::uint64_t pages = 0;
  unsigned depth = 1;  // reads under way, of each thread
  unsigned threads = 1;
  double seconds = 1;
};

/// Reads per second of pages at random, around the system's page cache (O_DIRECT) where the file system can, each
/// checked. Throws Error.
[[nodiscard]] double uring_reads_per_s(const RawReads& reads);
/// The same by `fio --ioengine=io_uring`; none where there is no fio, or it cannot.
[[nodiscard]] std::optional<double> fio_reads_per_s(const RawReads& reads);

}  // namespace atoll::bench
