// Which files are open, and where their lines are.
#include <algorithm>
#include <bit>
#include <filesystem>

#include "base/check.hpp"
#include "base/log.hpp"
#include "runtime/files.hpp"

namespace atoll::runtime {

namespace {

constexpr std::uint64_t kLeastReserved_bytes = 64ull << 20;
constexpr std::uint32_t kLeastPage_bytes = 512;

constexpr std::uint64_t whole_grains(std::uint64_t bytes) noexcept {
  return (bytes + detail::kGrainBytes - 1) / detail::kGrainBytes * detail::kGrainBytes;
}

/// One name for one file, however it is written.
std::string name_of(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(path, error);
  return error ? path : whole.string();
}

}  // namespace

Files::Open* Files::find(std::uint64_t offset) noexcept {
  auto next = open_.upper_bound(offset);
  if (next == open_.begin()) return nullptr;
  Open& file = std::prev(next)->second;
  return offset - file.first < file.reserved ? &file : nullptr;
}

Result<Files::Open*> Files::open(const std::string& path, const FileOptions& options, NodeId user, bool* fresh) {
  *fresh = false;
  if (!std::has_single_bit(options.page_bytes) || options.page_bytes < kLeastPage_bytes ||
      options.page_bytes > detail::kGrainBytes) {
    return {Errc::kInvalidArgument, "pages of a file are a power of two from 512 bytes to 64 KiB", self_};
  }
  if (options.reserve_bytes > GlobalAddress::kOffsetMask) {
    return {Errc::kOutOfMemory, "more is to be reserved than any node has addresses", self_};
  }
  const std::string name = name_of(path);
  for (auto& [first, file] : open_) {
    if (file.path != name) continue;
    if (options.exclusive) return {Errc::kAlreadyExists, "the file is there, and open", self_};
    if (options.page_bytes != file.line_bytes)
      return {Errc::kInvalidArgument, "the file is open with pages of another size", self_};
    if (file.read_only && !options.read_only)
      return {Errc::kInvalidArgument, "the file is open to be read only", self_};
    ++file.users[user];
    return &file;
  }
  storage::PageFileOptions how;
  how.create = options.create;
  how.exclusive = options.exclusive;
  how.read_only = options.read_only;
  how.direct = options.direct;
  how.whole = options.whole_pages;
  how.page_bytes = std::max<std::uint32_t>(options.page_bytes, kBlockBytes);
  const Result<storage::FileNumber> number = store_->open(name, how);
  if (!number.ok()) return {number.status().code(), number.status().what(), self_};
  const std::uint64_t bytes = store_->bytes(*number);
  const std::uint64_t wanted = options.reserve_bytes != 0 ? options.reserve_bytes : 2 * bytes;
  const std::uint64_t reserved =
      whole_grains(std::max({wanted, bytes, options.reserve_bytes != 0 ? 0 : kLeastReserved_bytes}));
  const auto place =
      std::find_if(free_.begin(), free_.end(), [&](const auto& part) { return part.second >= reserved; });
  if (place == free_.end()) {
    (void)store_->close(*number);
    return {Errc::kOutOfMemory, "no address space for the file: join with more --file-space, or reserve less", self_};
  }
  const auto [first, room] = *place;
  free_.erase(place);
  if (room > reserved) free_[first + reserved] = room - reserved;
  Open& file = open_[first];
  file = {*number, name, first, reserved, bytes, options.page_bytes, how.page_bytes, options.read_only, false, {}, 0};
  file.users.resize(nodes_);
  ++file.users[user];
  *fresh = true;
  return &file;
}

Status Files::close(Open& file) {
  const Status closed = store_->close(file.number);
  // Its pages are not remembered: another file may stand there next.
  for (std::uint64_t at = 0; at < file.reserved; at += kBlockBytes) {
    const std::uint64_t number = (file.first - heap_bytes_ + at) / kBlockBytes;
    queue_.forget(number);
  }
  std::uint64_t first = file.first, bytes = file.reserved;
  open_.erase(first);
  auto next = free_.lower_bound(first);
  if (next != free_.end() && first + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == first) {
    std::prev(next)->second += bytes;
  } else {
    free_[first] = bytes;
  }
  return closed.ok() ? Status() : Status(closed.code(), closed.what(), self_);
}

Status Files::resize(Open& file, std::uint64_t bytes) {
  if (file.read_only) return {Errc::kInvalidArgument, "the file is open to be read only", self_};
  if (bytes > file.reserved) {
    return {Errc::kOutOfMemory, "more than was reserved for the file when it was opened", self_};
  }
  if (const Status status = store_->resize(file.number, bytes); !status.ok()) {
    return {status.code(), status.what(), self_};
  }
  file.bytes = bytes;
  return {};
}

Status Files::unlink(const std::string& path) {
  const std::string name = name_of(path);
  for (const auto& [first, file] : open_) {
    if (file.path == name) return {Errc::kRefused, "the file is open: close it everywhere first", self_};
  }
  const Status status = store_->unlink(name);
  return status.ok() ? status : Status(status.code(), status.what(), self_);
}

}  // namespace atoll::runtime
