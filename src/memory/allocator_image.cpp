// An allocator's knowledge as bytes and back: its arrays without the parts that were never used.
#include <algorithm>
#include <cstring>

#include "memory/allocator.hpp"

namespace atoll::memory {

namespace {
constexpr std::size_t kPiece = 4096;                  // of an array: left out when it is all zeroes
constexpr std::uint64_t kMagic = 0x41746f6c6c414c31;  // "AtollAL1"
}  // namespace

/// Thread-safety: none.
class AllocatorImage {
 public:
  /// What is not in the arrays.
  struct Head {
    std::uint64_t magic = kMagic;
    std::uint64_t used_bytes = 0;
    std::uint64_t free_slot_bytes = 0;
    std::uint32_t pages = 0;
    std::uint32_t free_pages = 0;
    std::uint32_t root = 0;
    std::uint32_t first_class_bytes = 0;  // with the number of classes: they follow from the size of a line
    std::uint32_t classes = 0;
    std::array<std::uint32_t, SizeClasses::kMaxClasses> partial{};
    std::uint32_t unused = 0;
  };
  static_assert(sizeof(Head) == 48 + 4 * SizeClasses::kMaxClasses);

  static Head head_of(const Allocator& of) {
    Head head;
    head.used_bytes = of.used_bytes_;
    head.free_slot_bytes = of.free_slot_bytes_;
    head.pages = of.pool_.count_;
    head.free_pages = of.pool_.free_pages_;
    head.root = of.pool_.root_;
    head.first_class_bytes = of.classes_[0].bytes;
    head.classes = std::uint32_t(of.classes_.count());
    head.partial = of.partial_;
    return head;
  }
  static void set_head(Allocator& of, const Head& head) noexcept {
    of.used_bytes_ = head.used_bytes;
    of.free_slot_bytes_ = head.free_slot_bytes;
    of.pool_.free_pages_ = head.free_pages;
    of.pool_.root_ = head.root;
    of.partial_ = head.partial;
  }
  static std::array<std::span<std::byte>, 3> arrays(Allocator& of) {
    return {of.pool_.info_.bytes(), of.slot_bits_.bytes(), of.touched_.bytes()};
  }
  static std::array<std::span<const std::byte>, 3> arrays(const Allocator& of) {
    return {of.pool_.info_.bytes(), of.slot_bits_.bytes(), of.touched_.bytes()};
  }
};

namespace {

bool is_zero(std::span<const std::byte> bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

void append(std::vector<std::byte>& out, const void* from, std::size_t bytes) {
  out.resize(out.size() + bytes);
  std::memcpy(out.data() + out.size() - bytes, from, bytes);
}

/// Of each array the pieces that are not all zeroes, each behind its number; behind the last one kNoPiece.
constexpr std::uint64_t kNoPiece = ~std::uint64_t{0};

/// One array out of the bytes, or a look whether it could be. False: it is not there whole.
bool take_array(std::span<const std::byte>& from, std::span<std::byte> array, bool write) {
  if (write) std::memset(array.data(), 0, array.size());
  while (true) {
    std::uint64_t piece = 0;
    if (from.size() < sizeof(piece)) return false;
    std::memcpy(&piece, from.data(), sizeof(piece));
    from = from.subspan(sizeof(piece));
    if (piece == kNoPiece) return true;
    if (piece >= (array.size() + kPiece - 1) / kPiece) return false;
    const std::span<std::byte> to = array.subspan(piece * kPiece, std::min(kPiece, array.size() - piece * kPiece));
    if (from.size() < to.size()) return false;
    if (write) std::memcpy(to.data(), from.data(), to.size());
    from = from.subspan(to.size());
  }
}

}  // namespace

std::vector<std::byte> Allocator::save() const {
  std::vector<std::byte> out;
  const AllocatorImage::Head head = AllocatorImage::head_of(*this);
  append(out, &head, sizeof(head));
  for (const std::span<const std::byte> array : AllocatorImage::arrays(*this)) {
    for (std::uint64_t piece = 0; piece * kPiece < array.size(); ++piece) {
      const auto bytes = array.subspan(piece * kPiece, std::min(kPiece, array.size() - piece * kPiece));
      if (is_zero(bytes)) continue;
      append(out, &piece, sizeof(piece));
      append(out, bytes.data(), bytes.size());
    }
    append(out, &kNoPiece, sizeof(kNoPiece));
  }
  return out;
}

Status Allocator::load(std::span<const std::byte> saved) {
  const AllocatorImage::Head own = AllocatorImage::head_of(*this);
  AllocatorImage::Head head;
  const Status wrong(Errc::kInvalidArgument, "not the saved state of an allocator of this memory");
  if (saved.size() < sizeof(head)) return wrong;
  std::memcpy(&head, saved.data(), sizeof(head));
  const bool same = head.magic == own.magic && head.pages == own.pages && head.classes == own.classes &&
                    head.first_class_bytes == own.first_class_bytes;
  if (!same) return wrong;
  for (const bool write : {false, true}) {
    std::span<const std::byte> from = saved.subspan(sizeof(head));
    for (const std::span<std::byte> array : AllocatorImage::arrays(*this)) {
      if (!take_array(from, array, write)) return wrong;
    }
    if (!from.empty()) return wrong;
  }
  AllocatorImage::set_head(*this, head);
  return {};
}

}  // namespace atoll::memory
