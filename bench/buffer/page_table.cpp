#include "bench/buffer/page_table.hpp"

#include "atoll/status.hpp"

namespace atoll::bench {
namespace {

/// Mixes all bits into the upper ones (a round of MurmurHash3's finish).
std::uint64_t hash_of(std::uint64_t key) noexcept {
  key ^= key >> 33;
  key *= 0xff51afd7ed558ccdu;
  key ^= key >> 33;
  key *= 0xc4ceb9fe1a85ec53u;
  return key ^ key >> 33;
}

}  // namespace

template <typename Page, typename Fix, typename Visit>
bool PageTable::probe(std::uint64_t key, Fix&& fix, Visit&& visit) {
  const std::uint64_t first = hash_of(key) % slots();
  std::uint64_t page = first / per_page_, at = first % per_page_;
  for (std::uint64_t seen = 0; seen <= pages_; ++seen, page = page + 1 == pages_ ? 0 : page + 1, at = 0) {
    const Page fixed = fix(PageId{file_, page});
    fixed.status().or_throw();
    using Place = std::conditional_t<std::is_same_v<Page, SharedPage>, const Slot, Slot>;
    auto* const places = reinterpret_cast<Place*>(fixed.bytes().data());
    for (; at < per_page_; ++at) {
      if (visit(places[at])) return true;
    }
  }
  return false;
}

bool PageTable::put(std::uint64_t key, std::uint64_t value) {
  bool fresh = false;
  const auto fix = [this](PageId page) { return pool_.fix_exclusive(page); };
  const bool placed = probe<ExclusivePage>(key, fix, [&](Slot& slot) {
    if (slot.key != key && slot.key != 0) return false;
    fresh = slot.key == 0;
    slot = {key, value};
    return true;
  });
  if (!placed) throw Error("the table is full");
  return fresh;
}

std::optional<std::uint64_t> PageTable::get(std::uint64_t key) {
  std::optional<std::uint64_t> found;
  const auto fix = [this](PageId page) { return pool_.fix_shared(page); };
  (void)probe<SharedPage>(key, fix, [&](const Slot& slot) {
    if (slot.key == key) found = slot.value;
    return slot.key == key || slot.key == 0;
  });
  return found;
}

}  // namespace atoll::bench
