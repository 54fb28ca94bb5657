#include "atoll/txn.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "txn/transaction.hpp"

namespace atoll::txn {

namespace {

constexpr const char* kLivesName = "txn/lives";
constexpr std::chrono::milliseconds kPatience{30'000};  // with node 0
constexpr std::chrono::nanoseconds kShortest{50'000};   // that a thread can sleep, about

std::atomic<std::uint32_t> last_number{0};  // of a transaction of this process
constexpr Status kWrongRow(Errc::kInvalidArgument, "the row has another length than the table's schema says");
thread_local bool runs_a_transaction = false;

/// What node 0 makes and the others find, whichever life made it.
template <typename Make, typename Undo>
GlobalAddress find_or_make(Node& node, const std::string& name, std::chrono::milliseconds patience, Make make,
                           Undo undo) {
  const Result<GlobalAddress> there = node.lookup(name, node.id() == 0 ? std::chrono::milliseconds(0) : patience);
  if (there.ok() || node.id() != 0) return there.value();
  const GlobalAddress made = make();
  node.fence().or_throw();
  const Status published = node.publish(name, made);
  if (published.ok()) return made;
  undo(made);
  if (published.code() != Errc::kAlreadyExists) published.or_throw();
  return node.lookup(name).value();  // another thread was quicker
}

class Running {
 public:
  Running() noexcept { runs_a_transaction = true; }
  ~Running() { runs_a_transaction = false; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

}  // namespace

// ---- owners ----

Owners::Owners(Node& node) : node_(node), life_(node.life()) {
  const std::uint64_t bytes = std::uint64_t(node.line_bytes()) * node.count();
  lives_ = global_ptr<std::uint64_t>(find_or_make(
      node, kLivesName, kPatience, [&] { return node.allocate(bytes).value(); },
      [&](GlobalAddress made) { static_cast<void>(node.release(made)); }));
  const global_ptr<std::uint64_t> own(lives_.address() + std::int64_t(node.id()) * node.line_bytes());
  node.exchange(own, life_).status().or_throw();
}

Id Owners::next() noexcept {
  std::uint32_t number = 0;
  while (number == 0) number = last_number.fetch_add(1, std::memory_order_relaxed) + 1;
  return Id::make(node_.id(), life_, number);
}

void Owners::note(Id other) noexcept {
  constexpr std::int32_t kFurthest = 1 << 30;  // what is further may as well be behind: a process that began anew
  std::uint32_t last = last_number.load(std::memory_order_relaxed);
  while (std::int32_t(other.number() - last) > 0 && std::int32_t(other.number() - last) < kFurthest &&
         !last_number.compare_exchange_weak(last, other.number(), std::memory_order_relaxed)) {
  }
}

Result<bool> Owners::is_over(Id holder) const noexcept {
  if (holder.node() == node_.id()) return holder.life() != std::uint16_t(life_);
  const auto life = node_.read<std::uint64_t>(lives_.address() + std::int64_t(holder.node()) * node_.line_bytes());
  if (!life.ok()) return life.status();
  if (std::uint16_t(*life) != holder.life()) return true;
  if (node_.presence(holder.node()) != Presence::kGone) return false;
  return Status(Errc::kNodeDied, "a node that is gone has locked a row: what it did may be half done", holder.node());
}

// ---- the core ----

Database::Core::Core(Node& node, DatabaseOptions options)
    : node_(node), options_(std::move(options)), owners_(node), random_(std::random_device()()) {}

void Database::Core::pause(std::chrono::nanoseconds time) const {
  if (options_.pause) return options_.pause(time);
  if (time >= kShortest) return std::this_thread::sleep_for(time);
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
}

std::chrono::nanoseconds Database::Core::backoff(unsigned attempt) {
  const auto most = std::min(options_.backoff * (std::int64_t{1} << std::min(attempt, 20u)), options_.max_backoff);
  std::uint64_t number = 0;
  if (options_.random) {
    number = options_.random();
  } else {  // splitmix64
    number = random_.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed);
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
    number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
    number ^= number >> 31;
  }
  return std::chrono::nanoseconds(number % (std::uint64_t(most.count()) + 1));
}

std::unique_ptr<TableData> Database::Core::open(const std::string& name, const Schema& schema,
                                                const TableOptions& options, std::chrono::milliseconds patience) {
  std::unique_ptr<TableData> made;
  const GlobalAddress root = find_or_make(
      node_, "txn/table/" + name, patience,
      [&] {
        made = TableData::create(node_, name, schema, options);
        return made->root();
      },
      [&](GlobalAddress) {
        made->destroy();
        made.reset();
      });
  return made != nullptr ? std::move(made) : TableData::open(node_, name, root);
}

const TableData& Database::Core::table(std::string_view name, const Schema& schema, const TableOptions& options,
                                       std::chrono::milliseconds patience) {
  TableData::check(schema, options);
  const std::lock_guard lock(mutex_);
  auto at = tables_.find(name);
  if (at == tables_.end()) {
    at = tables_.emplace(std::string(name), open(std::string(name), schema, options, patience)).first;
  }
  const Schema& there = at->second->schema();
  const bool same =
      there.key_bytes == schema.key_bytes && there.row_bytes == schema.row_bytes &&
      std::is_permutation(there.fields.begin(), there.fields.end(), schema.fields.begin(), schema.fields.end());
  if (options.ordered != (at->second->tree() != nullptr)) {
    throw Error("the table " + std::string(name) + (options.ordered ? " is not ordered" : " is ordered"));
  }
  if (!same) throw Error("the table " + std::string(name) + " has another schema than this");
  return *at->second;
}

Status Database::Core::transact(const Database& database, const std::function<Status(Txn&)>& function) {
  if (runs_a_transaction) {
    return {Errc::kWouldDeadlock, "this thread runs a transaction already, and would wait for its locks"};
  }
  const Running running;
  const auto deadline = std::chrono::steady_clock::now() + options_.give_up_after;
  Id id = owners_.next();
  for (unsigned attempt = 1;; ++attempt) {
    Transaction transaction(*this, database, {id, attempt > options_.optimistic_attempts, deadline});
    Txn handle(transaction);
    const Status status = transaction.end(function(handle));
    for (const auto& [table, key] : transaction.emptied()) {
      Transaction janitor(*this, database, {owners_.next(), false, std::chrono::steady_clock::now()});
      static_cast<void>(janitor.prune(*table, key));  // it may be in somebody's way: then the leaf stays, empty
    }
    if (transaction.conflict() == Conflict::kNone) return status;
    if (std::chrono::steady_clock::now() >= deadline) {
      return {Errc::kDeadline, "other transactions were in the way each time that this one was begun"};
    }
    // Who waits by age stays as old as it is, but no two changes may have the same name.
    if (options_.on_lock == OnLock::kNoWait || transaction.has_published()) id = owners_.next();
    pause(backoff(attempt));
  }
}

// ---- the public classes ----

Database::Database(Node& node, DatabaseOptions options) : core_(std::make_unique<Core>(node, std::move(options))) {}
Database::~Database() = default;

AnyTable Database::table(std::string_view name, const Schema& schema, const TableOptions& options,
                         std::chrono::milliseconds patience) {
  return {*this, core_->table(name, schema, options, patience)};
}

Status Database::transact(const std::function<Status(Txn&)>& function) {
  return core_->transact(*this, function);
}

DatabaseStats Database::stats() const noexcept {
  const Core::Counts& counts = core_->counts;
  return {counts.commits, counts.aborts, counts.lock_conflicts, counts.read_conflicts, counts.locks_cleared};
}

const std::string& AnyTable::name() const noexcept {
  return data_->name();
}
const Schema& AnyTable::schema() const noexcept {
  return data_->schema();
}

Status Txn::check(const AnyTable& table, std::size_t key_bytes) const noexcept {
  if (table.database_ != &transaction_.database()) return {Errc::kInvalidArgument, "the table is another Database's"};
  if (key_bytes == table.schema().key_bytes) return {};
  return {Errc::kInvalidArgument, "the key has another length than the table's schema says"};
}

Result<bool> Txn::read(const AnyTable& table, std::span<const std::byte> key, std::span<std::byte> row,
                       bool to_update) {
  const Result<const std::byte*> there = look(table, key, row.size(), to_update);
  if (!there.ok()) return there.status();
  if (*there == nullptr) return false;
  std::memcpy(row.data(), *there, row.size());
  return true;
}

Result<const std::byte*> Txn::look(const AnyTable& table, std::span<const std::byte> key, std::size_t row_bytes,
                                   bool to_update) {
  if (const Status status = check(table, key.size()); !status.ok()) return status;
  if (row_bytes != table.schema().row_bytes) return kWrongRow;
  return transaction_.read(*table.data_, key, to_update);
}

Status Txn::update(const AnyTable& table, std::span<const std::byte> key, std::span<const std::byte> row) {
  if (const Status status = check(table, key.size()); !status.ok()) return status;
  if (row.size() != table.schema().row_bytes) return kWrongRow;
  return transaction_.update(*table.data_, key, row);
}

Status Txn::insert(const AnyTable& table, std::span<const std::byte> key, std::span<const std::byte> row) {
  if (const Status status = check(table, key.size()); !status.ok()) return status;
  if (row.size() != table.schema().row_bytes) return kWrongRow;
  return transaction_.insert(*table.data_, key, row);
}

Status Txn::erase(const AnyTable& table, std::span<const std::byte> key) {
  if (const Status status = check(table, key.size()); !status.ok()) return status;
  return transaction_.erase(*table.data_, key);
}

Status Txn::prefetch(const AnyTable& table, std::span<const std::byte> keys, bool to_update) {
  const std::size_t key_bytes = table.schema().key_bytes;
  if (const Status status = check(table, keys.size() % key_bytes == 0 ? key_bytes : 0); !status.ok()) return status;
  return transaction_.prefetch(*table.data_, keys, to_update);
}

Status Txn::prefetch_inserts(const AnyTable& table, std::span<const std::byte> keys) {
  const std::size_t key_bytes = table.schema().key_bytes;
  if (const Status status = check(table, keys.size() % key_bytes == 0 ? key_bytes : 0); !status.ok()) return status;
  return transaction_.prefetch_inserts(*table.data_, keys);
}

Status Txn::scan(const AnyTable& table, std::span<const std::byte> first, std::span<const std::byte> last,
                 const Visit& visit, Direction direction) {
  if (const Status status = check(table, first.size()); !status.ok()) return status;
  if (const Status status = check(table, last.size()); !status.ok()) return status;
  if (table.data_->tree() == nullptr) return {Errc::kInvalidArgument, "the table is not ordered"};
  return transaction_.scan_range(*table.data_, first, last, visit, direction);
}

Status Txn::scan(const AnyTable& table, const Visit& visit) {
  if (const Status status = check(table, table.schema().key_bytes); !status.ok()) return status;
  return transaction_.scan(*table.data_, visit);
}

}  // namespace atoll::txn
