#include "txn/transaction.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace atoll::txn {

namespace {

constexpr Status kConflict(Errc::kRefused, "another transaction is in the way: this one has to begin again");
constexpr Status kDamaged(Errc::kStorage, "the table does not have a row where it should be");
constexpr std::chrono::nanoseconds kFirstLook{2'000}, kLongestLook{64'000};  // between looks at a lock

std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr std::int64_t entry_at(std::size_t index) noexcept {
  return std::int64_t(offsetof(Bucket, entries) + index * sizeof(Entry));
}

}  // namespace

Transaction::Transaction(Database::Core& core, const Database& database, bool locks_all)
    : core_(core), node_(core.node()), database_(database), locks_all_(locks_all), id_(core.owners().next()) {}

Status Transaction::meet(Conflict what) {
  if (conflict_ == Conflict::kNone) {
    conflict_ = what;
    ++(what == Conflict::kLocked ? core_.counts.lock_conflicts : core_.counts.read_conflicts);
  }
  return kConflict;
}

// ---- locks ----

Status Transaction::wait_for(GlobalAddress object, std::uint64_t holder, std::chrono::nanoseconds& waited) {
  const Result<bool> over = core_.owners().is_over(Id{holder});
  if (!over.ok()) return over.status();
  if (*over) {
    const auto found = node_.compare_exchange(global_ptr<std::uint64_t>(object), holder, 0, Settle::kLater);
    if (found.ok() && *found == holder) ++core_.counts.locks_cleared;
    return found.status();
  }
  if (waited >= core_.options().lock_patience) return meet(Conflict::kLocked);
  const auto look = std::clamp(waited, kFirstLook, kLongestLook);
  core_.pause(look);
  waited += look;
  return {};
}

Status Transaction::lock(GlobalAddress object) {
  if (locks_.contains(object)) return {};
  std::chrono::nanoseconds waited{0};
  while (true) {
    const auto found = node_.compare_exchange(global_ptr<std::uint64_t>(object), 0, id_.word, Settle::kLater);
    if (!found.ok() || *found == 0) locks_.insert(object);  // after an error it may be locked: so it is freed too
    if (!found.ok() || *found == 0) return found.status();
    if (const Status status = wait_for(object, *found, waited); !status.ok()) return status;
  }
}

Status Transaction::lock_row(Access& access) {
  if (const Status status = lock(access.found.row); !status.ok()) return status;
  const auto version = node_.read<std::uint64_t>(access.found.row + kVersionAt);
  if (!version.ok()) return version.status();
  return *version == access.found.head.version ? Status() : meet(Conflict::kChanged);
}

/// By compare and exchange: after an error nobody knows which locks are held, and a commit that was done frees them.
void Transaction::release() noexcept {
  for (const GlobalAddress object : locks_) {
    static_cast<void>(node_.compare_exchange(global_ptr<std::uint64_t>(object), id_.word, 0, Settle::kLater));
  }
  locks_.clear();
  for (const GlobalAddress memory : allocated_) static_cast<void>(node_.release(memory));
  allocated_.clear();
  for (const auto& [spares, memory] : taken_) spares->give(memory);
  taken_.clear();
}

// ---- what the function does ----

/// The key's row, if nobody else has it locked.
Result<Found> Transaction::find_free(const TableData& table, std::span<const std::byte> key, std::uint64_t hash) {
  std::chrono::nanoseconds waited{0};
  while (true) {
    Result<Found> found = table.find(key, hash);
    if (found.status().code() == Errc::kRefused) return meet(Conflict::kChanged);
    if (!found.ok()) return found;
    const std::uint64_t holder = found->row ? found->head.lock : 0;
    if (holder == 0 || holder == id_.word) return found;
    if (const Status status = wait_for(found->row, holder, waited); !status.ok()) return status;
  }
}

Result<Transaction::Access*> Transaction::touch(const TableData& table, std::span<const std::byte> key,
                                                bool to_update) {
  if (conflict_ != Conflict::kNone) return kConflict;
  const auto known = accesses_.find(std::pair(&table, std::string(text_of(key))));
  if (known != accesses_.end()) {
    Access& access = known->second;
    if (to_update && access.was_there) {
      if (const Status status = lock_row(access); !status.ok()) return status;
    }
    return &access;
  }
  const std::uint64_t hash = table.hash(key);
  Result<Found> found = find_free(table, key, hash);
  if (!found.ok()) return found.status();
  const GlobalAddress row = found->row;
  if (locks_all_ || (to_update && row)) {
    const GlobalAddress object = row ? row : found->bucket;
    if (const Status status = lock(object); !status.ok()) return status;
    const auto version = node_.read<std::uint64_t>(object + kVersionAt);
    if (!version.ok()) return version.status();
    if (*version != (row ? found->head.version : found->bucket_version)) {  // somebody was quicker: once more
      found = find_free(table, key, hash);
      if (!found.ok()) return found.status();
      if (found->row != row) return meet(Conflict::kChanged);
    }
  }
  const auto at = accesses_.try_emplace(std::pair(&table, std::string(text_of(key)))).first;
  Access& access = at->second;
  access.table = &table;
  access.key = std::as_bytes(std::span(at->first.second));
  access.hash = hash;
  access.found = std::move(found).value();
  access.was_there = access.is_there = bool(access.found.row);
  access.row = std::move(access.found.bytes);
  return &access;
}

Result<bool> Transaction::read(const TableData& table, std::span<const std::byte> key, std::span<std::byte> row,
                               bool to_update) {
  const Result<Access*> access = touch(table, key, to_update);
  if (!access.ok()) return access.status();
  if (!(*access)->is_there) return false;
  std::memcpy(row.data(), (*access)->row.data(), row.size());
  return true;
}

Status Transaction::update(const TableData& table, std::span<const std::byte> key, std::span<const std::byte> row) {
  const Result<Access*> access = touch(table, key, true);
  if (!access.ok()) return access.status();
  if (!(*access)->is_there) return {Errc::kNotFound, "there is no row with this key"};
  (*access)->row.assign(row.begin(), row.end());
  (*access)->is_changed = true;
  return {};
}

Status Transaction::insert(const TableData& table, std::span<const std::byte> key, std::span<const std::byte> row) {
  const Result<Access*> got = touch(table, key, false);
  if (!got.ok()) return got.status();
  Access& access = **got;
  if (access.is_there) return {Errc::kAlreadyExists, "there is a row with this key"};
  if (const Status status = lock(access.found.bucket); !status.ok()) return status;
  access.row.assign(row.begin(), row.end());
  access.is_there = access.is_changed = true;
  return {};
}

Status Transaction::erase(const TableData& table, std::span<const std::byte> key) {
  const Result<Access*> got = touch(table, key, true);
  if (!got.ok()) return got.status();
  Access& access = **got;
  if (!access.is_there) return {Errc::kNotFound, "there is no row with this key"};
  if (const Status status = lock(access.found.bucket); !status.ok()) return status;
  access.is_there = false;
  access.is_changed = true;
  return {};
}

Status Transaction::scan(const TableData& table, const Txn::Visit& visit) {
  if (table.tree() != nullptr) {
    const std::vector<std::byte> lowest(table.schema().key_bytes, std::byte{0});
    const std::vector<std::byte> highest(table.schema().key_bytes, std::byte{0xff});
    return scan_range(table, lowest, highest, visit, Direction::kForward);
  }
  bool go_on = true;
  for (std::uint64_t number = 0; number < table.buckets() && go_on; ++number) {
    if (conflict_ != Conflict::kNone) return kConflict;
    const Status status = scan_bucket(table, table.bucket(number), visit, go_on);
    if (!status.ok()) return status;
  }
  for (const auto& [key, access] : accesses_) {
    if (!go_on) break;
    if (key.first == &table && access.is_there && !access.was_there) go_on = visit(access.key, access.row);
  }
  return {};
}

/// No row comes to the bucket or goes while its version stays, which is looked at before the commit.
Status Transaction::scan_bucket(const TableData& table, GlobalAddress first, const Txn::Visit& visit, bool& go_on) {
  if (locks_all_) {
    if (const Status status = lock(first); !status.ok()) return status;
  }
  const auto chain = table.read_chain(first);
  if (!chain.ok()) return chain.status();
  scanned_.push_back({first, chain->front().bucket.version});
  std::vector<std::byte> block;
  for (const auto& [address, bucket] : *chain) {
    for (const Entry& entry : bucket.entries) {
      if (entry.is_empty() || !go_on) break;
      if (entry.is_erased()) continue;
      const Result<bool> whole = table.read_block(entry.address(), block);
      if (!whole.ok()) return whole.status();
      if (!*whole) return meet(Conflict::kChanged);
      const std::span<const std::byte> key(block.data() + table.key_at(), table.schema().key_bytes);
      const Result<Access*> access = touch(table, key, false);
      if (!access.ok()) return access.status();
      if ((*access)->is_there) go_on = visit((*access)->key, (*access)->row);
    }
  }
  return {};
}

// ---- the end ----

/// What a process that is over has locked stays as it is.
Result<bool> Transaction::is_as_read(GlobalAddress object, std::uint64_t version) {
  struct {
    std::uint64_t lock, version;
  } head{};
  const Status status = node_.read(object, std::as_writable_bytes(std::span(&head, 1)));
  if (!status.ok()) return status;
  if (head.version != version) return false;
  if (head.lock == 0 || head.lock == id_.word) return true;
  return core_.owners().is_over(Id{head.lock});
}

Status Transaction::validate() {
  for (const auto& [key, access] : accesses_) {
    const Found& found = access.found;
    const Result<bool> same =
        access.was_there ? is_as_read(found.row, found.head.version) : is_as_read(found.bucket, found.bucket_version);
    if (!same.ok()) return same.status();
    if (!*same) return meet(Conflict::kChanged);
  }
  for (const Scanned& scanned : scanned_) {
    const Result<bool> same = is_as_read(scanned.bucket, scanned.version);
    if (!same.ok()) return same.status();
    if (!*same) return meet(Conflict::kChanged);
  }
  return {};
}

/// A function that gives up has decided by what it has read: that must have been there at one moment too.
Status Transaction::end(const Status& function) {
  Status status = function;
  if (conflict_ == Conflict::kNone && function.ok()) {
    status = commit();
  } else if (conflict_ == Conflict::kNone && accesses_.size() + scanned_.size() > 1) {
    static_cast<void>(validate());
  }
  release();
  if (conflict_ != Conflict::kNone) return kConflict;
  ++(status.ok() ? core_.counts.commits : core_.counts.aborts);
  return status;
}

Status Transaction::commit() {
  Parts parts;
  std::map<GlobalAddress, std::vector<Access*>> chains;  // whose keys come or go
  for (auto& [key, access] : accesses_) {
    if (!access.is_changed) continue;
    if (access.was_there != access.is_there) {
      chains[access.found.bucket].push_back(&access);
    } else if (access.is_there) {
      put_row(access, parts);
    }
  }
  for (const auto& [first, accesses] : chains) {
    const bool is_leaf = accesses.front()->table->tree() != nullptr;
    const Status status = is_leaf ? change_leaf(first, accesses, parts) : change_chain(first, accesses, parts);
    if (!status.ok()) return status;
  }
  for (auto& [address, node] : parts.inner) put_node(address, node, node.head().level, parts);
  const bool changes = !parts.heads.empty() || !chains.empty();
  if (changes || accesses_.size() + scanned_.size() > 1) {  // one read is of one moment by itself
    if (const Status status = validate(); !status.ok()) return status;
  }
  return changes ? publish(parts) : Status();
}

std::span<const std::byte> Transaction::keep_bytes(Parts& parts, std::span<const std::byte> bytes) {
  return parts.bytes.emplace_back(bytes.begin(), bytes.end());
}

void Transaction::put_row(const Access& access, Parts& parts) {
  const GlobalAddress row = access.found.row;
  parts.bodies.push_back({row + access.table->row_at(), access.row});
  parts.heads.push_back({row, keep(parts, RowHead{0, id_.word, 1})});
  parts.freed.insert(row);
}

/// A new row, in memory that an erased one has left (null: there is none), or memory of its own.
Result<Entry> Transaction::place_row(Access& access, GlobalAddress reused, Parts& parts) {
  const TableData& table = *access.table;
  std::vector<std::byte> block(table.block_bytes());
  const RowHead head{0, id_.word, 1};
  std::memcpy(block.data(), &head, sizeof(head));
  std::memcpy(block.data() + table.key_at(), access.key.data(), access.key.size());
  std::memcpy(block.data() + table.row_at(), access.row.data(), access.row.size());
  if (reused) {
    // Somebody may have it locked who has not seen yet that it was erased.
    if (const Status status = lock(reused); !status.ok()) return status;
    parts.bodies.push_back({reused + table.key_at(), keep_bytes(parts, std::span(block).subspan(table.key_at()))});
    parts.heads.push_back({reused, keep(parts, head)});
    parts.freed.insert(reused);
    return Entry{reused.bits(), access.hash};
  }
  const Result<GlobalAddress> made = node_.allocate(block.size(), Placement::any().uninitialized());
  if (!made.ok()) return made.status();
  allocated_.push_back(*made);
  parts.bodies.push_back({*made, keep_bytes(parts, block)});
  return Entry{made->bits(), access.hash};
}

/// Puts new rows where there is room in the chain, and makes it longer where there is none.
Status Transaction::add_rows(std::span<Access* const> accesses, std::vector<TableData::Link>& chain, Parts& parts) {
  const std::size_t old_links = chain.size();
  std::size_t link = 0, index = 0;
  const auto entry = [&]() -> Entry& { return chain[link].bucket.entries[index]; };
  for (Access* const access : accesses) {
    if (!access->is_there) continue;
    while (link < chain.size() && !entry().is_empty() && !entry().is_erased()) {
      if (++index == kEntries) ++link, index = 0;
    }
    if (link == chain.size()) {
      const auto made = node_.allocate(sizeof(Bucket), Placement::any().uninitialized());
      if (!made.ok()) return made.status();
      allocated_.push_back(*made);
      TableData::Link& last = chain.back();
      last.bucket.next = made->bits();
      if (link == old_links) parts.entries.push_back({last.address + kNextAt, keep(parts, last.bucket.next)});
      chain.push_back({*made, {}});
    }
    const Result<Entry> placed = place_row(*access, entry().address(), parts);
    if (!placed.ok()) return placed.status();
    entry() = *placed;
    if (link < old_links) parts.entries.push_back({chain[link].address + entry_at(index), keep(parts, *placed)});
  }
  for (std::size_t i = old_links; i < chain.size(); ++i) {
    parts.bodies.push_back({chain[i].address, keep(parts, chain[i].bucket)});
  }
  return {};
}

Status Transaction::erase_row(const Access& access, std::span<const TableData::Link> chain, Parts& parts) {
  for (const auto& [address, bucket] : chain) {
    for (std::size_t i = 0; i < kEntries; ++i) {
      if (bucket.entries[i].row != access.found.row.bits()) continue;
      parts.heads.push_back({access.found.row, keep(parts, RowHead{0, id_.word, 0})});
      parts.freed.insert(access.found.row);
      parts.entries.push_back({address + entry_at(i), keep(parts, bucket.entries[i].row | Entry::kErased)});
      return {};
    }
  }
  return kDamaged;
}

/// REQUIRES: the chain is locked.
Status Transaction::change_chain(GlobalAddress first, std::span<Access* const> accesses, Parts& parts) {
  Result<std::vector<TableData::Link>> read = accesses.front()->table->read_chain(first);
  if (!read.ok()) return read.status();
  std::vector<TableData::Link> chain = std::move(read).value();
  // New rows first: memory of those that this transaction erases is not used again by itself.
  if (const Status status = add_rows(accesses, chain, parts); !status.ok()) return status;
  for (const Access* const access : accesses) {
    if (access->is_there) continue;
    if (const Status status = erase_row(*access, chain, parts); !status.ok()) return status;
  }
  parts.buckets.push_back({first, keep(parts, std::array<std::uint64_t, 2>{0, id_.word})});
  parts.freed.insert(first);
  return {};
}

/// Rows before the entries that lead to them, and what frees a lock after all that it guards: threads of this node may
/// see some of it before the rest. Locks of what did not change are freed afterwards: there may be many.
Status Transaction::publish(Parts& parts) {
  std::vector<WritePart> all = std::move(parts.bodies);
  for (const std::vector<WritePart>* more : {&parts.heads, &parts.entries, &parts.buckets}) {
    all.insert(all.end(), more->begin(), more->end());
  }
  const Status status = node_.write_together(all);
  const bool undone = status.code() == Errc::kInvalidArgument || status.code() == Errc::kCacheFull;
  if (!undone) {  // it is the table's now, or may be
    allocated_.clear();
    taken_.clear();
  }
  if (status.ok()) {
    for (const auto& [spares, memory] : parts.spared) spares->give(memory);
    emptied_ = std::move(parts.emptied);
  }
  if (status.ok()) std::erase_if(locks_, [&](GlobalAddress object) { return parts.freed.contains(object); });
  if (status.code() == Errc::kInvalidArgument) {
    return {Errc::kInvalidArgument, "the transaction changes more than fits a block of the log"};
  }
  return status;
}

}  // namespace atoll::txn
