#include "bench/tpcc/sqlite_db.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

namespace atoll::bench::tpcc {
namespace {

// SQLite copies a page before it changes it, for it may have to be rolled back: small pages make that cheap, but trees
// deep. Of 1, 2, 4 and 8 KiB this is the fastest for the full mix, and as fast as any for the other.
constexpr int kPageBytes = 4096;

/// SQLite's own locks and its statistics of memory are switched off, for the process: a connection is used by one
/// thread at a time. It does nothing where SQLite is in use already; then the two only cost a little.
void configure_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    (void)sqlite3_config(SQLITE_CONFIG_MULTITHREAD);
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  });
}

Status status_of(int code) noexcept {
  const int kind = code & 0xff;
  const bool is_memory = kind == SQLITE_NOMEM || kind == SQLITE_FULL;
  return {is_memory ? Errc::kOutOfMemory : Errc::kStorage, sqlite3_errstr(code)};
}

void execute(sqlite3& connection, const std::string& text) {
  if (sqlite3_exec(&connection, text.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) return;
  throw Error(fmt::format("SQLite: {}: {}", text, sqlite3_errmsg(&connection)), Errc::kStorage);
}

int bind(sqlite3_stmt& statement, int at, const SqliteKey& key) noexcept {
  if (key.bytes.empty()) return sqlite3_bind_int64(&statement, at, key.number);
  return sqlite3_bind_blob(&statement, at, key.bytes.data(), int(key.bytes.size()), SQLITE_STATIC);
}

/// Runs it to its first row or its end.
int step_once(sqlite3_stmt& statement) noexcept {
  const int code = sqlite3_step(&statement);
  sqlite3_reset(&statement);
  return code;
}

/// False: the row has another size than it was inserted with, so it was inserted as something else.
bool copy_row(sqlite3_stmt& statement, int column, std::span<std::byte> row) noexcept {
  const void* bytes = sqlite3_column_blob(&statement, column);
  if (bytes == nullptr || std::size_t(sqlite3_column_bytes(&statement, column)) != row.size()) return false;
  std::memcpy(row.data(), bytes, row.size());
  return true;
}

constexpr Status kOtherRow(Errc::kStorage, "a row has another size than its table's");

}  // namespace

void SqliteClose::operator()(sqlite3* connection) const noexcept {
  sqlite3_close(connection);
}

void SqliteClose::operator()(sqlite3_stmt* statement) const noexcept {
  sqlite3_finalize(statement);
}

SqliteStatement prepare(sqlite3& connection, const std::string& text) {
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v3(&connection, text.c_str(), int(text.size()), SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code == SQLITE_OK) return SqliteStatement(statement);
  throw Error(fmt::format("SQLite: {}: {}", text, sqlite3_errmsg(&connection)), Errc::kStorage);
}

// ---- a table ----

SqliteTable::SqliteTable(sqlite3& connection, std::string_view name, bool by_number) : connection_(&connection) {
  const std::string quoted = fmt::format("\"{}\"", name);
  execute(connection,
          fmt::format("CREATE TABLE IF NOT EXISTS {} ({}", quoted,
                      by_number ? "k INTEGER PRIMARY KEY, r BLOB)" : "k BLOB PRIMARY KEY, r BLOB) WITHOUT ROWID"));
  const auto of = [&](const char* text) { return prepare(connection, fmt::format(fmt::runtime(text), quoted)); };
  read_ = of("SELECT r FROM {} WHERE k = ?1");
  update_ = of("UPDATE {} SET r = ?2 WHERE k = ?1");
  insert_ = of("INSERT INTO {} VALUES (?1, ?2)");
  erase_ = of("DELETE FROM {} WHERE k = ?1");
  forward_ = of("SELECT k, r FROM {} WHERE k BETWEEN ?1 AND ?2 ORDER BY k");
  backward_ = of("SELECT k, r FROM {} WHERE k BETWEEN ?1 AND ?2 ORDER BY k DESC");
}

Result<bool> SqliteTable::read(const SqliteKey& key, std::span<std::byte> row) const noexcept {
  if (!key.fits) return false;  // it cannot have been inserted
  if (const int code = bind(*read_, 1, key); code != SQLITE_OK) return status_of(code);
  const int code = sqlite3_step(read_.get());
  const bool good = code != SQLITE_ROW || copy_row(*read_, 0, row);
  sqlite3_reset(read_.get());
  if (!good) return kOtherRow;
  if (code != SQLITE_ROW && code != SQLITE_DONE) return status_of(code);
  return code == SQLITE_ROW;
}

/// Whatever changes one row; `nothing` is the answer when it has changed none.
Status SqliteTable::change(sqlite3_stmt& statement, const SqliteKey& key, std::span<const std::byte> row,
                           Errc nothing) const noexcept {
  int code = bind(statement, 1, key);
  if (code == SQLITE_OK && !row.empty()) {
    code = sqlite3_bind_blob(&statement, 2, row.data(), int(row.size()), SQLITE_STATIC);
  }
  if (code == SQLITE_OK) code = step_once(statement);
  if ((code & 0xff) == SQLITE_CONSTRAINT) return {Errc::kAlreadyExists, "there is such a key"};
  if (code != SQLITE_DONE) return status_of(code);
  return nothing != Errc::kOk && sqlite3_changes(connection_) == 0 ? Status(nothing, "no such key") : Status();
}

Status SqliteTable::update(const SqliteKey& key, std::span<const std::byte> row) const noexcept {
  return key.fits ? change(*update_, key, row, Errc::kNotFound) : Status(Errc::kNotFound, "no such key");
}

Status SqliteTable::insert(const SqliteKey& key, std::span<const std::byte> row) const noexcept {
  if (!key.fits) return {Errc::kInvalidArgument, "a number of the key is too great"};
  return change(*insert_, key, row, Errc::kOk);
}

Status SqliteTable::erase(const SqliteKey& key) const noexcept {
  return key.fits ? change(*erase_, key, {}, Errc::kNotFound) : Status(Errc::kNotFound, "no such key");
}

// A bound that does not fit is the greatest key that is less: as the last one it is right, and nothing fits between.
SqliteTable::Scan::Scan(const SqliteTable& table, const SqliteKey& first, const SqliteKey& last,
                        txn::Direction direction) noexcept
    : statement_(direction == txn::Direction::kForward ? *table.forward_ : *table.backward_),
      is_empty_(!first.fits && first.number >= last.number) {
  SqliteKey from = first;
  if (!first.fits && !is_empty_) ++from.number;
  (void)bind(statement_, 1, from);  // they cannot fail: there are such parameters, and nothing is allocated
  (void)bind(statement_, 2, last);
}

SqliteTable::Scan::~Scan() {
  sqlite3_reset(&statement_);
}

Result<bool> SqliteTable::Scan::next(std::span<std::byte> row) noexcept {
  if (is_empty_) return false;
  const int code = sqlite3_step(&statement_);
  if (code == SQLITE_DONE) return false;
  if (code != SQLITE_ROW) return status_of(code);
  if (!copy_row(statement_, 1, row)) return kOtherRow;
  return true;
}

SqliteKey SqliteTable::Scan::key() const noexcept {
  SqliteKey key;
  if (sqlite3_column_type(&statement_, 0) == SQLITE_INTEGER) {
    key.number = sqlite3_column_int64(&statement_, 0);
  } else {
    const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(&statement_, 0));
    key.bytes = {bytes, std::size_t(sqlite3_column_bytes(&statement_, 0))};
  }
  return key;
}

// ---- the database ----

SqliteDb::SqliteDb() {
  configure_once();
  sqlite3* connection = nullptr;
  const int code = sqlite3_open_v2(":memory:", &connection,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  connection_.reset(connection);
  if (code != SQLITE_OK) throw Error(fmt::format("SQLite does not open: {}", sqlite3_errstr(code)), Errc::kStorage);
  // A database in memory is never evicted, locked or synchronised; what it could be rolled back with is in memory too.
  // The settings say so all the same, as one would look for them.
  execute(*connection_, fmt::format("PRAGMA page_size = {}; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; "
                                    "PRAGMA locking_mode = EXCLUSIVE; PRAGMA temp_store = MEMORY; "
                                    "PRAGMA secure_delete = OFF; PRAGMA auto_vacuum = NONE",
                                    kPageBytes));
  begin_ = prepare(*connection_, "BEGIN IMMEDIATE");
  commit_ = prepare(*connection_, "COMMIT");
  rollback_ = prepare(*connection_, "ROLLBACK");
  count_pages_ = prepare(*connection_, "PRAGMA page_count");
}

std::uint64_t SqliteDb::memory_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  std::uint64_t pages = 0;
  if (sqlite3_step(count_pages_.get()) == SQLITE_ROW) {
    pages = std::uint64_t(sqlite3_column_int64(count_pages_.get(), 0));
  }
  sqlite3_reset(count_pages_.get());
  return pages * kPageBytes;
}

SqliteDb::Open::Open(SqliteDb& db) noexcept
    : db_(db),
      begun_([&] {
        const int code = step_once(*db.begin_);
        return code == SQLITE_DONE ? Status() : status_of(code);
      }()),
      is_open_(begun_.ok()) {}

/// SQLite may have rolled back by itself, when it had no memory; then there is nothing to do.
SqliteDb::Open::~Open() {
  if (is_open_ && sqlite3_get_autocommit(db_.connection_.get()) == 0) (void)step_once(*db_.rollback_);
}

Status SqliteDb::Open::end(const Status& status) noexcept {
  if (!status.ok()) {
    db_.aborts_.fetch_add(1, std::memory_order_relaxed);
    return status;
  }
  const int code = step_once(*db_.commit_);
  if (code != SQLITE_DONE) return status_of(code);
  is_open_ = false;
  db_.commits_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

}  // namespace atoll::bench::tpcc
