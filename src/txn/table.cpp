#include "txn/table.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <random>
#include <thread>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace atoll::txn {

namespace {

constexpr unsigned kRowsPerBucket = 26;        // of the rows that are expected: half of its entries
constexpr unsigned kTries = 64;                // to read a chain while others change it
constexpr std::uint64_t kHitBytes = 512;       // within which read_words hits
constexpr std::uint32_t kMaxGroups = 1 << 20;  // a slot each

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

void TableData::check(const Schema& schema, const TableOptions& options) {
  if (const char* const why = what_is_wrong(schema)) throw Error(why);
  if (options.group_bytes > schema.key_bytes) throw Error("a group is named by bytes that a key has");
  if (options.group_bytes > 0 && options.ordered) throw Error("a table with groups has a hash index");
  if (options.neighbour_bytes > schema.key_bytes) throw Error("neighbours are named by bytes that a key has");
  if (options.neighbour_bytes > 0 && options.ordered) throw Error("a table with neighbours has a hash index");
  if (options.neighbour_bytes > 0 && options.neighbour_bytes < options.group_bytes) {
    throw Error("neighbours are of one group: they are named by as many bytes at least");
  }
  if (options.groups == 0 || options.groups > kMaxGroups) throw Error("a table has 1 to 1048576 groups");
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
  root.group_bytes = options.group_bytes;
  root.neighbour_bytes = options.neighbour_bytes;
  std::vector<Slot> slots;
  if (options.ordered) {
    table->make_tree(slots);
  } else {
    table->make_blocks(options, slots);
  }
  table->remember_blocks(slots);
  table->root_address_ = node.allocate(sizeof(Root) + slots.size() * sizeof(Slot)).value();
  node.write(table->root_address_, root).or_throw();
  node.write(table->slot(0), std::as_bytes(std::span(slots))).or_throw();
  table->schema_ = schema;
  return table;
}

/// A block on each node, as far as there is room. Those of groups are made when they are needed.
void TableData::make_blocks(const TableOptions& options, std::vector<Slot>& slots) {
  root_.blocks = has_groups() ? std::bit_ceil(options.groups) : node_.count();
  slots.resize(root_.blocks);
  const std::uint64_t blocks = has_groups() ? options.groups : root_.blocks;
  const std::uint64_t wanted = std::max<std::uint64_t>(options.rows / blocks / kRowsPerBucket, 1);
  root_.buckets = std::bit_ceil(std::min<std::uint64_t>(wanted, std::uint64_t{1} << 32));
  if (has_groups()) return;
  for (NodeId id = 0; id < node_.count(); ++id) {
    auto block = node_.allocate(root_.buckets * sizeof(Bucket), Placement::on(id));
    if (block.status().code() == Errc::kOutOfMemory) block = node_.allocate(root_.buckets * sizeof(Bucket));
    slots[id].block = block.value().bits();
  }
}

/// Zeros are an empty leaf.
void TableData::make_tree(std::vector<Slot>& slots) {
  root_.is_ordered = 1;
  root_.blocks = 1;
  slots.push_back({0, node_.allocate(kTreeNodeBytes).value().bits()});
  tree_.emplace(node_, GlobalAddress(slots[0].block), root_.key_bytes);
}

void TableData::remember_blocks(std::span<const Slot> slots) {
  blocks_ = std::make_unique<std::atomic<std::uint64_t>[]>(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) blocks_[i] = slots[i].block;
}

std::unique_ptr<TableData> TableData::open(Node& node, std::string name, GlobalAddress root) {
  std::unique_ptr<TableData> table(new TableData(node, std::move(name)));
  table->root_address_ = root;
  table->root_ = node.read<Root>(root).value();
  const Root& stored = table->root_;
  if (stored.magic != Root::kMagic) throw Error("there is no table at " + root.to_string());
  std::vector<Slot> slots(stored.blocks);
  node.read(table->slot(0), std::as_writable_bytes(std::span(slots))).or_throw();
  table->remember_blocks(slots);
  if (stored.is_ordered != 0) table->tree_.emplace(node, GlobalAddress(slots.at(0).block), stored.key_bytes);
  table->schema_.key_bytes = stored.key_bytes;
  table->schema_.row_bytes = stored.row_bytes;
  for (std::uint32_t i = 0; i < std::min(stored.fields, kMaxFields); ++i) {
    const StoredField& field = stored.field[i];
    table->schema_.fields.push_back({field.name.data(), field.offset, field.bytes, FieldKind(field.kind)});
  }
  return table;
}

void TableData::destroy() noexcept {
  for (std::uint32_t i = 0; i < root_.blocks; ++i) {
    if (blocks_[i] != 0) static_cast<void>(node_.release(GlobalAddress(blocks_[i])));
  }
  static_cast<void>(node_.release(root_address_));
}

std::uint64_t TableData::hash(std::span<const std::byte> key) const noexcept {
  return XXH3_64bits_withSeed(key.data(), key.size(), root_.seed);
}

// ---- blocks ----

/// Groups with small numbers follow each other, whichever end of the number comes first: as long as there are no more
/// of them than were expected, and their numbers fit half of their bytes, none share a block.
std::uint32_t TableData::block_of(std::span<const std::byte> key, std::uint64_t hash) const noexcept {
  if (!has_groups()) return std::uint32_t((place(key, hash) >> 32) % root_.blocks);
  std::uint64_t group = 0;
  if (root_.group_bytes <= sizeof(group)) {
    std::uint64_t other = 0;
    for (std::uint32_t i = 0; i < root_.group_bytes; ++i) {
      group = group << 8 | std::uint64_t(key[i]);
      other |= std::uint64_t(key[i]) << (8 * i);
    }
    group = std::min(group, other);
  } else {
    group = XXH3_64bits_withSeed(key.data(), root_.group_bytes, root_.seed);
  }
  return std::uint32_t(group % root_.blocks);
}

std::uint64_t TableData::place(std::span<const std::byte> key, std::uint64_t hash) const noexcept {
  return root_.neighbour_bytes == 0 ? hash : this->hash(key.first(root_.neighbour_bytes));
}

Result<GlobalAddress> TableData::block(std::uint32_t number) const noexcept {
  const std::uint64_t known = blocks_[number].load(std::memory_order_acquire);
  if (known != 0) return GlobalAddress(known);
  const auto found = node_.read<std::uint64_t>(slot(number) + kVersionAt);
  if (!found.ok()) return found.status();
  if (*found != 0) blocks_[number].store(*found, std::memory_order_release);
  return GlobalAddress(*found);
}

/// Zeros are empty buckets. A process that dies in between leaves a block that nobody uses. One thread of a node at a
/// time: a block may be large, and all but one would be in vain.
Status TableData::make_block(std::uint32_t number) const {
  const std::lock_guard lock(making_);
  const Result<GlobalAddress> there = block(number);
  if (!there.ok() || *there) return there.status();
  const Result<GlobalAddress> made = node_.allocate(root_.buckets * sizeof(Bucket));
  if (!made.ok()) return made.status();
  const auto found = node_.compare_exchange(global_ptr<std::uint64_t>(slot(number) + kVersionAt), 0, made->bits());
  if (found.ok() && *found == 0) return {};
  static_cast<void>(node_.release(*made));  // somebody was quicker
  return found.status();
}

// ---- reading ----

/// Its words are read in any order, and may be of several moments. Who changes the row locks it, stores the new
/// version, then the rest, and frees the lock. So the version is read first, then the lock, then the rest, then the
/// version again: where that is the same and the lock was free, the bytes are of one moment. Where the lock was not
/// free they may be torn: callers look at it, and use no bytes of a row that another has locked.
Result<bool> TableData::read_block(GlobalAddress row, std::span<std::byte> block) const {
  const auto before = node_.read<std::uint64_t>(row + kVersionAt);
  if (!before.ok()) return before.status();
  const auto lock = node_.read<std::uint64_t>(row);
  if (!lock.ok()) return lock.status();
  for (std::uint64_t at = 0; at < block.size();) {
    const std::uint64_t bytes = std::min(block.size() - at, kHitBytes - (row.offset() + at) % kHitBytes);
    const Status status = node_.read_words(row + std::int64_t(at), block.subspan(at, bytes));
    if (!status.ok()) return status;
    at += bytes;
  }
  const auto after = node_.read<std::uint64_t>(row + kVersionAt);
  if (!after.ok()) return after.status();
  RowHead head;
  std::memcpy(&head, block.data(), sizeof(head));
  head.lock = *lock;
  head.version = *before;
  std::memcpy(block.data(), &head, sizeof(head));
  return *before == *after;
}

/// Its words are read in any order, so the version before all others: who sees a new one sees all that came before it.
Status TableData::read_chain(GlobalAddress first, Chain& chain) const {
  chain.clear();
  const auto version = node_.read<std::uint64_t>(first + kVersionAt);
  if (!version.ok()) return version.status();
  for (GlobalAddress at = first; at; at = GlobalAddress(chain.back().bucket.next)) {
    Link& link = chain.emplace_back();
    link.address = at;
    if (const Status status = node_.read_words(at, bytes_of(link.bucket)); !status.ok()) return status;
  }
  chain.front().bucket.version = *version;
  return {};
}

Result<TableData::Seen> TableData::look_at_row(std::span<const std::byte> key, GlobalAddress row, Found& found,
                                               Workspace& workspace) const {
  const std::span<std::byte> block = workspace.bytes(block_bytes());
  const Result<bool> whole = read_block(row, block);
  if (!whole.ok()) return whole.status();
  if (!*whole) return Seen::kChanging;
  std::memcpy(&found.head, block.data(), sizeof(found.head));
  if (found.head.is_there == 0) return Seen::kChanging;  // it was erased: the index is about to say so
  if (std::memcmp(block.data() + key_at(), key.data(), key.size()) != 0) return Seen::kAnother;
  found.row = row;
  found.block = block;
  return Seen::kThere;
}

/// The entries whose tags are the key's. Tag and entry may be of two moments: an entry that is not there yet, or not
/// the same any more, leads to no row of the key, and the version says that the bucket has changed.
Result<TableData::Seen> TableData::look_in_bucket(GlobalAddress bucket, const BucketHead& head,
                                                  std::span<const std::byte> key, std::uint64_t hash, Found& found,
                                                  Workspace& workspace) const {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  const std::uint64_t wanted = kOnes * tag_of(hash);
  for (std::size_t first = 0; first < head.tags.size(); first += 8) {
    std::uint64_t tags = 0;
    std::memcpy(&tags, &head.tags[first], sizeof(tags));
    const std::uint64_t other = tags ^ wanted;  // a byte is 0 where the tag is right
    // Each byte that is 0, and a few above one: those fail by the entry.
    for (std::uint64_t hits = (other - kOnes) & ~other & kOnes << 7; hits != 0; hits &= hits - 1) {
      const std::size_t index = first + std::size_t(std::countr_zero(hits)) / 8;
      if (index >= kEntries) break;
      const auto word = node_.read<std::uint64_t>(bucket + entry_at(index));
      if (!word.ok()) return word.status();
      const Entry entry{*word};
      if (!entry.fits(hash)) continue;
      const Result<Seen> seen = look_at_row(key, entry.address(), found, workspace);
      if (!seen.ok() || *seen != Seen::kAnother) return seen;
    }
    if (tags >> 56 == 0) break;  // there are no more
  }
  return Seen::kAbsent;
}

/// The version is read before the first bucket and after the last: if it is the same, nothing came or went between.
Result<TableData::Seen> TableData::look(std::span<const std::byte> key, std::uint64_t hash, Found& found,
                                        Workspace& workspace) const {
  const std::uint32_t number = block_of(key, hash);
  const Result<GlobalAddress> in = block(number);
  if (!in.ok()) return in.status();
  if (!*in) {
    found.bucket = slot(number);
    return Seen::kAbsent;
  }
  found.bucket = bucket(*in, bucket_of(key, hash));
  const auto before = node_.read<std::uint64_t>(found.bucket + kVersionAt);
  if (!before.ok()) return before.status();
  found.bucket_version = *before;
  BucketHead head;
  for (GlobalAddress at = found.bucket; at; at = GlobalAddress(head.next)) {
    if (const Status status = node_.read_words(at, bytes_of(head)); !status.ok()) return status;
    const Result<Seen> seen = look_in_bucket(at, head, key, hash, found, workspace);
    if (!seen.ok() || *seen != Seen::kAbsent) return seen;
  }
  const auto after = node_.read<std::uint64_t>(found.bucket + kVersionAt);
  if (!after.ok()) return after.status();
  return *after == *before ? Seen::kAbsent : Seen::kChanging;
}

Result<TableData::Seen> TableData::look_in_tree(std::span<const std::byte> key, Found& found,
                                                Workspace& workspace) const {
  const std::string_view text(reinterpret_cast<const char*>(key.data()), key.size());
  const Result<TreePath> path = tree_->descend(text, false);
  if (!path.ok()) return path.status();
  const TreeNode& leaf = path->leaf().node;
  found.bucket = path->leaf().address;
  found.bucket_version = leaf.head().version;
  const std::uint32_t i = leaf.lower(text);
  if (i == leaf.count() || leaf.key(i) != text) return Seen::kAbsent;
  const Result<Seen> seen = look_at_row(key, leaf.address(i), found, workspace);
  return seen.ok() && *seen == Seen::kAnother ? Result<Seen>(Seen::kChanging) : seen;  // the row is used again
}

/// A row that was found was there, as it was read: its memory is the table's for ever, and it was not erased. That
/// there is none counts only if the chain or leaf was the same all the while.
Result<Found> TableData::find(std::span<const std::byte> key, std::uint64_t hash, Workspace& workspace) const {
  for (unsigned tries = 0; tries < kTries; ++tries) {
    if (tries > kTries / 2) std::this_thread::yield();
    Found found;
    const Result<Seen> seen = tree_ ? look_in_tree(key, found, workspace) : look(key, hash, found, workspace);
    if (!seen.ok()) return seen.status();
    if (*seen != Seen::kChanging) return found;
  }
  return Status(Errc::kRefused, "the index is changed again and again where the key is");
}

Status TableData::seek(std::span<const std::byte>& keys, Sought& sought) const {
  for (sought.count = 0; sought.count < kSoughtAtOnce && !keys.empty(); ++sought.count) {
    const auto key = keys.first(root_.key_bytes);
    keys = keys.subspan(root_.key_bytes);
    const std::uint64_t key_hash = sought.hashes[sought.count] = hash(key);
    const Result<GlobalAddress> in = block(block_of(key, key_hash));
    if (!in.ok()) return in.status();
    sought.buckets[sought.count] = *in ? bucket(*in, bucket_of(key, key_hash)) : GlobalAddress();
  }
  return {};
}

/// In three rounds, so that what is fetched for one key is under way together with the others': buckets, entries, rows.
Status TableData::prefetch(std::span<const std::byte> keys, bool to_update, Hints& hints) const {
  if (tree_) return {};
  Sought sought;
  while (!keys.empty()) {
    if (const Status status = seek(keys, sought); !status.ok()) return status;
    const std::span<const GlobalAddress> buckets(sought.buckets.data(), sought.count);
    if (const Status status = node_.prefetch(buckets, sizeof(BucketHead)); !status.ok()) return status;
    if (const Status status = prefetch_entries(sought); !status.ok()) return status;
    if (const Status status = prefetch_rows(sought, to_update, hints); !status.ok()) return status;
  }
  return {};
}

/// All of the first bucket of each: it is searched and locked now, and read and changed by the commit.
Status TableData::prefetch_inserts(std::span<const std::byte> keys) const {
  if (tree_) return {};
  Sought sought;
  while (!keys.empty()) {
    if (const Status status = seek(keys, sought); !status.ok()) return status;
    const std::span<const GlobalAddress> buckets(sought.buckets.data(), sought.count);
    if (const Status status = node_.prefetch(buckets, sizeof(Bucket), LockMode::kWrite); !status.ok()) return status;
  }
  return {};
}

/// The first entry of each that may be the key's.
Status TableData::prefetch_entries(Sought& sought) const {
  for (std::size_t i = 0; i < sought.count; ++i) {
    sought.entries[i] = GlobalAddress();
    if (!sought.buckets[i]) continue;
    BucketHead head;
    if (const Status status = node_.read_words(sought.buckets[i], bytes_of(head)); !status.ok()) return status;
    const auto tag = std::find(head.tags.begin(), head.tags.begin() + kEntries, tag_of(sought.hashes[i]));
    const auto index = std::size_t(tag - head.tags.begin());
    if (index == kEntries) continue;
    sought.entries[i] = sought.buckets[i] + entry_at(index);
    if (const Status status = node_.prefetch(sought.entries[i], sizeof(Entry)); !status.ok()) return status;
  }
  return {};
}

Status TableData::prefetch_rows(Sought& sought, bool to_update, Hints& hints) const {
  for (std::size_t i = 0; i < sought.count; ++i) {
    sought.rows[i] = GlobalAddress();
    if (!sought.entries[i]) continue;
    const auto word = node_.read<std::uint64_t>(sought.entries[i]);
    if (!word.ok()) return word.status();
    const Entry entry{*word};
    if (!entry.fits(sought.hashes[i])) continue;
    hints.add(sought.hashes[i], {this, entry.address(), sought.buckets[i]});
    sought.rows[i] = entry.address();
  }
  return node_.prefetch({sought.rows.data(), sought.count}, block_bytes(),
                        to_update ? LockMode::kWrite : LockMode::kRead);
}

Result<Found> TableData::find_at(GlobalAddress row, std::span<const std::byte> key, Workspace& workspace) const {
  Found found;
  const Result<Seen> seen = look_at_row(key, row, found, workspace);
  if (!seen.ok()) return seen.status();
  return *seen == Seen::kThere ? found : Found{};
}

}  // namespace atoll::txn
