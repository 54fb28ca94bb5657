// What transactions do with ordered tables: ranges, and leaves that change, divide and go.
#include <algorithm>

#include "txn/transaction.hpp"

namespace atoll::txn {

namespace {

constexpr Status kTooMany(Errc::kInvalidArgument, "the transaction inserts too many rows between two keys");

std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

/// Locks a node of a path, which must be as it was when the path was read.
Status Transaction::lock_as_read(const TreeStep& step) {
  if (const Status status = lock(step.address); !status.ok()) return status;
  const auto version = node_.read<std::uint64_t>(step.address + kVersionAt);
  if (!version.ok()) return version.status();
  return *version == step.node.head().version ? Status() : meet(Conflict::kChanged);
}

// ---- ranges ----

/// Leaf by leaf, each from the root on: where one ends the next begins, whatever becomes of the tree in between. That
/// all leaves are as they were, and with them the keys that are there, is looked at before the commit.
Status Transaction::scan_range(const TableData& table, std::span<const std::byte> first,
                               std::span<const std::byte> last, const Txn::Visit& visit, Direction direction) {
  const bool forward = direction == Direction::kForward;
  std::string low(text_of(first)), high(text_of(last));  // what is left to visit, both included
  bool go_on = low <= high, below = false;
  while (go_on) {
    if (conflict_ != Conflict::kNone) return meet(conflict_);
    const Result<TreePath> path = table.tree()->descend(forward ? low : high, below);
    if (path.status().code() == Errc::kRefused) return meet(Conflict::kChanged);
    if (!path.ok()) return path.status();
    const TreeStep& leaf = path->leaf();
    if (locks_all_) {
      if (const Status status = lock_as_read(leaf); !status.ok()) return status;
    }
    scanned_.push_back({leaf.address, leaf.node.head().version});
    const std::string from = forward || !path->low ? low : std::max(low, *path->low);
    const Status status = visit_leaf(table, *path, from, high, visit, direction, go_on);
    if (!status.ok()) return status;
    if (forward) {
      if (!path->high || *path->high > high) return {};
      low = *path->high;
    } else {
      if (!path->low || *path->low <= low) return {};
      high = *path->low;  // which was visited, and is not in the leaf below
      below = true;
    }
  }
  return {};
}

/// The keys of the leaf from `first` to `last`, and those that this transaction has put between them.
Status Transaction::visit_leaf(const TableData& table, const TreePath& path, std::string_view first,
                               std::string_view last, const Txn::Visit& visit, Direction direction, bool& go_on) {
  const TreeNode& leaf = path.leaf().node;
  const Scanned seen{path.leaf().address, leaf.head().version};
  const auto is_here = [&](std::string_view key) {
    return key >= first && key <= last && (!path.low || key >= *path.low) && (!path.high || key < *path.high);
  };
  std::pmr::vector<std::pair<std::string_view, GlobalAddress>> keys(workspace_.memory());
  keys.reserve(leaf.count());
  for (std::uint32_t i = leaf.lower(first); i < leaf.count() && is_here(leaf.key(i)); ++i) {
    keys.emplace_back(leaf.key(i), leaf.address(i));
  }
  const auto of_leaf = std::ptrdiff_t(keys.size());
  for (auto at = inserted_.lower_bound(Name{&table, first, 0});
       at != inserted_.end() && at->first.table == &table && at->first.key <= last; ++at) {
    if (is_here(at->first.key)) keys.emplace_back(at->first.key, GlobalAddress());
  }
  std::inplace_merge(keys.begin(), keys.begin() + of_leaf, keys.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  if (direction == Direction::kBackward) std::reverse(keys.begin(), keys.end());
  for (const auto& [key, row] : keys) {
    if (!go_on) break;
    // One that this transaction has inserted is known; if others did too meanwhile, the leaf has changed.
    const Result<Access*> access =
        row ? touch_at(table, key, row, seen) : touch(table, std::as_bytes(std::span(key)), false);
    if (!access.ok()) return access.status();
    if ((*access)->is_there) go_on = visit((*access)->key(), (*access)->row);
  }
  return {};
}

// ---- changes ----

/// Memory that was a node or a row before; null: there is none. It is locked, for somebody may still hold it who has
/// not seen what became of it.
Result<GlobalAddress> Transaction::take_spare(Spares& spares) {
  const GlobalAddress memory = spares.take();
  if (!memory) return memory;
  taken_.emplace_back(&spares, memory);
  if (const Status status = lock(memory); !status.ok()) return status;
  return memory;
}

/// The node as it is now, at its place.
void Transaction::put_node(GlobalAddress at, TreeNode& node, std::uint32_t level, Parts& parts) {
  node.set_head({0, id_.word, node.count(), level, 0});
  parts.entries.push_back({at + std::int64_t(sizeof(TreeHead)), workspace_.copy(node.entries())});
  parts.versions.push_back({at + kVersionAt, keep(node.head()).subspan(kVersionAt)});
  unlock(at, parts);
}

Result<GlobalAddress> Transaction::make_node(const TableData& table, TreeNode& node, std::uint32_t level,
                                             Parts& parts) {
  Result<GlobalAddress> memory = take_spare(table.spare_nodes());
  if (!memory.ok()) return memory;
  if (!*memory) {
    memory = node_.allocate(kTreeNodeBytes, Placement::any().uninitialized());
    if (!memory.ok()) return memory;
    allocated_.push_back(*memory);
  }
  put_node(*memory, node, level, parts);
  return memory;
}

/// REQUIRES: the leaf is locked.
Status Transaction::change_leaf(GlobalAddress leaf, std::span<Access* const> accesses, Parts& parts) {
  const TableData& table = accesses.front()->table();
  TreeNode node(table.tree()->key_bytes());
  const Result<bool> whole = table.tree()->read(leaf, node);
  if (!whole.ok()) return whole.status();
  if (!*whole) return meet(Conflict::kChanged);
  std::vector<LeafEntry> entries;
  for (std::uint32_t i = 0; i < node.count(); ++i) entries.push_back({std::string(node.key(i)), node.address(i)});
  for (Access* const access : accesses) {
    const std::string key(access->name.key);
    const auto at = std::lower_bound(entries.begin(), entries.end(), key,
                                     [](const LeafEntry& entry, const std::string& k) { return entry.key < k; });
    const bool found = at != entries.end() && at->key == key;
    if (access->is_there) {
      if (found || node.head().version != access->found.bucket_version) return meet(Conflict::kChanged);
      const Result<GlobalAddress> spare = take_spare(table.spare_rows());
      if (!spare.ok()) return spare.status();
      const Result<GlobalAddress> placed = place_row(*access, *spare, parts);
      if (!placed.ok()) return placed.status();
      entries.insert(at, {key, *placed});
    } else {
      // The leaf may have been divided since the row was found: then it is the wrong one.
      if (!found || at->row != access->found.row) return meet(Conflict::kChanged);
      parts.heads.push_back({at->row + kVersionAt, keep(RowHead{0, id_.word, 0}).subspan(kVersionAt)});
      unlock(at->row, parts);
      parts.spared.emplace_back(&table.spare_rows(), at->row);
      entries.erase(at);
    }
  }
  if (entries.size() > node.capacity()) return divide_leaf(table, leaf, entries, parts);
  if (entries.empty()) parts.emptied.emplace_back(&table, std::string(accesses.front()->name.key));
  TreeNode changed(table.tree()->key_bytes());
  for (const LeafEntry& entry : entries) changed.append(entry.key, entry.row);
  put_node(leaf, changed, 0, parts);
  return {};
}

/// Into as many leaves as are needed, in the same commit: the first stays where it is, but if it is the root.
Status Transaction::divide_leaf(const TableData& table, GlobalAddress leaf, std::span<const LeafEntry> entries,
                                Parts& parts) {
  const Tree& tree = *table.tree();
  const Result<TreePath> path = tree.descend(entries.front().key, false);
  if (path.status().code() == Errc::kRefused) return meet(Conflict::kChanged);
  if (!path.ok()) return path.status();
  if (path->leaf().address != leaf) return meet(Conflict::kChanged);
  const bool is_root = path->steps.size() == 1;
  const std::uint32_t capacity = TreeNode::capacity(tree.key_bytes());
  const std::size_t in_leaf = capacity - capacity / 4;
  const std::size_t leaves = (entries.size() + in_leaf - 1) / in_leaf;
  if (leaves > capacity / 2 + 1) return kTooMany;  // then the node above has no room even when it was divided
  TreeNode* above = nullptr;
  TreeNode new_root(tree.key_bytes());
  if (is_root) {
    above = &new_root;
  } else {
    const std::size_t depth = path->steps.size() - 2;
    const TreeStep& parent = path->steps[depth];
    auto at = parts.inner.find(parent.address);
    if (at == parts.inner.end()) {
      if (const Status status = lock_as_read(parent); !status.ok()) return status;
      at = parts.inner.emplace(parent.address, parent.node).first;
    }
    above = &at->second;
    if (above->count() + leaves - 1 > capacity) return divide_inner(table, *path, depth);
  }
  for (std::size_t k = 0; k < leaves; ++k) {  // parts of about the same size
    const std::size_t begin = entries.size() * k / leaves, end = entries.size() * (k + 1) / leaves;
    TreeNode part(tree.key_bytes());
    for (std::size_t i = begin; i < end; ++i) part.append(entries[i].key, entries[i].row);
    if (k == 0 && !is_root) {
      put_node(leaf, part, 0, parts);
      continue;
    }
    const Result<GlobalAddress> made = make_node(table, part, 0, parts);
    if (!made.ok()) return made.status();
    above->insert(is_root ? std::uint32_t(k) : above->index_of(leaf) + std::uint32_t(k), entries[begin].key, *made);
  }
  if (is_root) put_node(leaf, new_root, 1, parts);
  return {};
}

/// Makes room in a node above leaves, by a commit of its own, after which the transaction begins again. If there is no
/// room above it either, that node comes first.
Status Transaction::divide_inner(const TableData& table, const TreePath& path, std::size_t depth) {
  while (depth > 0 && path.steps[depth - 1].node.count() == path.steps[depth - 1].node.capacity()) --depth;
  const TreeStep& step = path.steps[depth];
  const std::uint32_t level = step.node.head().level, half = step.node.count() / 2;
  if (const Status status = lock_as_read(step); !status.ok()) return status;
  if (depth > 0) {
    if (const Status status = lock_as_read(path.steps[depth - 1]); !status.ok()) return status;
  }
  // What the transaction has made so far goes when it begins again.
  const std::vector<GlobalAddress> allocated(allocated_.begin(), allocated_.end());
  allocated_.clear();
  const auto taken = std::exchange(taken_, {});
  Parts parts(workspace_);
  TreeNode left(table.tree()->key_bytes()), right(table.tree()->key_bytes());
  for (std::uint32_t i = 0; i < step.node.count(); ++i) {
    (i < half ? left : right).append(step.node.key(i), step.node.address(i));
  }
  const std::string first(step.node.key(0)), middle(step.node.key(half));
  Result<GlobalAddress> made = make_node(table, right, level, parts);
  if (made.ok() && depth > 0) {
    TreeNode above = path.steps[depth - 1].node;
    above.insert(path.steps[depth - 1].child + 1, middle, *made);
    put_node(step.address, left, level, parts);
    put_node(path.steps[depth - 1].address, above, level + 1, parts);
  } else if (made.ok()) {
    const Result<GlobalAddress> low = make_node(table, left, level, parts);
    TreeNode above(table.tree()->key_bytes());
    if (low.ok()) above.append(first, *low);
    above.append(middle, *made);
    put_node(step.address, above, level + 1, parts);
    if (!low.ok()) made = low;
  }
  const Status status = made.ok() ? publish(parts) : made.status();
  allocated_.insert(allocated_.end(), allocated.begin(), allocated.end());
  taken_.insert(taken_.end(), taken.begin(), taken.end());
  return status.ok() ? meet(Conflict::kChanged) : status;
}

/// With it go the nodes above that have nothing else. The range of the leaf becomes that of its neighbour.
Status Transaction::prune(const TableData& table, const std::string& key) {
  const Result<TreePath> path = table.tree()->descend(key, false);
  if (!path.ok()) return path.status();
  const auto& steps = path->steps;
  if (steps.size() == 1 || path->leaf().node.count() != 0) return {};
  std::size_t depth = steps.size() - 2;
  while (depth > 0 && steps[depth].node.count() == 1) --depth;
  if (steps[depth].node.count() == 1) return {};
  Parts parts(workspace_);
  for (std::size_t i = depth; i < steps.size(); ++i) {
    if (const Status status = lock_as_read(steps[i]); !status.ok()) return status;
    if (i == depth) continue;
    TreeNode nothing(table.tree()->key_bytes());
    put_node(steps[i].address, nothing, steps[i].node.head().level, parts);
    parts.spared.emplace_back(&table.spare_nodes(), steps[i].address);
  }
  TreeNode above = steps[depth].node;
  above.erase(steps[depth].child);
  put_node(steps[depth].address, above, above.head().level, parts);
  return publish(parts);
}

}  // namespace atoll::txn
