#include "bench/buffer/pages.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/fd.hpp"

namespace atoll::bench {

namespace {
constexpr std::uint64_t kPagesAtOnce = 256;
}

void make_page_file(const std::string& path, std::uint64_t pages) {
  const base::Fd fd(::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
  if (!fd.valid()) throw Error(fmt::format("cannot make {}: {}", path, std::strerror(errno)));
  constexpr std::uint64_t kWords = kPageBytes / sizeof(std::uint64_t);
  std::vector<std::uint64_t> words(kPagesAtOnce * kWords);
  for (std::uint64_t page = 0; page < pages; page += kPagesAtOnce) {
    const std::uint64_t count = std::min(kPagesAtOnce, pages - page);
    for (std::uint64_t i = 0; i < count; ++i) std::fill_n(words.data() + i * kWords, kWords, page + i);
    if (::write(fd.get(), words.data(), count * kPageBytes) != ssize_t(count * kPageBytes)) {
      throw Error(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
    }
  }
  drop_page_cache(path);
}

void drop_page_cache(const std::string& path) {
  const base::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) throw Error(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  (void)::fdatasync(fd.get());  // what is not written yet cannot be dropped
  (void)::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
}

}  // namespace atoll::bench
