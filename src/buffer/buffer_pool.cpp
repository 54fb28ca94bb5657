// What is done with a pool's files as a whole. Pages are fixed in the header: a fix that hits is a lock that hits.
#include "atoll/buffer_pool.hpp"

namespace atoll {

Result<std::uint32_t> BufferPool::add_file(std::string_view path, FileOptions options) noexcept {
  options.page_bytes = page_bytes_;
  Result<File> opened = node_->open_file(path, options);
  if (!opened.ok()) return opened.status();
  files_.push_back(std::move(opened).value());
  return std::uint32_t(files_.size() - 1);
}

Status BufferPool::resize(std::uint32_t file, std::uint64_t pages) noexcept {
  if (file >= files_.size()) return {Errc::kInvalidArgument, "the pool has no such file"};
  return files_[file].resize(pages * page_bytes_);
}

Status BufferPool::prefetch(PageId first, std::uint64_t count) noexcept {
  if (const Status status = check(first); !status.ok()) return status;
  const std::uint64_t there = std::min(count, pages(first.file) - first.page);
  return node_->prefetch(address_of(first), there * page_bytes_);
}

Status BufferPool::flush(std::uint32_t file) noexcept {
  if (file >= files_.size()) return {Errc::kInvalidArgument, "the pool has no such file"};
  if (const Status status = files_[file].refresh(); !status.ok()) return status;
  return files_[file].flush();
}

Status BufferPool::flush() noexcept {
  Status all;
  for (std::uint32_t file = 0; file < files_.size(); ++file) {
    const Status status = flush(file);
    if (all.ok()) all = status;
  }
  return all;
}

}  // namespace atoll
