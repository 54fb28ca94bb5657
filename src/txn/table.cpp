#include "txn/table.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <thread>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace atoll::txn {

namespace {

constexpr unsigned kRowsPerBucket = 15;  // of the rows that are expected: half of its entries
constexpr unsigned kTries = 64;          // to read a chain while others change it

template <typename T>
std::span<std::byte> bytes_of(T& value) noexcept {
  return std::as_writable_bytes(std::span(&value, 1));
}

const char* what_is_wrong(const Schema& schema) {
  if (schema.key_bytes == 0 || schema.key_bytes > kMaxKeyBytes) return "a key has 1 to 64 bytes";
  if (schema.row_bytes == 0 || schema.row_bytes > kMaxRowBytes) return "a row has 1 to 16384 bytes";
  if (schema.fields.size() > kMaxFields) return "a row has 64 fields at most";
  std::vector<const Field*> fields;
  for (const Field& field : schema.fields) {
    if (field.name.empty() || field.name.size() >= sizeof(StoredField::name)) return "a field's name has 1 to 31 bytes";
    if (field.bytes == 0 || field.bytes > schema.row_bytes || field.offset > schema.row_bytes - field.bytes)
      return "a field must lie within the row";
    for (const Field* other : fields) {
      if (other->name == field.name) return "two fields have the same name";
      if (field.offset < other->offset + other->bytes && other->offset < field.offset + field.bytes)
        return "two fields overlap";
    }
    fields.push_back(&field);
  }
  return nullptr;
}

std::uint64_t fresh_seed() {
  std::random_device device;
  return std::uint64_t(device()) << 32 | device();
}

}  // namespace

void TableData::check(const Schema& schema) {
  if (const char* const why = what_is_wrong(schema)) throw Error(why);
}

std::unique_ptr<TableData> TableData::create(Node& node, std::string name, const Schema& schema,
                                             const TableOptions& options) {
  std::unique_ptr<TableData> table(new TableData(node, std::move(name)));
  Root& root = table->root_;
  root.seed = fresh_seed();
  root.key_bytes = schema.key_bytes;
  root.row_bytes = schema.row_bytes;
  root.fields = std::uint32_t(schema.fields.size());
  for (std::size_t i = 0; i < schema.fields.size(); ++i) {
    const Field& field = schema.fields[i];
    StoredField& stored = root.field[i];
    std::copy(field.name.begin(), field.name.end(), stored.name.begin());
    stored.offset = field.offset;
    stored.bytes = field.bytes;
    stored.kind = std::uint32_t(field.kind);
  }
  if (options.ordered) {
    table->make_tree();
  } else {
    table->make_buckets(options.rows);
  }
  table->root_address_ = node.allocate(sizeof(Root) + 8 * root.blocks).value();
  node.write(table->root_address_, root).or_throw();
  node.write(table->root_address_ + std::int64_t(sizeof(Root)), std::as_bytes(std::span(table->blocks_))).or_throw();
  table->schema_ = schema;
  return table;
}

/// A block on each node, as far as there is room.
void TableData::make_buckets(std::uint64_t rows) {
  const std::uint64_t wanted = std::max<std::uint64_t>(rows / kRowsPerBucket, node_.count());
  root_.buckets = std::bit_ceil(std::min<std::uint64_t>(wanted, std::uint64_t{1} << 40));
  root_.blocks = node_.count();
  const std::uint64_t in_block = (root_.buckets + root_.blocks - 1) / root_.blocks;
  for (NodeId id = 0; id < node_.count(); ++id) {
    auto block = node_.allocate(in_block * sizeof(Bucket), Placement::on(id));
    if (block.status().code() == Errc::kOutOfMemory) block = node_.allocate(in_block * sizeof(Bucket));
    blocks_.push_back(block.value());
  }
}

/// Zeros are an empty leaf.
void TableData::make_tree() {
  root_.is_ordered = 1;
  root_.blocks = 1;
  blocks_.push_back(node_.allocate(kTreeNodeBytes).value());
  tree_.emplace(node_, blocks_[0], root_.key_bytes);
}

std::unique_ptr<TableData> TableData::open(Node& node, std::string name, GlobalAddress root) {
  std::unique_ptr<TableData> table(new TableData(node, std::move(name)));
  table->root_address_ = root;
  table->root_ = node.read<Root>(root).value();
  const Root& stored = table->root_;
  if (stored.magic != Root::kMagic) throw Error("there is no table at " + root.to_string());
  table->blocks_.resize(stored.blocks);
  node.read(root + std::int64_t(sizeof(Root)), std::as_writable_bytes(std::span(table->blocks_))).or_throw();
  if (stored.is_ordered != 0) table->tree_.emplace(node, table->blocks_[0], stored.key_bytes);
  table->schema_.key_bytes = stored.key_bytes;
  table->schema_.row_bytes = stored.row_bytes;
  for (std::uint32_t i = 0; i < std::min(stored.fields, kMaxFields); ++i) {
    const StoredField& field = stored.field[i];
    table->schema_.fields.push_back({field.name.data(), field.offset, field.bytes, FieldKind(field.kind)});
  }
  return table;
}

void TableData::destroy() noexcept {
  for (const GlobalAddress block : blocks_) static_cast<void>(node_.release(block));
  static_cast<void>(node_.release(root_address_));
}

std::uint64_t TableData::hash(std::span<const std::byte> key) const noexcept {
  return XXH3_64bits_withSeed(key.data(), key.size(), root_.seed);
}

GlobalAddress TableData::bucket(std::uint64_t number) const noexcept {
  return blocks_[number % root_.blocks] + std::int64_t(number / root_.blocks * sizeof(Bucket));
}

Result<bool> TableData::read_block(GlobalAddress row, std::vector<std::byte>& block) const {
  block.resize(block_bytes());
  if (const Status status = node_.read(row, block); !status.ok()) return status;
  const std::uint64_t line = node_.line_bytes();
  if ((row.offset() & (line - 1)) + block.size() <= line) return true;
  // Several lines are several reads. Who changes the row locks it before, and changes its version after the rest.
  RowHead first, after;
  std::memcpy(&first, block.data(), sizeof(first));
  if (const Status status = node_.read(row, bytes_of(after)); !status.ok()) return status;
  return first.lock == after.lock && first.version == after.version;
}

Result<std::vector<TableData::Link>> TableData::read_chain(GlobalAddress first) const {
  std::vector<Link> chain;
  for (GlobalAddress at = first; at; at = GlobalAddress(chain.back().bucket.next)) {
    Link& link = chain.emplace_back(Link{at, {}});
    if (const Status status = node_.read(at, bytes_of(link.bucket)); !status.ok()) return status;
  }
  return chain;
}

Result<TableData::Seen> TableData::look_at_row(std::span<const std::byte> key, GlobalAddress row, Found& found) const {
  std::vector<std::byte> block;
  const Result<bool> whole = read_block(row, block);
  if (!whole.ok()) return whole.status();
  if (!*whole) return Seen::kChanging;
  std::memcpy(&found.head, block.data(), sizeof(found.head));
  if (found.head.is_there == 0) return Seen::kChanging;  // it was erased: the index is about to say so
  if (std::memcmp(block.data() + key_at(), key.data(), key.size()) != 0) return Seen::kAnother;
  found.row = row;
  found.bytes.assign(block.begin() + row_at(), block.begin() + row_at() + root_.row_bytes);
  return Seen::kThere;
}

Result<TableData::Seen> TableData::look(std::span<const std::byte> key, std::uint64_t hash, Found& found) const {
  found.bucket = bucket_of(hash);
  Bucket copy;
  for (GlobalAddress at = found.bucket; at; at = GlobalAddress(copy.next)) {
    if (const Status status = node_.read(at, bytes_of(copy)); !status.ok()) return status;
    if (at == found.bucket) found.bucket_version = copy.version;
    for (const Entry& entry : copy.entries) {
      if (entry.is_empty()) break;
      if (entry.hash != hash || entry.is_erased()) continue;
      const Result<Seen> seen = look_at_row(key, entry.address(), found);
      if (!seen.ok() || *seen != Seen::kAnother) return seen;
    }
  }
  const auto version = node_.read<std::uint64_t>(found.bucket + kVersionAt);
  if (!version.ok()) return version.status();
  return *version == found.bucket_version ? Seen::kAbsent : Seen::kChanging;
}

Result<TableData::Seen> TableData::look_in_tree(std::span<const std::byte> key, Found& found) const {
  const std::string_view text(reinterpret_cast<const char*>(key.data()), key.size());
  const Result<TreePath> path = tree_->descend(text, false);
  if (!path.ok()) return path.status();
  const TreeNode& leaf = path->leaf().node;
  found.bucket = path->leaf().address;
  found.bucket_version = leaf.head().version;
  const std::uint32_t i = leaf.lower(text);
  if (i == leaf.count() || leaf.key(i) != text) return Seen::kAbsent;
  const Result<Seen> seen = look_at_row(key, leaf.address(i), found);
  return seen.ok() && *seen == Seen::kAnother ? Result<Seen>(Seen::kChanging) : seen;  // the row is used again
}

/// A row that was found was there, as it was read: its memory is the table's for ever, and it was not erased. That
/// there is none counts only if the chain or leaf was the same all the while.
Result<Found> TableData::find(std::span<const std::byte> key, std::uint64_t hash) const {
  for (unsigned tries = 0; tries < kTries; ++tries) {
    if (tries > kTries / 2) std::this_thread::yield();
    Found found;
    const Result<Seen> seen = tree_ ? look_in_tree(key, found) : look(key, hash, found);
    if (!seen.ok()) return seen.status();
    if (*seen != Seen::kChanging) return found;
  }
  return Status(Errc::kRefused, "the index is changed again and again where the key is");
}

}  // namespace atoll::txn
