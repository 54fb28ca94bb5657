// The ordered index: a B+-tree in global memory whose leaves lead to rows.
//
// A node of the tree begins with a lock and a version, as rows and buckets do. Readers take no lock: what was read of a
// node counts if its version is the same afterwards, and that it was the right one if that of its parent is. Each
// change of a node gives it a new version; so the version of a leaf says which keys are there, as that of a bucket
// does.
#pragma once

#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "txn/layout.hpp"

namespace atoll::txn {

inline constexpr std::size_t kTreeNodeBytes = 1024;

struct TreeHead {
  std::uint64_t lock = 0;
  std::uint64_t version = 0;
  std::uint32_t count = 0;
  std::uint32_t level = 0;  // 0: a leaf
  std::uint64_t zero = 0;
};
static_assert(sizeof(TreeHead) == 32);

/// A copy of a node: entries of a key and the address of a row or of a child, in the order of the keys' bytes. The
/// first key of an inner node is not looked at: what is lower than the second is in the first child.
class TreeNode {
 public:
  explicit TreeNode(std::uint32_t key_bytes) noexcept : key_bytes_(key_bytes) {}

  [[nodiscard]] static constexpr std::uint32_t capacity(std::uint32_t key_bytes) noexcept {
    return std::uint32_t((kTreeNodeBytes - sizeof(TreeHead)) / (padded(key_bytes) + 8));
  }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity(key_bytes_); }
  [[nodiscard]] TreeHead head() const noexcept {
    TreeHead head;
    std::memcpy(&head, bytes_.data(), sizeof(head));
    return head;
  }
  void set_head(const TreeHead& head) noexcept { std::memcpy(bytes_.data(), &head, sizeof(head)); }
  [[nodiscard]] std::uint32_t count() const noexcept { return head().count; }
  [[nodiscard]] std::string_view key(std::uint32_t i) const noexcept {
    return {reinterpret_cast<const char*>(bytes_.data() + at(i)), key_bytes_};
  }
  [[nodiscard]] GlobalAddress address(std::uint32_t i) const noexcept {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes_.data() + at(i) + padded(key_bytes_), sizeof(bits));
    return GlobalAddress(bits);
  }
  /// REQUIRES: there is room. The entries behind move up.
  void insert(std::uint32_t i, std::string_view key, GlobalAddress address) noexcept;
  void append(std::string_view key, GlobalAddress address) noexcept { insert(count(), key, address); }
  void erase(std::uint32_t i) noexcept;
  /// In a leaf: how many keys are lower.
  [[nodiscard]] std::uint32_t lower(std::string_view key) const noexcept;
  /// In an inner node: which child has the key, or, `below`, what is right below it. REQUIRES: there is one.
  [[nodiscard]] std::uint32_t child(std::string_view key, bool below) const noexcept;
  /// The entry that leads there, or count().
  [[nodiscard]] std::uint32_t index_of(GlobalAddress address) const noexcept;
  /// What is in use behind the head.
  [[nodiscard]] std::span<const std::byte> entries() const noexcept {
    return std::span(bytes_).subspan(sizeof(TreeHead), at(count()) - sizeof(TreeHead));
  }

  [[nodiscard]] std::span<std::byte> bytes() noexcept { return bytes_; }

 private:
  [[nodiscard]] std::size_t at(std::uint32_t i) const noexcept {
    return sizeof(TreeHead) + i * (padded(key_bytes_) + 8);
  }
  std::uint32_t key_bytes_;
  std::array<std::byte, kTreeNodeBytes> bytes_{};
};

/// A node on the way from the root to a leaf, and which of its entries led on.
struct TreeStep {
  GlobalAddress address;
  TreeNode node;
  std::uint32_t child = 0;
};
struct TreePath {
  std::vector<TreeStep> steps;      // the root first, the leaf last
  std::optional<std::string> low;   // the leaf has the keys from this one on; none: from the lowest
  std::optional<std::string> high;  // to before this one; none: to the highest
  [[nodiscard]] const TreeStep& leaf() const noexcept { return steps.back(); }
};

/// Thread-safety: any thread.
/// Invariants:
///   1. The root stays where it is.
///   2. Memory of a node stays a node of a tree for ever, and memory of a row a row of its table.
class Tree {
 public:
  Tree(Node& node, GlobalAddress root, std::uint32_t key_bytes) noexcept
      : node_(node), root_(root), key_bytes_(key_bytes) {}

  [[nodiscard]] GlobalAddress root() const noexcept { return root_; }
  [[nodiscard]] std::uint32_t key_bytes() const noexcept { return key_bytes_; }
  /// To the leaf of the key; `below`: of what is right below the key. kRefused: others change it again and again.
  [[nodiscard]] Result<TreePath> descend(std::string_view key, bool below) const;
  /// To the leaf of the highest keys.
  [[nodiscard]] Result<TreePath> descend_last() const { return descend_by({}, Way::kLast); }
  /// False: it is being changed.
  [[nodiscard]] Result<bool> read(GlobalAddress address, TreeNode& into) const;

 private:
  enum class Way : std::uint8_t { kKey, kBelow, kLast };
  [[nodiscard]] Result<TreePath> descend_by(std::string_view key, Way way) const;
  [[nodiscard]] Result<bool> try_descend(std::string_view key, Way way, TreePath& path) const;

  Node& node_;
  GlobalAddress root_;
  std::uint32_t key_bytes_;
};

/// Memory of rows and nodes that were taken out of a tree, for the next that come: it must stay what it is, because
/// others may still look at it. It is known to this process only, and lost with it.
///
/// Thread-safety: any thread.
class Spares {
 public:
  void give(GlobalAddress memory) {
    const std::lock_guard lock(mutex_);
    spares_.push_back(memory);
  }
  /// Null: there is none.
  [[nodiscard]] GlobalAddress take() {
    const std::lock_guard lock(mutex_);
    if (spares_.empty()) return {};
    const GlobalAddress memory = spares_.back();
    spares_.pop_back();
    return memory;
  }

 private:
  std::mutex mutex_;
  std::vector<GlobalAddress> spares_;
};

}  // namespace atoll::txn
