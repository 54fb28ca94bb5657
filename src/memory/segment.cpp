#include "memory/segment.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/units.hpp"
#include "wire/message.hpp"

namespace atoll::memory {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHuge = 2ull << 20;
constexpr std::uint64_t kDirectoryEntryBytes = 32;
constexpr std::uint32_t kRingSlots = 1024;
constexpr std::uint64_t kRingHeaderBytes = 128;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

void lay_out(SegmentLayout& header, const Options& options, NodeId nodes) {
  header.line_bytes = options.line_bytes;
  header.nodes = nodes;
  header.ring_slots = kRingSlots;
  header.file_bytes = round_up(options.file_space_bytes, 1ull << 20);
  header.memory_bytes = round_up(options.memory_bytes, 1ull << 20) + header.file_bytes;
  header.cache_bytes = round_up(options.cache_bytes, options.line_bytes);
  header.rings_offset = round_up(sizeof(SegmentHeader), kPage);
  const std::uint64_t ring = kRingHeaderBytes + std::uint64_t(kRingSlots) * sizeof(wire::Message);
  header.directory_offset = round_up(header.rings_offset + ring * nodes, kPage);
  const std::uint64_t entries = header.memory_bytes / options.line_bytes;
  header.lines_offset = round_up(header.directory_offset + entries * kDirectoryEntryBytes, kPage);
  header.cache_offset = round_up(header.lines_offset + entries * sizeof(detail::Line), kHuge);
  header.memory_offset = round_up(header.cache_offset + header.cache_bytes, kHuge);
  header.total_bytes = round_up(header.memory_offset + header.memory_bytes, kHuge);
}

void check_options(const Options& options) {
  if (!std::has_single_bit(options.line_bytes) || options.line_bytes < 64 || options.line_bytes > 4096) {
    throw Error(fmt::format("a line of {} bytes: give a power of two from 64 to 4096", options.line_bytes));
  }
  if (options.memory_bytes < (1ull << 20) || options.memory_bytes > GlobalAddress::kOffsetMask + 1) {
    throw Error(fmt::format("memory of {}: give at least 1M, at most 1T", base::format_bytes(options.memory_bytes)));
  }
  if (options.file_space_bytes > GlobalAddress::kOffsetMask + 1 - options.memory_bytes) {
    throw Error(fmt::format("file space of {}: at most 1T together with the memory",
                            base::format_bytes(options.file_space_bytes)));
  }
  if (options.cache_bytes < 64ull * options.line_bytes || options.cache_bytes / options.line_bytes > UINT32_MAX / 2) {
    throw Error(fmt::format("a cache of {}: give at least 64 lines", base::format_bytes(options.cache_bytes)));
  }
  if (options.evict_below_percent > options.evict_until_percent || options.evict_until_percent > 90) {
    throw Error(fmt::format("eviction from {} % free on until {} %: give the lesser first, and 90 at most",
                            options.evict_below_percent, options.evict_until_percent));
  }
}

/// The layout as it is now: who brought the segment can change it while it is looked at.
SegmentLayout copy_layout(const SegmentLayout& shared) noexcept {
  SegmentLayout layout;
  std::memcpy(&layout, &shared, sizeof(layout));
  std::atomic_signal_fence(std::memory_order_seq_cst);  // from here on it is the copy that counts
  return layout;
}

/// Whether a peer's layout is the one that its own numbers lead to, and fills the file. Throws Error if not.
void check_layout(const SegmentLayout& found, std::uint64_t file_bytes, SegmentLayout& checked) {
  if (found.magic != kSegmentMagic || found.version != checked.version)
    throw Error("a peer's segment has another version");
  if (found.nodes == 0 || found.nodes >= kNoNode) throw Error("a peer's segment is for no possible cluster");
  Options options;
  options.line_bytes = found.line_bytes;
  if (found.file_bytes > found.memory_bytes) throw Error("a peer's segment has more files than memory");
  options.memory_bytes = found.memory_bytes - found.file_bytes;
  options.file_space_bytes = found.file_bytes;
  options.cache_bytes = found.cache_bytes;
  check_options(options);
  lay_out(checked, options, NodeId(found.nodes));
  if (checked != found || checked.total_bytes != file_bytes) {
    throw Error("a peer's segment has a header that contradicts itself");
  }
}

}  // namespace

Segment::Segment(Segment&& other) noexcept {
  *this = std::move(other);
}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(huge_, other.huge_);
  std::swap(huge_cache_, other.huge_cache_);
  std::swap(can_join_, other.can_join_);
  std::swap(asked_, other.asked_);
  std::swap(layout_, other.layout_);
  return *this;
}

Segment::~Segment() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

/// Maps the file, if it can be at an address that huge pages can stand at.
///
/// Room is looked for and given back, and then asked for by its address: in between another thread may get it, and then
/// the file goes anywhere. (Mapping over a reservation that is held would leave a hole for others when it fails.)
bool Segment::map(int fd, std::uint64_t bytes, int extra_flags) noexcept {
  const int flags = MAP_SHARED | extra_flags;
  void* at = MAP_FAILED;
  void* const room = ::mmap(nullptr, bytes + kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room != MAP_FAILED) {
    ::munmap(room, bytes + kHuge);
    auto* const aligned = reinterpret_cast<void*>(round_up(reinterpret_cast<std::uint64_t>(room), kHuge));
    at = ::mmap(aligned, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, fd, 0);
  }
  if (at == MAP_FAILED) at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (at == MAP_FAILED) return false;
  base_ = static_cast<std::byte*>(at);
  bytes_ = bytes;
  return true;
}

/// A memfd of this size, mapped. False with errno when the system does not give it.
bool Segment::make(std::uint64_t bytes, bool huge) noexcept {
  fd_ = base::Fd(::memfd_create("atoll", MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0)));
  // Sealed: a segment that shrank under its peers would kill them. Huge pages are reserved when they are mapped, so
  // that a pool that is too small shows now and not as a signal later.
  return fd_.valid() && ::ftruncate(fd_.get(), off_t(bytes)) == 0 &&
         ::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0 &&
         map(fd_.get(), bytes, huge ? 0 : MAP_NORESERVE);
}

Segment Segment::create(const Options& options, NodeId nodes) {
  check_options(options);
  SegmentLayout wanted;
  lay_out(wanted, options, nodes);
  Segment segment;
  // Pages of files come and go one by one, which huge pages of the system's pool cannot.
  segment.huge_ = wanted.file_bytes == 0 && segment.make(wanted.total_bytes, true);
  if (!segment.huge_ && !segment.make(wanted.total_bytes, false)) {
    throw Error(fmt::format("cannot make a segment of {}: {}. Give less --memory, or raise the limit on address space "
                            "(ulimit -v)",
                            base::format_bytes(wanted.total_bytes), std::strerror(errno)),
                Errc::kOutOfMemory);
  }
  static_cast<SegmentLayout&>(*new (segment.base_) SegmentHeader) = wanted;
  segment.layout_ = wanted;
  segment.asked_.resize(segment.bytes_ / kHuge);
  return segment;
}

Segment Segment::open(const base::Fd& fd) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw Error(fmt::format("a peer's segment: {}", std::strerror(errno)));
  const auto bytes = std::uint64_t(info.st_size);
  if (bytes < sizeof(SegmentHeader)) throw Error("a peer's segment is too small to be one");
  // Touching what is mapped but was cut off since is a signal, and our death.
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) throw Error("a peer's segment is not sealed: it could shrink");
  Segment segment;
  if (!segment.map(fd.get(), bytes, MAP_NORESERVE)) {
    throw Error(fmt::format("cannot map a peer's segment of {}: {}. Raise the limit on address space (ulimit -v)",
                            base::format_bytes(bytes), std::strerror(errno)),
                Errc::kOutOfMemory);
  }
  check_layout(copy_layout(segment.header()), bytes, segment.layout_);
  // The records of its lines are the owner's; they are next to the cache slots, which we write to.
  const SegmentLayout& layout = segment.layout_;
  if (::mprotect(segment.directory(), layout.cache_offset - layout.directory_offset, PROT_READ) != 0) {
    throw Error(fmt::format("cannot protect a peer's segment: {}", std::strerror(errno)), Errc::kOutOfMemory);
  }
  return segment;
}

void Segment::join_cache_pages() noexcept {
  if (huge_ || cache_bytes() < kHuge / 2) return;
  join_pages(cache(), cache_bytes());
  huge_cache_ = can_join_ && memory_bytes() >= kHuge;
}

void Segment::join_pages(const std::byte* begin, std::uint64_t bytes) noexcept {
#ifdef MADV_COLLAPSE
  if (huge_ || reinterpret_cast<std::uint64_t>(base_) % kHuge != 0) return;
  if (memory_bytes() < kHuge) return;  // so small that it would take more memory than it brings
  const std::atomic_ref can_join(can_join_);
  const std::uint64_t end = std::min(std::uint64_t(begin - base_) + bytes, asked_.size() * kHuge);
  for (std::uint64_t part = std::uint64_t(begin - base_) / kHuge; part * kHuge < end; ++part) {
    if (!can_join.load(std::memory_order_relaxed)) return;
    if (std::atomic_ref(asked_[part]).exchange(1, std::memory_order_relaxed) != 0) continue;
    // The kernel joins small pages into a huge one when it is asked to, whatever its settings for shared memory are;
    // but there must be a page to begin with.
    std::byte* const page = base_ + part * kHuge;
    std::atomic_ref(*reinterpret_cast<std::uint8_t*>(page)).fetch_add(0, std::memory_order_relaxed);
    if (::madvise(page, kHuge, MADV_COLLAPSE) != 0) can_join.store(false, std::memory_order_relaxed);
  }
#endif
}

void Segment::discard(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  // Best effort: what is not given back is memory that is missed, and nothing else.
  (void)::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(layout_.memory_offset + offset),
                    off_t(bytes));
}

void Segment::populate_cache() const noexcept {
#ifdef MADV_POPULATE_WRITE
  (void)::madvise(cache(), cache_bytes(), MADV_POPULATE_WRITE);
#endif
}

}  // namespace atoll::memory
