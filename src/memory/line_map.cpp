#include "memory/line_map.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/check.hpp"
#include "base/units.hpp"
#include "coherence/line_version.hpp"

namespace atoll::memory {

using coherence::DirEntry;
using coherence::LineRef;
using detail::HotLine;
using detail::HotWord;
using detail::Line;

namespace {

/// From one node's hot words to the next one's.
constexpr std::uint64_t kHotStride = std::uint64_t{1} << (GlobalAddress::kNodeShift - detail::kHotShift);

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHugePage = 2 << 20;
}  // namespace

LineMap::LineMap(NodeId self, std::uint32_t line_bytes, const std::vector<Extent>& extents, const Own& own, bool fenced,
                 bool inlined_hits, std::function<void(const std::byte*, std::uint64_t)> before_use)
    : self_(self),
      line_bytes_(line_bytes),
      memory_(own.memory),
      fenced_(fenced),
      before_use_(std::move(before_use)),
      directory_(reinterpret_cast<DirEntry*>(own.directory)) {
  // A distance of 0 means "no bytes"; with addresses chosen at random this never happens.
  ATOLL_CHECK(reinterpret_cast<std::uint64_t>(own.memory) != GlobalAddress::make(self, 0).bits());
  const auto shift = std::uint32_t(std::countr_zero(line_bytes));
  if (inlined_hits && shift >= detail::kHotShift) reserve_hot_words(extents.size());
  // Zero pages are valid lines of another node: invalid, unlocked, without a slot. One reservation for all homes: a
  // process has a limited number of them.
  const auto record_bytes_of = [&](std::size_t node) -> std::uint64_t {
    if (node == self) return 0;
    return ((extents[node].memory_bytes >> shift) * sizeof(Line) + kPage - 1) / kPage * kPage;
  };
  std::uint64_t record_bytes = 0;
  for (std::size_t node = 0; node < extents.size(); ++node) record_bytes += record_bytes_of(node);
  std::byte* records = nullptr;
  if (record_bytes != 0) {
    records = static_cast<std::byte*>(reserve(record_bytes, 0));
    make_usable(records, record_bytes);
  }
  std::uint64_t grains = 0;
  for (const Extent& extent : extents) grains += extent.memory_bytes >> detail::kGrainShift;
  auto* larger = static_cast<std::uint8_t*>(reserve(grains, 0));
  make_usable(larger, grains);
  for (std::size_t node = 0; node < extents.size(); ++node) {
    larger_.push_back(larger);
    larger += extents[node].memory_bytes >> detail::kGrainShift;
    homes_.push_back(node == self ? own.lines : reinterpret_cast<Line*>(records));
    records += record_bytes_of(node);
    memory_bytes_.push_back(extents[node].memory_bytes);
    heap_bytes_.push_back(extents[node].memory_bytes - extents[node].file_bytes);
    std::memset(larger_[node] + (heap_bytes_[node] >> detail::kGrainShift), detail::kLargerClosed,
                extents[node].file_bytes >> detail::kGrainShift);
    if (table_.reads == nullptr) continue;
    const std::uint64_t words = extents[node].memory_bytes >> detail::kHotShift;
    make_usable(table_.reads + node * kHotStride, words * sizeof(HotWord));
    make_usable(table_.writes + node * kHotStride, words * sizeof(HotWord));
  }
  chunk_words_.resize(extents.size());
  table_.lines = homes_.data();
  table_.bytes = memory_bytes_.data();
  table_.larger = larger_.data();
  table_.nodes = extents.size();
  table_.line_shift = shift;
}

/// The hot words of all nodes, where inlined hits look for them. Only the first node of a process finds the place free.
void LineMap::reserve_hot_words(std::size_t nodes) {
  const std::uint64_t bytes = nodes * kHotStride * sizeof(HotWord);
  auto* const reads = static_cast<HotWord*>(reserve(bytes, detail::kHotReadsAt));
  auto* const writes = reads == nullptr ? nullptr : static_cast<HotWord*>(reserve(bytes, detail::kHotWritesAt));
  if (writes == nullptr) return;
  table_.reads = reads;
  table_.writes = writes;
}

/// Address space that reads as zeros and takes no memory: at `wanted` if that is given (nullptr when it is taken), else
/// anywhere. Aligned to huge pages where it is large enough to fill some: a random access that misses the processor's
/// caches should not miss its address translation twice.
void* LineMap::reserve(std::uint64_t bytes, std::uint64_t wanted) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  const std::uint64_t alignment = bytes >= kHugePage / 2 ? kHugePage : kPage;
  const std::uint64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  const std::uint64_t mapped = rounded + alignment;
  void* at = MAP_FAILED;
  if (wanted == 0) {
    at = ::mmap(nullptr, mapped, PROT_READ, kFlags, -1, 0);
  } else {
    at = ::mmap(reinterpret_cast<void*>(wanted), mapped, PROT_READ, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
    if (at == MAP_FAILED && errno == EEXIST) return nullptr;
    if (at != MAP_FAILED && reinterpret_cast<std::uint64_t>(at) != wanted) {  // an old kernel takes it for a hint
      ::munmap(at, mapped);
      return nullptr;
    }
  }
  if (at == MAP_FAILED) {
    throw Error(
        fmt::format("cannot reserve {} for the table of lines: {}. Raise the limit on address space (ulimit -v)",
                    base::format_bytes(bytes), std::strerror(errno)),
        Errc::kOutOfMemory);
  }
  reservations_.push_back({at, mapped});
  (void)::madvise(at, mapped, MADV_DONTDUMP);
  return reinterpret_cast<void*>((reinterpret_cast<std::uint64_t>(at) + alignment - 1) / alignment * alignment);
}

/// The part of a reservation that lines are really in; memory is still taken only where it is touched.
void LineMap::make_usable(void* at, std::uint64_t bytes) {
  const std::uint64_t rounded = (bytes + kPage - 1) / kPage * kPage;
  if (::mprotect(at, rounded, PROT_READ | PROT_WRITE) != 0) {
    throw Error(
        fmt::format("cannot use {} for the table of lines: {}", base::format_bytes(bytes), std::strerror(errno)),
        Errc::kOutOfMemory);
  }
  if (bytes >= kHugePage / 2) (void)::madvise(at, rounded, MADV_HUGEPAGE);
}

LineMap::~LineMap() {
  for (const Reservation& r : reservations_) ::munmap(r.at, r.bytes);
}

bool LineMap::contains(GlobalAddress address, std::uint64_t bytes) const noexcept {
  if (address.node() >= memory_bytes_.size() || address.kind() != GlobalAddress::Kind::kMemory) return false;
  const std::uint64_t memory = memory_bytes_[address.node()];
  return address.offset() < memory && bytes <= memory - address.offset();
}

/// Gives the lines of one megabyte of this node's memory their data and their directory entries. Not all at once when
/// the node joins: most of a large memory may never be used.
void LineMap::open_slab(std::uint64_t slab) {
  const std::uint64_t per_slab = kSlabBytes / line_bytes_;
  if (before_use_ && slab * kSlabBytes < heap_bytes_[self_]) {
    before_use_(memory_ + slab * kSlabBytes, kSlabBytes);
    before_use_(reinterpret_cast<const std::byte*>(directory_ + slab * per_slab), per_slab * sizeof(DirEntry));
    before_use_(reinterpret_cast<const std::byte*>(homes_[self_] + slab * per_slab), per_slab * sizeof(Line));
  }
  for (std::uint64_t i = slab * per_slab; i < (slab + 1) * per_slab; ++i) {
    const GlobalAddress address = GlobalAddress::make(self_, i * line_bytes_);
    // The Line is not made anew: a thread that tries the lock word on its way here does so without the engine lock.
    const HotLine hot = hot_line(address, line_bytes_);
    hot.set_bytes(address, memory_ + i * line_bytes_);
    hot.set_fenced(fenced_);
    new (&directory_[i]) DirEntry;
    if (is_file(address)) {  // nothing of it is here; until a file is opened there, nobody asks for it
      directory_[i].state = coherence::DirState::kStored;
      directory_[i].flags = coherence::kAsFiled;
      coherence::mark_away(homes_[self_][i]);
    }
  }
  if (open_.size() <= slab) open_.resize(slab + 1);
  open_[slab] = true;
}

HotLine LineMap::hot_line(GlobalAddress line, std::uint32_t bytes) const noexcept {
  const std::uint64_t index = line.bits() >> detail::kHotShift;
  Line& record = homes_[line.node()][line.offset() >> table_.line_shift];
  if (table_.reads == nullptr) return {record, nullptr, nullptr, 0};
  detail::ChunkWord chunk;
  const std::uint64_t grain = line.offset() >> detail::kGrainShift;
  if (bytes != line_bytes_ && grain < chunk_words_[line.node()].size()) {
    const GrainWords& words = chunk_words_[line.node()][grain];
    const std::uint64_t number = (line.offset() & (detail::kGrainBytes - 1)) / bytes;
    if (number < words.count) chunk = {words.first.word + number, words.first.zero};
  }
  return {record, table_.reads + index, table_.writes + index, bytes >> detail::kHotShift, chunk};
}

void LineMap::attach_words(GlobalAddress first, std::uint64_t bytes, std::span<HotWord> words, std::uint64_t zero) {
  const std::uint64_t begin = first.offset() >> detail::kGrainShift;
  const std::uint64_t count = bytes >> detail::kGrainShift;
  std::vector<GrainWords>& grains = chunk_words_[first.node()];
  if (grains.size() < begin + count) grains.resize(begin + count);
  const std::uint64_t per_grain = detail::kGrainBytes / (line_bytes_ << (larger_at(first) & detail::kLargerMask));
  for (std::uint64_t i = 0; i < count; ++i) {
    GrainWords& grain = grains[begin + i];
    for (std::uint64_t k = 0; k < grain.count; ++k) detail::store_shared(grain.first.word[k], HotWord{0});
    const std::span<HotWord> here = words.subspan(std::min(words.size(), i * per_grain));
    grain = {{here.data(), zero}, std::min(here.size(), per_grain)};
  }
}

void LineMap::set_larger(GlobalAddress first, std::uint64_t bytes, std::uint8_t larger) {
  const std::uint64_t begin = first.offset() >> detail::kGrainShift;
  const std::uint64_t end = begin + (bytes >> detail::kGrainShift);
  for (std::uint64_t grain = begin; grain < end; ++grain) {
    detail::store_shared(larger_[first.node()][grain], larger);
  }
}

void LineMap::prefetch(GlobalAddress first, std::uint32_t count) const noexcept {
  constexpr std::uint32_t kTogether = 64 / sizeof(Line);  // records that share a cache line; hot words share more
  static_assert(sizeof(Line) == sizeof(DirEntry));
  const std::uint64_t line = first.offset() >> table_.line_shift;
  const unsigned larger = larger_at(first) & detail::kLargerMask;
  for (std::uint32_t i = 0; i < count << larger; i += std::max(kTogether, 1u << larger)) {
    __builtin_prefetch(&homes_[first.node()][line + i], 1);
    if (first.node() == self_) __builtin_prefetch(&directory_[line + i], 1);
  }
  if (table_.reads == nullptr) return;
  __builtin_prefetch(&table_.reads[first.bits() >> detail::kHotShift], 1);
  __builtin_prefetch(&table_.writes[first.bits() >> detail::kHotShift], 1);
}

LineRef LineMap::ref(GlobalAddress address) {
  Line* const line = detail::find_line(table_, address.bits());
  ATOLL_CHECK(line != nullptr);
  const std::uint8_t larger = larger_at(address) & detail::kLargerMask;
  const std::uint32_t bytes = line_bytes_ << larger;
  const GlobalAddress first(address.bits() & ~std::uint64_t(bytes - 1));
  LineRef ref{first, line, hot_line(first, bytes), nullptr, larger, bytes};
  if (address.node() == self_) {
    if (!ref.hot.has_bytes()) open_slab(address.offset() / kSlabBytes);
    ref.directory = &directory_[ref.address.offset() / line_bytes_];
    ref.has_file = is_file(address);
  } else if (fenced_ && !ref.hot.fenced()) {
    ref.hot.set_fenced(true);
  }
  return ref;
}

}  // namespace atoll::memory
