// Making an array: who has which elements, and how all nodes come to know where they are.
#include "atoll/array.hpp"

#include <exception>

namespace atoll::detail {
namespace {

constexpr const char* kTableName = "atoll.arrays";

/// What a node tells the others when an array is made.
struct Row {
  std::uint64_t base = 0;   // of its part; null when that has no elements
  std::uint64_t first = 0;  // of its elements
  std::uint64_t end = 0;    // the first that is not its own any more
  std::uint32_t bytes = 0;  // of an element
  Errc code = Errc::kOk;    // what has failed
};

/// A row for each node, in node 0's memory; all arrays are made by it, one after the other.
global_ptr<Row> table_of(Node& node) {
  if (node.id() == 0 && !node.lookup(kTableName, std::chrono::milliseconds(0)).ok()) {
    node.publish(kTableName, node.allocate<Row>(node.count(), Placement::local()).value().address()).or_throw();
  }
  return global_ptr<Row>(node.lookup(kTableName).value());
}

Status check_options(NodeId nodes, std::uint64_t count, std::uint32_t bytes, const ArrayOptions& options) {
  if (count == 0) return {Errc::kInvalidArgument, "an array needs at least one element"};
  if (count > GlobalAddress::kOffsetMask / bytes) return {Errc::kOutOfMemory, "the array exceeds any memory"};
  if (options.chunk == 0) return {Errc::kInvalidArgument, "a chunk needs at least one element"};
  if (options.first.empty()) return {};
  if (options.first.size() != nodes || options.first[0] != 0) {
    return {Errc::kInvalidArgument, "give the first element of each node's part; that of node 0 is 0"};
  }
  if (!std::is_sorted(options.first.begin(), options.first.end()) || options.first.back() > count) {
    return {Errc::kInvalidArgument, "the parts of an array must follow each other, and end within it"};
  }
  return {};
}

}  // namespace

ArrayLayout::ArrayLayout(Node& node, std::uint64_t count, std::uint32_t bytes, const ArrayOptions& options)
    : node_(node),
      bytes_(bytes),
      line_bytes_(node.line_bytes()),
      per_line_(std::max(1u, line_bytes_ / bytes)),
      packed_(line_bytes_ % bytes == 0 || bytes > line_bytes_),
      writes_(options.writes),
      exceptions_(std::uncaught_exceptions()) {
  const NodeId nodes = node.count();
  const global_ptr<Row> table = table_of(node);
  Status status = check_options(nodes, count, bytes, options);
  if (status.ok()) divide(count, options);
  Row mine;
  mine.bytes = bytes;
  if (status.ok()) {
    mine.first = first_[node.id()];
    mine.end = first_[node.id() + 1u];
  }
  if (const std::uint64_t here = mine.end - mine.first; here > 0) {
    const std::uint64_t dense = packed_ ? here * bytes_ : (here + per_line_ - 1) / per_line_ * line_bytes_;
    const std::uint64_t needed = (dense + line_bytes_ - 1) / line_bytes_ * line_bytes_;  // lines of its own
    const auto got = node.allocate(needed, Placement::local());
    status = got.status();
    if (got.ok()) mine.base = got->bits();
  }
  mine.code = status.code();
  // Everybody says what it has, and nobody begins with the next array before all have heard it.
  node.write(table + node.id(), mine, Consistency::kSc).or_throw();
  node.barrier().or_throw();
  std::vector<Row> rows;
  for (NodeId other = 0; other < nodes; ++other) rows.push_back(node.read(table + other).value());
  node.barrier().or_throw();
  for (NodeId other = 0; other < nodes && status.ok(); ++other) {
    const Row& row = rows[other];
    if (row.code != Errc::kOk) {
      status = {row.code, "a node could not make its part of the array", other};
    } else if (row.first != first_[other] || row.end != first_[other + 1u] || row.bytes != bytes) {
      status = {Errc::kInvalidArgument, "the nodes do not make the same array", other};
    }
    base_.emplace_back(row.base);
  }
  if (status.ok()) return;
  if (mine.base != 0) (void)node.free(GlobalAddress(mine.base));
  freed_ = true;
  throw Error(status);
}

void ArrayLayout::divide(std::uint64_t count, const ArrayOptions& options) {
  const NodeId nodes = node_.count();
  if (!options.first.empty()) {
    first_ = options.first;
  } else {
    const std::uint64_t chunks = (count + options.chunk - 1) / options.chunk;
    per_node_ = (chunks + nodes - 1) / nodes * options.chunk;
    for (NodeId node = 0; node < nodes; ++node) first_.push_back(std::min(count, node * per_node_));
  }
  first_.push_back(count);
}

ArrayLayout::~ArrayLayout() {
  // A node that is unwinding does not meet the others here: they may never come.
  if (!freed_ && std::uncaught_exceptions() <= exceptions_) (void)free();
}

Status ArrayLayout::free() noexcept {
  if (freed_) return {Errc::kNotAllocated, "the array was freed before"};
  if (const Status status = node_.barrier(); !status.ok()) return status;
  freed_ = true;
  const GlobalAddress mine = base_[node_.id()];
  return mine ? node_.free(mine) : Status();
}

std::uint64_t ArrayLayout::run_at(std::uint64_t i, std::uint64_t most) const noexcept {
  const NodeId owner = owner_of(i);
  std::uint64_t run = first_[owner + 1u] - i;
  if (!packed_) run = std::min(run, per_line_ - (i - first_[owner]) % per_line_);
  return std::min(run, most);
}

Status ArrayLayout::read(std::uint64_t first, std::byte* into, std::uint64_t count) const noexcept {
  while (count > 0) {
    const std::uint64_t run = run_at(first, count);
    if (const Status status = node_.read(address_of(first), {into, run * bytes_}); !status.ok()) return status;
    first += run;
    into += run * bytes_;
    count -= run;
  }
  return {};
}

Status ArrayLayout::write(std::uint64_t first, const std::byte* from, std::uint64_t count) const noexcept {
  while (count > 0) {
    const std::uint64_t run = run_at(first, count);
    const std::span<const std::byte> bytes(from, run * bytes_);
    // In the background, and waited for once: that is the same to who looks after the call has returned.
    if (const Status status = node_.write(address_of(first), bytes, Consistency::kPso); !status.ok()) return status;
    first += run;
    from += run * bytes_;
    count -= run;
  }
  return writes_ == Consistency::kPso ? Status() : node_.fence();
}

Status ArrayLayout::prefetch(std::uint64_t first, std::uint64_t count) const noexcept {
  while (count > 0) {
    const NodeId owner = owner_of(first);
    const std::uint64_t run = std::min(count, first_[owner + 1u] - first);
    const GlobalAddress from = address_of(first), last = address_of(first + run - 1);
    const Status status = node_.prefetch(from, std::uint64_t(last - from) + bytes_);
    if (!status.ok()) return status;
    first += run;
    count -= run;
  }
  return {};
}

}  // namespace atoll::detail
