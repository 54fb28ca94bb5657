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
  const std::uint64_t wanted = std::max<std::uint64_t>(options.rows / kRowsPerBucket, node.count());
  root.buckets = std::bit_ceil(std::min<std::uint64_t>(wanted, std::uint64_t{1} << 40));
  root.seed = fresh_seed();
  root.blocks = node.count();
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
  const std::uint64_t in_block = (root.buckets + root.blocks - 1) / root.blocks;
  for (NodeId id = 0; id < node.count(); ++id) {
    auto block = node.allocate(in_block * sizeof(Bucket), Placement::on(id));
    if (block.status().code() == Errc::kOutOfMemory) block = node.allocate(in_block * sizeof(Bucket));
    table->blocks_.push_back(block.value());
  }
  table->root_address_ = node.allocate(sizeof(Root) + 8 * root.blocks).value();
  node.write(table->root_address_, root).or_throw();
  node.write(table->root_address_ + std::int64_t(sizeof(Root)), std::as_bytes(std::span(table->blocks_))).or_throw();
  table->schema_ = schema;
  return table;
}

std::unique_ptr<TableData> TableData::open(Node& node, std::string name, GlobalAddress root) {
  std::unique_ptr<TableData> table(new TableData(node, std::move(name)));
  table->root_address_ = root;
  table->root_ = node.read<Root>(root).value();
  const Root& stored = table->root_;
  if (stored.magic != Root::kMagic) throw Error("there is no table at " + root.to_string());
  table->blocks_.resize(stored.blocks);
  node.read(root + std::int64_t(sizeof(Root)), std::as_writable_bytes(std::span(table->blocks_))).or_throw();
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

Result<TableData::Seen> TableData::look(std::span<const std::byte> key, std::uint64_t hash, Found& found) const {
  Bucket copy;
  std::vector<std::byte> block;
  for (GlobalAddress at = found.bucket; at; at = GlobalAddress(copy.next)) {
    if (const Status status = node_.read(at, bytes_of(copy)); !status.ok()) return status;
    if (at == found.bucket) found.bucket_version = copy.version;
    for (const Entry& entry : copy.entries) {
      if (entry.is_empty()) break;
      if (entry.hash != hash || entry.is_erased()) continue;
      const Result<bool> whole = read_block(entry.address(), block);
      if (!whole.ok()) return whole.status();
      if (!*whole) return Seen::kChanging;
      std::memcpy(&found.head, block.data(), sizeof(found.head));
      // Erased: its bucket is about to say so. With another key: it was erased and is used again.
      if (found.head.is_there == 0) return Seen::kChanging;
      if (std::memcmp(block.data() + key_at(), key.data(), key.size()) != 0) continue;
      found.row = entry.address();
      found.bytes.assign(block.begin() + row_at(), block.begin() + row_at() + root_.row_bytes);
      return Seen::kThere;
    }
  }
  return Seen::kAbsent;
}

/// A row that was found was there, as it was read: it belongs to the bucket for ever, and was not erased. That there is
/// none counts only if the chain was the same all the while.
Result<Found> TableData::find(std::span<const std::byte> key, std::uint64_t hash) const {
  for (unsigned tries = 0; tries < kTries; ++tries) {
    if (tries > kTries / 2) std::this_thread::yield();
    Found found;
    found.bucket = bucket_of(hash);
    const Result<Seen> seen = look(key, hash, found);
    if (!seen.ok()) return seen.status();
    if (*seen == Seen::kThere) return found;
    if (*seen == Seen::kChanging) continue;
    const auto version = node_.read<std::uint64_t>(found.bucket + kVersionAt);
    if (!version.ok()) return version.status();
    if (*version == found.bucket_version) return found;
  }
  return Status(Errc::kRefused, "the bucket of the key is changed again and again");
}

}  // namespace atoll::txn
