#include "memory/allocator.hpp"

#include <algorithm>
#include <bit>

#include "atoll/detail/lab.hpp"
#include "base/check.hpp"

namespace atoll::memory {
namespace {

using Kind = PageInfo::Kind;

constexpr std::uint32_t kSpanPages = 16;  // 64 KiB
// A memory has at least this many spans' worth of pages: else the spans of a few classes would fill a small one.
constexpr std::uint32_t kSpansInMemory = 64;
constexpr std::uint64_t kMaxMemoryBytes = 1ull << 44;

// The treap's priorities: a bijection (the finalizer of MurmurHash3), so no two pages have the same.
std::uint32_t priority(std::uint32_t page) noexcept {
  page = (page ^ (page >> 16)) * 0x85ebca6bu;
  page = (page ^ (page >> 13)) * 0xc2b2ae35u;
  return page ^ (page >> 16);
}

std::uint64_t bytes_of(std::uint64_t pages) noexcept {
  return pages * Allocator::kPageBytes;
}

std::uint64_t pages_for(std::uint64_t bytes) noexcept {
  return (bytes + Allocator::kPageBytes - 1) / Allocator::kPageBytes;
}

std::uint32_t checked_pages(std::uint64_t memory_bytes, std::uint32_t line_bytes) {
  if (!std::has_single_bit(line_bytes) || line_bytes < 64 || line_bytes > 4096) {
    throw Error("the allocator needs lines of a power of two from 64 to 4096 bytes");
  }
  if (memory_bytes > kMaxMemoryBytes - Allocator::kPageBytes) {
    throw Error("a node's memory is limited to 16 TiB less a page");
  }
  return std::uint32_t(memory_bytes / Allocator::kPageBytes);
}

// Calls f(word, mask) for the words that hold bits [first, first + count), until it says false.
template <typename F>
void for_each_word(std::uint64_t first, std::uint64_t count, F f) {
  const std::uint64_t end = first + count;
  while (first < end) {
    const std::uint64_t bits = std::min(64 - first % 64, end - first);
    if (!f(first / 64, (~std::uint64_t{0} >> (64 - bits)) << (first % 64))) return;
    first += bits;
  }
}

}  // namespace

// ---- PagePool ----

PagePool::PagePool(std::uint32_t count) : count_(count), info_(std::size_t{count} + 1) {
  // Sentinels at both ends: no free run has to look whether it has a neighbour.
  info_[0].kind = Kind::kReserved;
  info_[count].kind = Kind::kReserved;
  if (count > 1) give(1, count - 1);
}

bool PagePool::before(std::uint32_t a, std::uint32_t b) const noexcept {
  return info_[a].pages != info_[b].pages ? info_[a].pages < info_[b].pages : a < b;
}

void PagePool::insert_run(std::uint32_t first, std::uint32_t pages) noexcept {
  PageInfo& run = info_[first];
  PageInfo& last = info_[first + pages - 1];
  run.kind = last.kind = Kind::kFree;
  run.pages = last.pages = pages;

  std::uint32_t* at = &root_;
  while (*at != 0 && priority(*at) > priority(first)) {
    at = before(first, *at) ? &info_[*at].left : &info_[*at].right;
  }
  // The subtree here is of lower priority: it is split into the two subtrees of the new node.
  std::uint32_t rest = *at;
  *at = first;
  std::uint32_t* lesser = &run.left;
  std::uint32_t* greater = &run.right;
  while (rest != 0) {
    if (before(rest, first)) {
      *lesser = rest;
      lesser = &info_[rest].right;
      rest = *lesser;
    } else {
      *greater = rest;
      greater = &info_[rest].left;
      rest = *greater;
    }
  }
  *lesser = *greater = 0;
}

void PagePool::remove_run(std::uint32_t first) noexcept {
  std::uint32_t* at = &root_;
  while (*at != first) {
    ATOLL_CHECK(*at != 0);
    at = before(first, *at) ? &info_[*at].left : &info_[*at].right;
  }
  std::uint32_t lesser = info_[first].left;
  std::uint32_t greater = info_[first].right;
  while (lesser != 0 && greater != 0) {
    if (priority(lesser) > priority(greater)) {
      *at = lesser;
      at = &info_[lesser].right;
      lesser = *at;
    } else {
      *at = greater;
      at = &info_[greater].left;
      greater = *at;
    }
  }
  *at = lesser != 0 ? lesser : greater;
  info_[first + info_[first].pages - 1].kind = Kind::kNone;
  info_[first].kind = Kind::kNone;
}

std::uint32_t PagePool::take(std::uint32_t pages) noexcept {
  std::uint32_t best = 0;
  for (std::uint32_t at = root_; at != 0;) {
    const bool fits = info_[at].pages >= pages;
    if (fits) best = at;
    at = fits ? info_[at].left : info_[at].right;
  }
  if (best == 0) return 0;
  const std::uint32_t length = info_[best].pages;
  remove_run(best);
  if (length > pages) insert_run(best + pages, length - pages);
  free_pages_ -= pages;
  return best;
}

void PagePool::give(std::uint32_t first, std::uint32_t pages) noexcept {
  free_pages_ += pages;
  if (info_[first + pages].kind == Kind::kFree) {
    const std::uint32_t next = first + pages;
    pages += info_[next].pages;
    remove_run(next);
  }
  if (info_[first - 1].kind == Kind::kFree) {
    const std::uint32_t length = info_[first - 1].pages;
    first -= length;
    pages += length;
    remove_run(first);
  }
  insert_run(first, pages);
}

std::uint32_t PagePool::largest_run() const noexcept {
  std::uint32_t at = root_;
  if (at == 0) return 0;
  while (info_[at].right != 0) at = info_[at].right;
  return info_[at].pages;
}

// ---- SizeClasses ----

SizeClasses::SizeClasses(std::uint32_t line_bytes, std::uint32_t span_pages) {
  for (std::uint32_t per_line = line_bytes / kGrain; per_line >= 1; --per_line) {
    const std::uint32_t bytes = line_bytes / per_line / kGrain * kGrain;
    // Two counts may round down to the same size; the greater count came first, and is the better one.
    if (count_ == 0 || bytes > classes_[count_ - 1].bytes) add(bytes, line_bytes, per_line, span_pages);
  }
  for (std::uint32_t bytes = line_bytes; bytes < kMaxBytes;) {
    bytes += std::max(std::bit_floor(bytes) / 4, line_bytes);
    add(bytes, bytes, 1, span_pages);
  }
  std::uint8_t index = 0;
  for (std::size_t grains = 0; grains < by_grain_.size(); ++grains) {
    if (grains * kGrain > classes_[index].bytes) ++index;
    by_grain_[grains] = index;
  }
}

void SizeClasses::add(std::uint32_t bytes, std::uint32_t group_bytes, std::uint32_t per_group,
                      std::uint32_t span_pages) {
  ATOLL_CHECK(count_ < kMaxClasses);
  // As many groups as fit, and only the pages that they need: 20 KiB blocks get spans of 60 KiB.
  const auto groups = std::max<std::uint64_t>(bytes_of(span_pages) / group_bytes, 1);
  const auto pages = std::uint32_t(pages_for(groups * group_bytes));
  classes_[count_++] = {bytes, group_bytes, per_group, pages};
}

// ---- Allocator ----

Allocator::Allocator(std::uint64_t memory_bytes, std::uint32_t line_bytes)
    : pool_(checked_pages(memory_bytes, line_bytes)),
      classes_(line_bytes, std::clamp<std::uint32_t>(pool_.count() / kSpansInMemory, 1, kSpanPages)),
      slot_bits_(std::size_t{pool_.count()} * kWordsPerPage + 1),
      touched_(pool_.count() / 64 + 1) {}

Result<Allocator::Block> Allocator::allocate(std::uint64_t bytes) noexcept {
  if (bytes == 0) return {Errc::kInvalidArgument, "an allocation of 0 bytes"};
  if (bytes > SizeClasses::kMaxBytes) return allocate_run(bytes, kPageBytes);
  const std::uint8_t wanted = classes_.index_for(bytes);
  if (const std::uint32_t head = partial_[wanted]; head != 0) [[likely]]
    return allocate_slot(head);
  if (const std::uint32_t head = make_span(wanted); head != 0) return allocate_slot(head);
  // No pages are left for a span: a slot that is too large, however much so, is better than none. It also keeps
  // the promise of largest_free_bytes for all lesser sizes.
  for (std::size_t larger = wanted + std::size_t{1}; larger < classes_.count(); ++larger) {
    if (partial_[larger] != 0) return allocate_slot(partial_[larger]);
  }
  return {Errc::kOutOfMemory, "the node's memory is full: give it more, or free some"};
}

Result<Allocator::Block> Allocator::allocate_aligned(std::uint64_t bytes, std::uint64_t alignment) noexcept {
  return allocate_run(bytes, alignment);
}

Result<Allocator::Block> Allocator::allocate_run(std::uint64_t bytes, std::uint64_t alignment) noexcept {
  if (bytes > bytes_of(pool_.count())) return {Errc::kOutOfMemory, "the size exceeds the node's whole memory"};
  const auto pages = std::uint32_t(pages_for(bytes));
  // Enough that it holds an aligned run wherever it begins; what is too much goes back.
  const auto unit = std::uint32_t(alignment / kPageBytes);
  const std::uint32_t taken = pool_.take(pages + unit - 1);
  if (taken == 0) return {Errc::kOutOfMemory, "the node has no free run of that size: give it more, or free some"};
  const std::uint32_t first = (taken + unit - 1) / unit * unit;
  if (first > taken) pool_.give(taken, first - taken);
  if (const std::uint32_t rest = taken + unit - 1 - first; rest > 0) pool_.give(first + pages, rest);
  pool_[first].kind = Kind::kRun;
  pool_[first].pages = pages;
  used_bytes_ += bytes_of(pages);
  return Block{bytes_of(first), !any_touched(first, pages)};
}

Allocator::Block Allocator::allocate_slot(std::uint32_t head) noexcept {
  PageInfo& span = pool_[head];
  const SizeClasses::Class& size = classes_[span.size_class];
  std::uint64_t* words = &slot_bits_[std::size_t{head} * kWordsPerPage];
  // Some slot is free, and the bits beyond the last slot are zero too: the first zero bit is a slot.
  while (words[span.hint] == ~std::uint64_t{0}) ++span.hint;
  const auto slot = std::uint32_t(span.hint * 64 + std::countr_one(words[span.hint]));
  if (!ATOLL_FAULT(memory_given_twice)) words[span.hint] |= std::uint64_t{1} << (slot % 64);
  if (++span.used == size.slots(span.pages)) unlink(head);
  used_bytes_ += size.bytes;
  free_slot_bytes_ -= size.bytes;

  const std::uint64_t offset = bytes_of(head) + size.offset_of(slot);
  bool fresh = false;
  if (slot >= span.high) {
    span.high = std::uint16_t(slot + 1);
    const auto first = std::uint32_t(offset / kPageBytes);
    fresh = !any_touched(first, std::uint32_t(pages_for(offset + size.bytes) - first));
  }
  return Block{offset, fresh};
}

std::uint32_t Allocator::make_span(std::uint8_t size_class) noexcept {
  const SizeClasses::Class& size = classes_[size_class];
  std::uint32_t pages = size.span_pages;
  std::uint32_t head = pool_.take(pages);
  if (head == 0) {
    // A shorter span, out of what is left.
    pages = pool_.largest_run();
    if (size.slots(pages) == 0) return 0;
    pages = std::uint32_t(pages_for(std::uint64_t{size.slots(pages) / size.per_group} * size.group_bytes));
    head = pool_.take(pages);
  }
  PageInfo& span = pool_[head];
  span.kind = Kind::kSpan;
  span.pages = pages;
  span.used = span.high = 0;
  span.hint = 0;
  span.size_class = size_class;
  for (std::uint32_t i = 1; i < pages; ++i) {
    pool_[head + i].kind = Kind::kSpanBody;
    pool_[head + i].pages = i;
  }
  free_slot_bytes_ += std::uint64_t{size.slots(pages)} * size.bytes;
  link(head);
  return head;
}

void Allocator::release_span(std::uint32_t head) noexcept {
  const PageInfo& span = pool_[head];
  const SizeClasses::Class& size = classes_[span.size_class];
  const std::uint32_t pages = span.pages;
  unlink(head);
  free_slot_bytes_ -= std::uint64_t{size.slots(pages)} * size.bytes;
  touch(head, std::uint32_t(pages_for(size.offset_of(span.high - 1u) + size.bytes)));
  for (std::uint32_t i = 0; i < pages; ++i) pool_[head + i].kind = Kind::kNone;
  pool_.give(head, pages);
}

void Allocator::free_slot(std::uint32_t head, std::uint32_t slot) noexcept {
  PageInfo& span = pool_[head];
  const SizeClasses::Class& size = classes_[span.size_class];
  slot_bits_[std::size_t{head} * kWordsPerPage + slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
  span.hint = std::min(span.hint, std::uint8_t(slot / 64));
  if (span.used-- == size.slots(span.pages)) link(head);
  used_bytes_ -= size.bytes;
  free_slot_bytes_ += size.bytes;
  if (span.used == 0) release_span(head);
}

Status Allocator::free(std::uint64_t offset) noexcept {
  const Located block = locate(offset);
  if (block.head == 0) {
    return {Errc::kNotAllocated, "no allocation begins there: it was freed before, or the address lies inside one"};
  }
  PageInfo& page = pool_[block.head];
  if (page.kind == Kind::kSpan) {
    free_slot(block.head, block.slot);
    return {};
  }
  const std::uint32_t pages = page.pages;
  used_bytes_ -= bytes_of(pages);
  page.kind = Kind::kNone;
  touch(block.head, pages);
  pool_.give(block.head, pages);
  return {};
}

Result<std::uint64_t> Allocator::size_of(std::uint64_t offset) const noexcept {
  const Located block = locate(offset);
  if (block.head == 0) return {Errc::kNotAllocated, "no allocation begins there"};
  const PageInfo& page = pool_[block.head];
  if (page.kind == Kind::kRun) return bytes_of(page.pages);
  return std::uint64_t{classes_[page.size_class].bytes};
}

Allocator::Located Allocator::locate(std::uint64_t offset) const noexcept {
  if (offset / kPageBytes >= pool_.count()) return {};
  auto head = std::uint32_t(offset / kPageBytes);
  const Kind kind = pool_[head].kind;
  if (kind == Kind::kRun) return {offset % kPageBytes == 0 ? head : 0, 0};
  if (kind == Kind::kSpanBody) {
    head -= pool_[head].pages;
  } else if (kind != Kind::kSpan) {
    return {};
  }
  const SizeClasses::Class& size = classes_[pool_[head].size_class];
  const auto in_span = std::uint32_t(offset - bytes_of(head));
  const std::uint32_t slot = in_span / size.group_bytes * size.per_group + in_span % size.group_bytes / size.bytes;
  // The tail of a line computes to the first slot of the next one, at another offset; the tail of a span to a
  // slot behind the last, whose bit is the span's own and never set.
  if (size.offset_of(slot) != in_span) return {};
  const std::uint64_t word = slot_bits_[std::size_t{head} * kWordsPerPage + slot / 64];
  return {(word >> (slot % 64) & 1) != 0 ? head : 0, slot};
}

std::uint64_t Allocator::free_bytes() const noexcept {
  return bytes_of(pool_.free_pages()) + free_slot_bytes_;
}

std::uint64_t Allocator::largest_free_bytes() const noexcept {
  // A whole number of pages is either large or exactly a class, so the longest run can always be had whole.
  std::uint64_t largest = bytes_of(pool_.largest_run());
  for (std::size_t i = 0; i < classes_.count(); ++i) {
    if (partial_[i] != 0) largest = std::max<std::uint64_t>(largest, classes_[i].bytes);
  }
  return largest;
}

void Allocator::link(std::uint32_t head) noexcept {
  std::uint32_t& first = partial_[pool_[head].size_class];
  pool_[head].left = 0;
  pool_[head].right = first;
  if (first != 0) pool_[first].left = head;
  first = head;
}

void Allocator::unlink(std::uint32_t head) noexcept {
  const PageInfo& span = pool_[head];
  (span.left != 0 ? pool_[span.left].right : partial_[span.size_class]) = span.right;
  if (span.right != 0) pool_[span.right].left = span.left;
}

bool Allocator::any_touched(std::uint32_t first, std::uint32_t pages) const noexcept {
  bool any = false;
  for_each_word(first, pages, [&](std::uint64_t word, std::uint64_t mask) {
    any = (touched_[word] & mask) != 0;
    return !any;
  });
  return any;
}

void Allocator::touch(std::uint32_t first, std::uint32_t pages) noexcept {
  for_each_word(first, pages, [&](std::uint64_t word, std::uint64_t mask) {
    touched_[word] |= mask;
    return true;
  });
}

}  // namespace atoll::memory
