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
using detail::kSlabShift;
using detail::Line;

LineMap::LineMap(NodeId self, std::uint32_t line_bytes, const std::vector<Extent>& extents, std::byte* memory,
                 std::byte* directory)
    : self_(self),
      line_bytes_(line_bytes),
      memory_(memory),
      directory_(reinterpret_cast<DirEntry*>(directory)),
      slabs_(extents.size()),
      homes_(extents.size()) {
  const auto shift = std::uint32_t(std::countr_zero(line_bytes));
  for (std::size_t node = 0; node < extents.size(); ++node) {
    const std::uint64_t lines = extents[node].memory_bytes >> shift;
    const std::uint64_t bytes = lines * sizeof(Line);
    // Zero pages are valid lines of another node: invalid, unlocked, without a slot. Only `quiet` reads as
    // kInUse, which costs one needless barrier and nothing else.
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
      throw Error(fmt::format("cannot reserve {} for the line table of node {}: {}. Raise the limit on address space "
                              "(ulimit -v)", base::format_bytes(bytes), node, std::strerror(errno)),
                  Errc::kOutOfMemory);
    }
    (void)::madvise(at, bytes, MADV_HUGEPAGE);
    reservations_.push_back({at, bytes});
    slabs_[node].resize(extents[node].memory_bytes >> kSlabShift);
    const std::uint64_t per_slab = (std::uint64_t{1} << kSlabShift) >> shift;
    for (std::size_t s = 0; s < slabs_[node].size(); ++s) {
      slabs_[node][s] = {static_cast<Line*>(at) + s * per_slab, shift, 0};
    }
    homes_[node] = {slabs_[node].data(), extents[node].memory_bytes};
  }
  table_ = {homes_.data(), std::uint32_t(homes_.size())};
}

LineMap::~LineMap() {
  for (const Reservation& r : reservations_) ::munmap(r.at, r.bytes);
}

bool LineMap::contains(GlobalAddress address, std::uint64_t bytes) const noexcept {
  if (address.node() >= homes_.size() || address.kind() != GlobalAddress::Kind::kMemory) return false;
  const std::uint64_t memory = homes_[address.node()].bytes;
  return address.offset() < memory && bytes <= memory - address.offset();
}

/// Gives the lines of one slab of this node's memory their data and their directory entries.
void LineMap::open_slab(std::uint64_t slab) {
  const detail::Slab& s = slabs_[self_][slab];
  const std::uint64_t per_slab = (std::uint64_t{1} << kSlabShift) >> s.line_shift;
  for (std::uint64_t i = 0; i < per_slab; ++i) {
    Line* line = new (&s.lines[i]) Line;
    line->access.store(initial_access_, std::memory_order_relaxed);
    line->data = memory_ + (slab << kSlabShift) + (i << s.line_shift);
    new (&directory_[slab * per_slab + i]) DirEntry;
  }
}

LineRef LineMap::ref(GlobalAddress address) {
  const detail::Found found = detail::find_line(table_, address.bits());
  ATOLL_CHECK(found.line != nullptr);
  LineRef ref{GlobalAddress(found.base), found.line, nullptr};
  if (address.node() != self_) {
    if (initial_access_ != 0 && found.line->access.load(std::memory_order_relaxed) == 0) {
      found.line->access.store(initial_access_, std::memory_order_relaxed);
    }
  } else {
    if (found.line->data == nullptr) open_slab(address.offset() >> kSlabShift);
    ref.directory = &directory_[ref.address.offset() / line_bytes_];
  }
  return ref;
}

}  // namespace atoll::memory
