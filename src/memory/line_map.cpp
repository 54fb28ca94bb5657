#include "memory/line_map.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/check.hpp"
#include "base/units.hpp"

namespace atoll::memory {

using coherence::DirEntry;
using coherence::LineRef;
using detail::HotWord;
using detail::Line;

namespace {
constexpr std::uint64_t kSlabBytes = 1 << 20;  // a node's memory is a multiple of it

/// Where the element of address 0 would be, so that an address, shifted, is the index: the subtraction is done once,
/// here, and not in every access.
template <typename T>
std::uint64_t displaced(const T* first, std::uint64_t by) {
  return reinterpret_cast<std::uint64_t>(first) - by * sizeof(T);
}

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHugePage = 2 << 20;
}  // namespace

LineMap::LineMap(NodeId self, std::uint32_t line_bytes, const std::vector<Extent>& extents, std::byte* memory,
                 std::byte* directory, bool fenced, detail::Home* homes)
    : self_(self),
      line_bytes_(line_bytes),
      memory_(memory),
      fenced_(fenced),
      directory_(reinterpret_cast<DirEntry*>(directory)),
      nodes_(NodeId(extents.size())),
      homes_(homes) {
  const auto shift = std::uint32_t(std::countr_zero(line_bytes));
  for (std::size_t node = 0; node < extents.size(); ++node) {
    const std::uint64_t count = extents[node].memory_bytes >> shift;
    // Zero pages are valid lines of another node: invalid, unlocked, without a slot. Only `quiet` reads as
    // kInUse, which costs one needless barrier and nothing else.
    auto* words = static_cast<HotWord*>(reserve(count * sizeof(HotWord)));
    auto* lines = static_cast<Line*>(reserve(count * sizeof(Line)));
    const std::uint64_t base = GlobalAddress::make(NodeId(node), 0).bits();
    homes_[node] = {displaced(words, base >> shift), base + extents[node].memory_bytes, shift,
                    displaced(lines, base >> shift)};
    memory_bytes_.push_back(extents[node].memory_bytes);
  }
  table_ = {homes_, line_bytes - 1};
}

/// Address space that costs memory only where it is touched. Aligned to huge pages where it is large enough to fill
/// some: a random access that misses the processor's caches should not miss its address translation twice.
void* LineMap::reserve(std::uint64_t bytes) {
  const std::uint64_t alignment = bytes >= kHugePage / 2 ? kHugePage : kPage;
  const std::uint64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  const std::uint64_t mapped = rounded + alignment;
  void* at = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    throw Error(
        fmt::format("cannot reserve {} for the table of lines: {}. Raise the limit on address space (ulimit -v)",
                    base::format_bytes(bytes), std::strerror(errno)),
        Errc::kOutOfMemory);
  }
  reservations_.push_back({at, mapped});
  const std::uint64_t start = (reinterpret_cast<std::uint64_t>(at) + alignment - 1) / alignment * alignment;
  void* aligned = reinterpret_cast<void*>(start);
  if (alignment == kHugePage) (void)::madvise(aligned, rounded, MADV_HUGEPAGE);
  return aligned;
}

LineMap::~LineMap() {
  for (NodeId node = 0; node < nodes_; ++node) homes_[node] = {};
  for (const Reservation& r : reservations_) ::munmap(r.at, r.bytes);
}

bool LineMap::contains(GlobalAddress address, std::uint64_t bytes) const noexcept {
  if (address.node() >= nodes_ || address.kind() != GlobalAddress::Kind::kMemory) return false;
  const std::uint64_t memory = memory_bytes_[address.node()];
  return address.offset() < memory && bytes <= memory - address.offset();
}

/// Gives the lines of one megabyte of this node's memory their data and their directory entries. Not all at once when
/// the node joins: most of a large memory may never be used.
void LineMap::open_slab(std::uint64_t slab) {
  const std::uint64_t per_slab = kSlabBytes / line_bytes_;
  const detail::Home& home = homes_[self_];
  for (std::uint64_t i = slab * per_slab; i < (slab + 1) * per_slab; ++i) {
    const GlobalAddress address = GlobalAddress::make(self_, i * line_bytes_);
    HotWord* word = home.word_of(address.bits());
    // Not made anew: a thread that tries the lock word on its way here does so without the engine lock.
    home.line_of(address.bits())->quiet = Line::kUnused;
    word->set_bytes(address, memory_ + i * line_bytes_);
    word->set_fenced(fenced_);
    new (&directory_[i]) DirEntry;
  }
}

LineRef LineMap::ref(GlobalAddress address) {
  const detail::Found found = detail::find_line(table_, address.bits());
  ATOLL_CHECK(found.word != nullptr);
  LineRef ref{GlobalAddress(found.base), found.line, found.word, nullptr};
  if (address.node() == self_) {
    if (!found.word->has_bytes()) open_slab(address.offset() / kSlabBytes);
    ref.directory = &directory_[ref.address.offset() / line_bytes_];
  } else if (fenced_ && !found.word->fenced()) {
    found.word->set_fenced(true);
  }
  return ref;
}

}  // namespace atoll::memory
