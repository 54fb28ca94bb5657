#include "txn/tree.hpp"

#include <algorithm>
#include <thread>

namespace atoll::txn {

namespace {
constexpr unsigned kTries = 64;  // to come to a leaf while others change nodes on the way
}

void TreeNode::insert(std::uint32_t i, std::string_view key, GlobalAddress address) noexcept {
  TreeHead head = this->head();
  std::byte* const entry = bytes_.data() + at(i);
  std::memmove(bytes_.data() + at(i + 1), entry, at(head.count) - at(i));
  std::memset(entry, 0, at(1) - at(0));
  std::memcpy(entry, key.data(), key.size());
  const std::uint64_t bits = address.bits();
  std::memcpy(entry + padded(key_bytes_), &bits, sizeof(bits));
  ++head.count;
  set_head(head);
}

void TreeNode::erase(std::uint32_t i) noexcept {
  TreeHead head = this->head();
  std::memmove(bytes_.data() + at(i), bytes_.data() + at(i + 1), at(head.count) - at(i + 1));
  --head.count;
  set_head(head);
}

std::uint32_t TreeNode::lower(std::string_view key) const noexcept {
  std::uint32_t first = 0, count = this->count();
  while (count > 0) {
    const std::uint32_t half = count / 2;
    if (this->key(first + half) < key) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

std::uint32_t TreeNode::child(std::string_view key, bool below) const noexcept {
  std::uint32_t first = 1, count = this->count() - 1;  // of those that may not lead there
  while (count > 0) {
    const std::uint32_t half = count / 2;
    const std::string_view here = this->key(first + half);
    if (here < key || (!below && here == key)) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first - 1;
}

std::uint32_t TreeNode::index_of(GlobalAddress address) const noexcept {
  std::uint32_t i = 0;
  while (i < count() && this->address(i) != address) ++i;
  return i;
}

/// The version before and after: a node is several lines, which are read in any order.
Result<bool> Tree::read(GlobalAddress address, TreeNode& into) const {
  const auto before = node_.read<std::uint64_t>(address + kVersionAt);
  if (!before.ok()) return before.status();
  if (const Status status = node_.read(address, into.bytes()); !status.ok()) return status;
  const auto after = node_.read<std::uint64_t>(address + kVersionAt);
  if (!after.ok()) return after.status();
  return *before == *after && into.head().version == *after && into.count() <= into.capacity();
}

/// A node is the right one if its parent has not changed since it led there: who takes a node out, or divides it,
/// changes its parent in the same step.
Result<bool> Tree::try_descend(std::string_view key, Way way, TreePath& path) const {
  GlobalAddress at = root_;
  while (true) {
    path.steps.push_back({at, TreeNode(key_bytes_), 0});
    TreeStep& step = path.steps.back();
    const Result<bool> whole = read(at, step.node);
    if (!whole.ok() || !*whole) return whole;
    if (path.steps.size() > 1) {
      const TreeStep& parent = path.steps[path.steps.size() - 2];
      const auto version = node_.read<std::uint64_t>(parent.address + kVersionAt);
      if (!version.ok()) return version.status();
      if (*version != parent.node.head().version) return false;
    }
    if (step.node.head().level == 0) return true;
    const std::uint32_t count = step.node.count();
    if (count == 0) return false;
    step.child = way == Way::kLast ? count - 1 : step.node.child(key, way == Way::kBelow);
    if (step.child > 0) path.low = std::string(step.node.key(step.child));
    if (step.child + 1 < count) path.high = std::string(step.node.key(step.child + 1));
    at = step.node.address(step.child);
  }
}

Result<TreePath> Tree::descend_by(std::string_view key, Way way) const {
  for (unsigned tries = 0; tries < kTries; ++tries) {
    if (tries > kTries / 2) std::this_thread::yield();
    TreePath path;
    const Result<bool> there = try_descend(key, way, path);
    if (!there.ok()) return there.status();
    if (*there) return path;
  }
  return Status(Errc::kRefused, "the index is changed again and again");
}

Result<TreePath> Tree::descend(std::string_view key, bool below) const {
  return descend_by(key, below ? Way::kBelow : Way::kKey);
}

}  // namespace atoll::txn
