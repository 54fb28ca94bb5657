#include "txn/transaction.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace atoll::txn {

namespace {

constexpr Status kDamaged(Errc::kStorage, "the table does not have a row where it should be");
constexpr std::chrono::nanoseconds kFirstLook{2'000}, kLongestLook{64'000};  // between looks at a lock

std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr std::size_t kAccesses = 64, kScans = 16;  // that there is room for at first

/// Of an object, in an index of locks: addresses differ in their middle bits.
constexpr std::uint64_t hash_of(GlobalAddress object) noexcept {
  return object.bits() * 0x9e3779b97f4a7c15 >> 20;
}

}  // namespace

Transaction::Transaction(Database::Core& core, const Database& database, const Attempt& attempt)
    : core_(core),
      node_(core.node()),
      database_(database),
      id_(attempt.id),
      locks_all_(attempt.locks_all),
      deadline_(attempt.deadline),
      accesses_(workspace_.memory()),
      access_index_(workspace_.memory(), kAccesses),
      hints_(workspace_.memory()),
      inserted_(workspace_.memory()),
      scanned_(workspace_.memory()),
      locks_(workspace_.memory()),
      lock_index_(workspace_.memory(), kAccesses),
      chain_(workspace_.memory()),
      allocated_(workspace_.memory()) {
  accesses_.reserve(kAccesses);
  locks_.reserve(kAccesses);
  scanned_.reserve(kScans);
  allocated_.reserve(kScans);
}

Status Transaction::meet(Conflict what) {
  if (conflict_ == Conflict::kNone) {
    conflict_ = what;
    ++(what == Conflict::kLocked ? core_.counts.lock_conflicts : core_.counts.read_conflicts);
  }
  return kConflict;
}

// ---- locks ----

bool Transaction::may_wait(Id holder, std::chrono::nanoseconds waited) const noexcept {
  switch (core_.options().on_lock) {
    case OnLock::kNoWait: return waited < core_.options().lock_patience;
    case OnLock::kWaitDie:
      core_.owners().note(holder);
      return id_.is_older_than(holder) && std::chrono::steady_clock::now() < deadline_;
  }
  return false;
}

Status Transaction::wait_for(GlobalAddress object, std::uint64_t holder, std::chrono::nanoseconds& waited) {
  const Result<bool> over = core_.owners().is_over(Id{holder});
  if (!over.ok()) return over.status();
  if (*over) {
    const auto found = node_.compare_exchange(global_ptr<std::uint64_t>(object), holder, 0, Settle::kLater);
    if (found.ok() && *found == holder) ++core_.counts.locks_cleared;
    return found.status();
  }
  if (!may_wait(Id{holder}, waited)) return meet(Conflict::kLocked);
  const auto look = std::clamp(waited, kFirstLook, kLongestLook);
  core_.pause(look);
  waited += look;
  return {};
}

std::uint32_t Transaction::find_lock(GlobalAddress object) const {
  return lock_index_.find(hash_of(object), [&](std::uint32_t i) { return locks_[i] == object; });
}

Status Transaction::lock(GlobalAddress object) {
  if (find_lock(object) != HashIndex::kNone) return {};
  std::chrono::nanoseconds waited{0};
  while (true) {
    const auto found = node_.compare_exchange(global_ptr<std::uint64_t>(object), 0, id_.word, Settle::kLater);
    if (!found.ok() || *found == 0) {  // after an error it may be locked: so it is freed too
      lock_index_.add(hash_of(object), std::uint32_t(locks_.size()));
      locks_.push_back(object);
      return found.status();
    }
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
  for (GlobalAddress& object : locks_) {
    if (!object) continue;
    static_cast<void>(node_.compare_exchange(global_ptr<std::uint64_t>(object), id_.word, 0, Settle::kLater));
    object = GlobalAddress();
  }
  for (const GlobalAddress memory : allocated_) static_cast<void>(node_.release(memory));
  allocated_.clear();
  for (const auto& [spares, memory] : taken_) spares->give(memory);
  taken_.clear();
}

// ---- what the function does ----

/// Where a hint says, if the row is still there.
Result<Found> Transaction::find(const Name& name) {
  const std::span<const std::byte> key = std::as_bytes(std::span(name.key));
  if (const Hint* const hint = hints_.find(name.table, name.hash)) {
    const Result<Found> found = name.table->find_at(hint->row, key, workspace_);
    if (!found.ok()) return found;
    if (found->row) {
      Found there = *found;
      there.bucket = hint->bucket;
      return there;
    }
  }
  return name.table->find(key, name.hash, workspace_);
}

/// The key's row, if nobody else has it locked.
Result<Found> Transaction::find_free(const Name& name) {
  std::chrono::nanoseconds waited{0};
  while (true) {
    const Result<Found> found = find(name);
    if (found.status().code() == Errc::kRefused) return meet(Conflict::kChanged);
    if (!found.ok()) return found;
    const std::uint64_t holder = found->row ? found->head.lock : 0;
    if (holder == 0 || holder == id_.word) return found;
    // As long as the same has it only the lock is looked at: what is read of a row stays in the workspace.
    for (std::uint64_t now = holder; now == holder;) {
      if (const Status status = wait_for(found->row, holder, waited); !status.ok()) return status;
      const auto lock = node_.read<std::uint64_t>(found->row);
      if (!lock.ok()) return lock.status();
      now = *lock;
    }
  }
}

Transaction::Access* Transaction::known(const Name& name) const {
  const std::uint32_t i = access_index_.find(name.hash, [&](std::uint32_t k) { return accesses_[k]->name == name; });
  return i == HashIndex::kNone ? nullptr : accesses_[i];
}

Transaction::Access& Transaction::remember(const Name& name, const Found& found) {
  Name own = name;
  own.key = text_of(workspace_.copy(std::as_bytes(std::span(name.key))));
  Access& access = *std::pmr::polymorphic_allocator<>(workspace_.memory()).new_object<Access>();
  access_index_.add(own.hash, std::uint32_t(accesses_.size()));
  accesses_.push_back(&access);
  access.name = own;
  access.found = found;
  access.was_there = access.is_there = bool(found.row);
  if (access.was_there) access.row = name.table->row_of(found.block);
  return access;
}

Result<Transaction::Access*> Transaction::touch(const TableData& table, std::span<const std::byte> key,
                                                bool to_update) {
  if (conflict_ != Conflict::kNone) return kConflict;
  const Name name{&table, text_of(key), table.hash(key)};
  if (Access* const access = known(name)) {
    if (to_update && access->was_there) {
      if (const Status status = lock_row(*access); !status.ok()) return status;
    }
    return access;
  }
  Result<Found> found = find_free(name);
  if (!found.ok()) return found.status();
  const GlobalAddress row = found->row;
  if (locks_all_ || (to_update && row)) {
    const GlobalAddress object = row ? row : found->bucket;
    if (const Status status = lock(object); !status.ok()) return status;
    const auto version = node_.read<std::uint64_t>(object + kVersionAt);
    if (!version.ok()) return version.status();
    if (*version != (row ? found->head.version : found->bucket_version)) {  // somebody was quicker: once more
      found = find_free(name);
      if (!found.ok()) return found.status();
      if (found->row != row) return meet(Conflict::kChanged);
    }
  }
  return &remember(name, *found);
}

Result<Transaction::Access*> Transaction::touch_at(const TableData& table, std::string_view key, GlobalAddress row,
                                                   const Scanned& leaf) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(key));
  const Name name{&table, key, table.hash(bytes)};
  if (locks_all_ || conflict_ != Conflict::kNone || known(name) != nullptr) return touch(table, bytes, false);
  const Result<Found> there = table.find_at(row, bytes, workspace_);
  if (!there.ok()) return there.status();
  const std::uint64_t holder = there->head.lock;
  // It is erased, used again, or somebody has it: the long way knows what to do.
  if (!there->row || (holder != 0 && holder != id_.word)) return touch(table, bytes, false);
  Found found = *there;
  found.bucket = leaf.bucket;
  found.bucket_version = leaf.version;
  return &remember(name, found);
}

Result<const std::byte*> Transaction::read(const TableData& table, std::span<const std::byte> key, bool to_update) {
  const Result<Access*> access = touch(table, key, to_update);
  if (!access.ok()) return access.status();
  return (*access)->is_there ? (*access)->row.data() : nullptr;
}

Status Transaction::update(const TableData& table, std::span<const std::byte> key, std::span<const std::byte> row) {
  const Result<Access*> access = touch(table, key, true);
  if (!access.ok()) return access.status();
  if (!(*access)->is_there) return {Errc::kNotFound, "there is no row with this key"};
  std::memcpy((*access)->row.data(), row.data(), row.size());
  (*access)->is_changed = true;
  return {};
}

Status Transaction::insert(const TableData& table, std::span<const std::byte> key, std::span<const std::byte> row) {
  const Result<Access*> got = touch(table, key, false);
  if (!got.ok()) return got.status();
  Access& access = **got;
  if (access.is_there) return {Errc::kAlreadyExists, "there is a row with this key"};
  const std::uint32_t number = table.block_of(key, access.name.hash);
  if (access.found.bucket == table.slot(number)) {  // the first of its group: then the transaction begins again
    const Status made = table.make_block(number);
    return made.ok() ? meet(Conflict::kChanged) : made;
  }
  if (const Status status = lock(access.found.bucket); !status.ok()) return status;
  if (access.was_there) {  // and this transaction erased it: it goes where it was
    std::memcpy(access.row.data(), row.data(), row.size());
  } else {
    access.row = workspace_.copy(row);
  }
  access.is_there = access.is_changed = true;
  if (table.tree() != nullptr && !access.was_there) inserted_.emplace(access.name, &access);
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
  for (std::uint32_t number = 0; number < table.blocks() && go_on; ++number) {
    if (conflict_ != Conflict::kNone) return kConflict;
    const Result<GlobalAddress> block = table.block(number);
    if (!block.ok()) return block.status();
    if (!*block) {  // nothing is there as long as the slot stays as it is
      if (locks_all_) {
        if (const Status status = lock(table.slot(number)); !status.ok()) return status;
      }
      scanned_.push_back({table.slot(number), 0});
      continue;
    }
    for (std::uint64_t i = 0; i < table.buckets_of_block() && go_on; ++i) {
      const Status status = scan_bucket(table, TableData::bucket(*block, i), visit, go_on);
      if (!status.ok()) return status;
    }
  }
  for (const Access* const access : accesses_) {
    if (!go_on) break;
    if (access->name.table == &table && access->is_there && !access->was_there) {
      go_on = visit(access->key(), access->row);
    }
  }
  return {};
}

/// No row comes to the bucket or goes while its version stays, which is looked at before the commit.
Status Transaction::scan_bucket(const TableData& table, GlobalAddress first, const Txn::Visit& visit, bool& go_on) {
  if (conflict_ != Conflict::kNone) return kConflict;
  if (locks_all_) {
    if (const Status status = lock(first); !status.ok()) return status;
  }
  if (const Status status = table.read_chain(first, chain_); !status.ok()) return status;
  scanned_.push_back({first, chain_.front().bucket.version});
  const std::span<std::byte> block = workspace_.bytes(table.block_bytes());
  for (const auto& [address, bucket] : chain_) {
    const unsigned count = bucket.count();
    for (unsigned i = 0; i < count && go_on; ++i) {
      const Entry entry = bucket.entries[i];
      if (entry.word == 0) return meet(Conflict::kChanged);  // it is being put there
      if (entry.is_erased()) continue;
      const Result<bool> whole = table.read_block(entry.address(), block);
      if (!whole.ok()) return whole.status();
      if (!*whole) return meet(Conflict::kChanged);
      const std::span<const std::byte> key = block.subspan(table.key_at(), table.schema().key_bytes);
      const Result<Access*> access = touch(table, key, false);
      if (!access.ok()) return access.status();
      if ((*access)->is_there) go_on = visit((*access)->key(), (*access)->row);
    }
  }
  return {};
}

// ---- the end ----

/// What a process that is over has locked stays as it is. The lock first: if it is free and the version is the same
/// after that, it was so when the lock was looked at, for no version comes twice.
Result<bool> Transaction::is_as_read(GlobalAddress object, std::uint64_t version) {
  const auto lock = node_.read<std::uint64_t>(object);
  if (!lock.ok()) return lock.status();
  const auto found = node_.read<std::uint64_t>(object + kVersionAt);
  if (!found.ok()) return found.status();
  if (*found != version) return false;
  if (*lock == 0 || *lock == id_.word) return true;
  return core_.owners().is_over(Id{*lock});
}

Status Transaction::validate() {
  for (const Access* const access : accesses_) {
    const Found& found = access->found;
    const Result<bool> same =
        access->was_there ? is_as_read(found.row, found.head.version) : is_as_read(found.bucket, found.bucket_version);
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
  } else if (conflict_ == Conflict::kNone && !is_of_one_moment()) {
    static_cast<void>(validate());
  }
  release();
  if (conflict_ != Conflict::kNone) return kConflict;
  ++(status.ok() ? core_.counts.commits : core_.counts.aborts);
  return status;
}

Status Transaction::commit() {
  Parts parts(workspace_);
  std::pmr::vector<Access*> moved(workspace_.memory());  // whose keys come or go
  for (Access* const access : accesses_) {
    if (!access->is_changed) continue;
    if (access->was_there != access->is_there) {
      moved.push_back(access);
    } else if (access->is_there) {
      put_row(*access, parts);
    }
  }
  const auto by_bucket = [](const Access* a, const Access* b) { return a->found.bucket < b->found.bucket; };
  std::sort(moved.begin(), moved.end(), by_bucket);
  for (auto first = moved.begin(); first != moved.end();) {
    const auto end = std::upper_bound(first, moved.end(), *first, by_bucket);
    const std::span<Access* const> accesses(first, end);
    const GlobalAddress bucket = (*first)->found.bucket;
    const bool is_leaf = (*first)->table().tree() != nullptr;
    const Status status = is_leaf ? change_leaf(bucket, accesses, parts) : change_chain(bucket, accesses, parts);
    if (!status.ok()) return status;
    first = end;
  }
  for (auto& [address, node] : parts.inner) put_node(address, node, node.head().level, parts);
  const bool changes = !parts.unlocks.empty();
  if (changes || !is_of_one_moment()) {
    if (const Status status = validate(); !status.ok()) return status;
  }
  return changes ? publish(parts) : Status();
}

void Transaction::unlock(GlobalAddress object, Parts& parts) {
  static constexpr std::array<std::byte, sizeof(std::uint64_t)> kFree{};
  parts.unlocks.push_back({object, kFree});
}

/// The version first: who reads bytes of several moments sees it change, or the lock.
void Transaction::put_row(const Access& access, Parts& parts) {
  const std::span<std::byte> block = access.found.block;
  const RowHead head{0, id_.word, 1};
  std::memcpy(block.data(), &head, sizeof(head));
  put_block(access.found.row, block, parts);
}

void Transaction::put_block(GlobalAddress row, std::span<const std::byte> block, Parts& parts) {
  constexpr std::size_t kRest = kVersionAt + sizeof(std::uint64_t);
  parts.bodies.push_back({row + kVersionAt, block.subspan(kVersionAt, sizeof(std::uint64_t))});
  parts.bodies.push_back({row + std::int64_t(kRest), block.subspan(kRest)});
  unlock(row, parts);
}

/// A new row, in memory that an erased one has left (null: there is none), or memory of its own.
Result<GlobalAddress> Transaction::place_row(const Access& access, GlobalAddress reused, Parts& parts) {
  const TableData& table = access.table();
  const std::span<std::byte> block = workspace_.bytes(table.block_bytes());
  std::memset(block.data(), 0, block.size());
  const RowHead head{0, id_.word, 1};
  std::memcpy(block.data(), &head, sizeof(head));
  std::memcpy(block.data() + table.key_at(), access.name.key.data(), access.name.key.size());
  std::memcpy(block.data() + table.row_at(), access.row.data(), access.row.size());
  if (reused) {
    // Somebody may have it locked who has not seen yet that it was erased.
    if (const Status status = lock(reused); !status.ok()) return status;
    put_block(reused, block, parts);
    return reused;
  }
  const Result<GlobalAddress> made = node_.allocate(block.size(), Placement::any().uninitialized());
  if (!made.ok()) return made.status();
  allocated_.push_back(*made);
  parts.bodies.push_back({*made, block});
  return made;
}

/// Of a bucket whose chain is locked: those in between are what they were. Entries before their tags: who finds the tag
/// finds the entry.
void Transaction::put_entries(const Link& link, std::size_t first, std::size_t end, Parts& parts) {
  if (first == end) return;
  const std::span<const Entry> entries = std::span(link.bucket.entries).subspan(first, end - first);
  const std::span<const std::uint8_t> tags = std::span(link.bucket.tags).subspan(first, end - first);
  parts.entries.push_back({link.address + entry_at(first), workspace_.copy(std::as_bytes(entries))});
  parts.entries.push_back({link.address + tag_at(first), workspace_.copy(std::as_bytes(tags))});
}

/// Puts new rows where there is room in the chain, and makes it longer where there is none.
Status Transaction::add_rows(std::span<Access* const> accesses, Chain& chain, Parts& parts) {
  const std::size_t old_links = chain.size();
  std::size_t link = 0, index = 0;
  std::size_t first = 0, end = 0;  // of the link: what is new is among these
  for (const Access* const access : accesses) {
    if (!access->is_there) continue;
    while (link < chain.size() && chain[link].bucket.tags[index] != 0 &&
           !chain[link].bucket.entries[index].is_erased()) {
      if (++index < kEntries) continue;
      if (link < old_links) put_entries(chain[link], first, end, parts);
      first = end = index = 0;
      ++link;
    }
    if (link == chain.size()) {
      const auto made = node_.allocate(sizeof(Bucket), Placement::any().uninitialized());
      if (!made.ok()) return made.status();
      allocated_.push_back(*made);
      Link& last = chain.back();
      last.bucket.next = made->bits();
      if (link == old_links) parts.entries.push_back({last.address + kNextAt, keep(last.bucket.next)});
      chain.push_back({*made, {}});
    }
    Bucket& bucket = chain[link].bucket;
    const bool is_reused = bucket.tags[index] != 0;
    const Result<GlobalAddress> row =
        place_row(*access, is_reused ? bucket.entries[index].address() : GlobalAddress(), parts);
    if (!row.ok()) return row.status();
    bucket.entries[index] = Entry::make(*row, access->name.hash);
    bucket.tags[index] = tag_of(access->name.hash);
    if (first == end) first = index;
    end = index + 1;
  }
  if (link < old_links) put_entries(chain[link], first, end, parts);
  for (std::size_t i = old_links; i < chain.size(); ++i) {
    parts.bodies.push_back({chain[i].address, keep(chain[i].bucket)});
  }
  return {};
}

Status Transaction::erase_row(const Access& access, std::span<const Link> chain, Parts& parts) {
  for (const auto& [address, bucket] : chain) {
    for (std::size_t i = 0; i < bucket.count(); ++i) {
      const Entry entry = bucket.entries[i];
      if (entry.is_erased() || entry.address() != access.found.row) continue;
      parts.heads.push_back({access.found.row + kVersionAt, keep(RowHead{0, id_.word, 0}).subspan(kVersionAt)});
      unlock(access.found.row, parts);
      parts.entries.push_back({address + entry_at(i), keep(entry.erased())});
      return {};
    }
  }
  return kDamaged;
}

/// REQUIRES: the chain is locked.
Status Transaction::change_chain(GlobalAddress first, std::span<Access* const> accesses, Parts& parts) {
  if (const Status status = accesses.front()->table().read_chain(first, chain_); !status.ok()) return status;
  // New rows first: memory of those that this transaction erases is not used again by itself.
  if (const Status status = add_rows(accesses, chain_, parts); !status.ok()) return status;
  for (const Access* const access : accesses) {
    if (access->is_there) continue;
    if (const Status status = erase_row(*access, chain_, parts); !status.ok()) return status;
  }
  parts.versions.push_back({first + kVersionAt, keep(id_.word)});
  unlock(first, parts);
  return {};
}

/// Those that the commit has freed. (It frees new objects too, which were never locked.)
void Transaction::forget_locks(const Parts& parts) {
  for (const WritePart& unlock : parts.unlocks) {
    const std::uint32_t i = find_lock(unlock.address);
    if (i != HashIndex::kNone) locks_[i] = GlobalAddress();
  }
}

/// Rows before the entries that lead to them, and locks after all that they guard: threads of this node may see some of
/// it before the rest. Each lock is a part of its own, for who sees it free must see the new version: parts are stored
/// in their order, but the bytes of one in any. Locks of what did not change are freed afterwards: there may be many.
Status Transaction::publish(Parts& parts) {
  std::pmr::vector<WritePart> all = std::move(parts.bodies);
  for (const std::pmr::vector<WritePart>* more : {&parts.heads, &parts.entries, &parts.versions, &parts.unlocks}) {
    all.insert(all.end(), more->begin(), more->end());
  }
  has_published_ = true;
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
  if (status.ok()) {
    forget_locks(parts);
  }
  if (status.code() == Errc::kInvalidArgument) {
    return {Errc::kInvalidArgument, "the transaction changes more than fits a block of the log"};
  }
  return status;
}

}  // namespace atoll::txn
