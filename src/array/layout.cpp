// Making an array: who has which elements, and how all nodes come to know where they are.
#include <fmt/format.h>

#include <exception>
#include <numeric>

#include "atoll/array.hpp"

namespace atoll::detail {
namespace {

constexpr const char* kTableName = "atoll.arrays";

/// What a node tells the others when an array is made.
struct Row {
  std::uint64_t base = 0;  // of its part; null when that has no elements
  std::uint64_t wish = 0;  // stands for all arguments
  std::uint64_t code = 0;  // Errc
};

/// A row for each node, in node 0's memory; all arrays are made by it, one after the other.
global_ptr<Row> table_of(Node& node) {
  if (node.id() == 0 && !node.lookup(kTableName, std::chrono::milliseconds(0)).ok()) {
    node.publish(kTableName, node.allocate<Row>(node.count(), Placement::local()).value().address()).or_throw();
  }
  return global_ptr<Row>(node.lookup(kTableName).value());
}

/// FNV-1a over words.
class Digest {
 public:
  void add(std::uint64_t word) noexcept {
    for (int i = 0; i < 8; ++i) value_ = (value_ ^ (word >> (8 * i) & 0xff)) * 0x100000001b3;
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

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
  Digest wish;
  for (const std::uint64_t word : {count, std::uint64_t{bytes}, std::uint64_t{options.chunk}}) wish.add(word);
  for (const std::uint64_t word : options.first) wish.add(word);
  mine.wish = wish.value();
  const std::uint64_t here = status.ok() ? first_[node.id() + 1u] - first_[node.id()] : 0;
  if (here > 0) {
    const std::uint64_t dense = packed_ ? here * bytes_ : (here + per_line_ - 1) / per_line_ * line_bytes_;
    const std::uint64_t needed = (dense + line_bytes_ - 1) / line_bytes_ * line_bytes_;  // lines of its own
    const auto got = node.allocate(needed, Placement::local());
    status = got.status();
    if (got.ok()) mine.base = got->bits();
  }
  mine.code = std::uint64_t(status.code());
  // Everybody says what it has, and nobody begins with the next array before all have heard it.
  node.write(table + node.id(), mine, Consistency::kSc).or_throw();
  node.barrier().or_throw();
  std::vector<Row> rows;
  for (NodeId other = 0; other < nodes; ++other) rows.push_back(node.read(table + other).value());
  node.barrier().or_throw();
  for (NodeId other = 0; other < nodes && status.ok(); ++other) {
    if (rows[other].code != 0) {
      status = {Errc(rows[other].code), "a node could not make its part of the array", other};
    } else if (rows[other].wish != mine.wish) {
      status = {Errc::kInvalidArgument, "the nodes do not make the same array", other};
    }
    base_.emplace_back(rows[other].base);
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
