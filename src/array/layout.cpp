// Making an array: who has which elements, and how all nodes come to know where they are.
#include "atoll/array.hpp"

#include <atomic>
#include <bit>
#include <exception>

namespace atoll::detail {
namespace {

constexpr const char* kTableName = "atoll.arrays";

std::uint64_t next_origin() noexcept {
  static std::atomic<std::uint64_t> made{0};
  return made.fetch_add(1, std::memory_order_relaxed) << 40;
}

/// A chunk's bytes: a power of two, with room for so many elements if that is possible.
std::uint32_t line_for(const Node& node, std::uint32_t bytes, const ArrayOptions& options) noexcept {
  const std::uint64_t wanted = std::uint64_t(options.chunk) * bytes;
  const std::uint64_t line = std::bit_ceil(std::min<std::uint64_t>(wanted, node.largest_line_bytes()));
  return std::max(node.line_bytes(), std::uint32_t(line));
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

/// What a node tells the others when an array is made.
struct ArrayLayout::Row {
  std::uint64_t base = 0;        // of its part; null when that has no elements
  std::uint64_t first = 0;       // of its elements
  std::uint64_t end = 0;         // the first that is not its own any more
  std::uint32_t bytes = 0;       // of an element
  std::uint32_t line_bytes = 0;  // of a chunk
  Errc code = Errc::kOk;         // what has failed
};

/// Everybody says what it has, and nobody says the next thing before all have heard it.
Status ArrayLayout::exchange(const Row& mine, std::vector<Row>& rows) noexcept {
  const global_ptr<Row> table(table_);
  if (const Status status = node_.write(table + node_.id(), mine, Consistency::kSc); !status.ok()) return status;
  if (const Status status = node_.barrier(); !status.ok()) return status;
  rows.resize(node_.count());
  for (NodeId other = 0; other < node_.count(); ++other) {
    const Result<Row> row = node_.read(table + other);
    if (!row.ok()) return row.status();
    rows[other] = *row;
  }
  return node_.barrier();
}

/// What has failed anywhere.
Status ArrayLayout::agree(const Status& mine) noexcept {
  Row row;
  row.code = mine.code();
  std::vector<Row> rows;
  if (const Status status = exchange(row, rows); !status.ok()) return status;
  if (!mine.ok()) return mine;
  for (NodeId other = 0; other < node_.count(); ++other) {
    if (rows[other].code != Errc::kOk) return {rows[other].code, "another node failed", other};
  }
  return {};
}

/// All nodes together: the chunks become lines of this size. See Node::open_region.
Status ArrayLayout::set_lines(std::uint32_t line_bytes) noexcept {
  const auto each = [&](auto&& change) {
    Status status;
    for (NodeId node = 0; node < node_.count() && status.ok(); ++node) {
      if (base_[node]) status = change(node);
    }
    return agree(status);
  };
  const auto open = [&](NodeId node) { return node_.open_region(base_[node], bytes_of(node), line_bytes); };
  Status status = each([&](NodeId node) { return node_.close_region(base_[node], bytes_of(node)); });
  if (status.ok()) status = each([&](NodeId node) { return node == node_.id() ? open(node) : Status(); });
  if (status.ok()) status = each([&](NodeId node) { return node == node_.id() ? Status() : open(node); });
  return status;
}

/// Chunks have words if they are the same by number for all nodes, and this node's hits are inlined.
void ArrayLayout::attach_words() {
  bool regular = in_region() && std::uint64_t(per_line_) * bytes_ == line_bytes_ && std::has_single_bit(per_line_);
  for (const std::uint64_t first : first_) regular = regular && (first % per_line_ == 0 || first == size());
  if (!regular) return;
  words_.resize((size() + per_line_ - 1) / per_line_);
  for (NodeId node = 0; node < node_.count(); ++node) {
    if (!base_[node]) continue;
    const std::uint64_t count = (first_[node + 1u] - first_[node] + per_line_ - 1) / per_line_;
    const auto words = std::span(words_).subspan(first_[node] / per_line_, count);
    if (!node_.attach_words(base_[node], bytes_of(node), words, zero_[node])) return words_.clear();
  }
  words_view_ = {words_.data(), size(), per_line_ - 1u, unsigned(std::countr_zero(per_line_))};
}

void ArrayLayout::detach_words() noexcept {
  if (words_view_.size == 0) return;
  for (NodeId node = 0; node < node_.count(); ++node) {
    if (base_[node]) (void)node_.attach_words(base_[node], bytes_of(node), {}, 0);
  }
  words_view_ = {};  // the words stay, all 0, as long as somebody may look at them
}

/// Memory of a node's part.
std::uint64_t ArrayLayout::bytes_of(NodeId node) const noexcept {
  const std::uint64_t here = first_[node + 1u] - first_[node];
  const std::uint64_t dense = packed_ ? here * bytes_ : (here + per_line_ - 1) / per_line_ * line_bytes_;
  const std::uint64_t unit = in_region() ? kGrainBytes : line_bytes_;  // lines of its own
  return (dense + unit - 1) / unit * unit;
}

ArrayLayout::ArrayLayout(Node& node, std::uint64_t count, std::uint32_t bytes, const ArrayOptions& options)
    : node_(node),
      origin_(next_origin()),
      bytes_(bytes),
      line_bytes_(line_for(node, bytes, options)),
      per_line_(std::max(1u, line_bytes_ / bytes)),
      packed_(line_bytes_ % bytes == 0 || bytes > line_bytes_),
      writes_(options.writes),
      exceptions_(std::uncaught_exceptions()) {
  if (node.id() == 0 && !node.lookup(kTableName, std::chrono::milliseconds(0)).ok()) {
    node.publish(kTableName, node.allocate<Row>(node.count(), Placement::local()).value().address()).or_throw();
  }
  table_ = node.lookup(kTableName).value();
  Status status = check_options(node.count(), count, bytes, options);
  if (status.ok()) divide(count, options);
  Row mine;
  mine.bytes = bytes;
  mine.line_bytes = line_bytes_;
  if (status.ok()) {
    mine.first = first_[node.id()];
    mine.end = first_[node.id() + 1u];
  }
  if (mine.end > mine.first) {
    const std::uint64_t needed = bytes_of(node.id());
    const auto got = in_region() ? node.allocate_region(needed) : node.allocate(needed, Placement::local());
    status = got.status();
    if (got.ok()) mine.base = got->bits();
  }
  mine.code = status.code();
  std::vector<Row> rows;
  exchange(mine, rows).or_throw();
  for (NodeId other = 0; other < node.count() && status.ok(); ++other) {
    const Row& row = rows[other];
    if (row.code != Errc::kOk) {
      status = {row.code, "a node could not make its part of the array", other};
    } else if (row.first != first_[other] || row.end != first_[other + 1u] || row.bytes != bytes ||
               row.line_bytes != line_bytes_) {
      status = {Errc::kInvalidArgument, "the nodes do not make the same array", other};
    }
    base_.emplace_back(row.base);
    zero_.push_back(row.base - row.first * bytes);
  }
  status = agree(status);  // what one node finds wrong, another may not
  if (!status.ok()) {
    if (mine.base != 0) (void)node.free(GlobalAddress(mine.base));
  } else if (in_region()) {
    status = set_lines(line_bytes_);  // if it fails, a node is gone: what lines are there nobody knows, so it is kept
  }
  if (!status.ok()) {
    freed_ = true;
    throw Error(status);
  }
  attach_words();
}

void ArrayLayout::divide(std::uint64_t count, const ArrayOptions& options) {
  const NodeId nodes = node_.count();
  if (!options.first.empty()) {
    first_ = options.first;
  } else {
    const std::uint64_t chunks = (count + options.chunk - 1) / options.chunk;
    per_node_ = (chunks + nodes - 1) / nodes * options.chunk;
    reciprocal_ = per_node_ == 1 ? ~std::uint64_t{0} : std::uint64_t(((unsigned __int128){1} << 64) / per_node_);
    for (NodeId node = 0; node < nodes; ++node) first_.push_back(std::min(count, node * per_node_));
  }
  first_.push_back(count);
}

ArrayLayout::~ArrayLayout() {
  // A node that is unwinding does not meet the others here: they may never come.
  if (!freed_ && std::uncaught_exceptions() <= exceptions_) (void)free();
  detach_words();
}

Status ArrayLayout::free() noexcept {
  if (freed_) return {Errc::kNotAllocated, "the array was freed before"};
  if (const Status status = node_.barrier(); !status.ok()) return status;
  freed_ = true;
  if (in_region()) {
    const Status status = set_lines(node_.line_bytes());
    detach_words();
    if (!status.ok()) return status;
  }
  const GlobalAddress mine = base_[node_.id()];
  return mine ? node_.free(mine) : Status();
}

PinnedLine ArrayLayout::pin(std::uint64_t i, LockMode mode, Chunk& chunk) const noexcept {
  if (const Status status = check(i, 1); !status.ok()) return PinnedLine(status);
  chunk = chunk_of(i);
  return PinnedLine(node_, chunk.address, chunk.count * bytes_, mode);
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
