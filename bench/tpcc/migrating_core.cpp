// Tables, locks, the end of transactions. migrating_fetch.cpp has what nodes say to each other.
#include "bench/tpcc/migrating_core.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "base/check.hpp"
#include "base/host.hpp"
#include "bench/tpcc/migrating_wire.hpp"

namespace atoll::bench::tpcc::migrating {
namespace {

constexpr NodeId kMostNodes = 64;       // as a word has bits
constexpr unsigned kMostThreads = 256;  // of a node: a transaction's time says which, in 8 bits
constexpr unsigned kSpinsOfLatch = 64;
constexpr std::uint32_t kSpin_ns = 2000;
constexpr std::uint32_t kYield_us = 200;
constexpr std::chrono::microseconds kSleep{50};
constexpr std::chrono::seconds kDeadline{60};
constexpr unsigned kMostBackoff_us = 64;
constexpr unsigned kAttemptsBetweenLooks = 64;  // at whether all nodes are there
constexpr std::uint64_t kFewestPlaces = 64;

base::Host& host() noexcept {
  return base::Host::real();
}

PeersOptions options_of(unsigned threads) {
  PeersOptions options;
  options.name = "migrating";
  options.memory_bytes = 2 << 20;  // rows are a node's own: others never look at them
  options.threads = threads;
  options.answer_bytes = kAnswerBytes;
  return options;
}

}  // namespace

void Latch::relax(unsigned spins) noexcept {
  spins < kSpinsOfLatch ? host().relax() : host().yield();
}

std::byte* Arena::take(std::size_t bytes, std::atomic<std::uint64_t>& taken) noexcept {
  constexpr std::size_t kAlign = 16;
  bytes = (bytes + kAlign - 1) / kAlign * kAlign;
  if (used_ + bytes > kChunkBytes) {
    auto* const chunk = static_cast<std::byte*>(std::aligned_alloc(kChunkBytes, kChunkBytes));
    if (chunk == nullptr) return nullptr;
    ::madvise(chunk, kChunkBytes, MADV_HUGEPAGE);
    std::memset(chunk, 0, kChunkBytes);  // all its page faults now
    chunks_.emplace_back(chunk);
    used_ = 0;
    taken.fetch_add(kChunkBytes, std::memory_order_relaxed);
  }
  used_ += bytes;
  return chunks_.back().get() + used_ - bytes;
}

// ---- set-up ----

Core::Core(Node& node, unsigned threads)
    : self_(node.id()), count_(node.count()), workers_(threads), peers_(node, options_of(threads)) {
  if (count_ > kMostNodes) throw Error(fmt::format("this engine can have {} nodes, not {}", kMostNodes, count_));
  if (threads > kMostThreads) throw Error(fmt::format("this engine can have {} threads on a node", kMostThreads));
  for (unsigned thread = 0; thread < threads; ++thread) {
    Worker& worker = workers_[thread];
    worker.thread = thread;
    worker.asked.resize(count_);
    worker.random = base::Random(std::uint64_t{self_} << 32 | (thread + 1));
  }
  peers_.start(*this);
}

Core::~Core() = default;

const TableData& Core::add_table(std::string_view name, std::uint32_t key_bytes, std::uint32_t row_bytes,
                                 std::uint64_t rows, std::function<NodeId(const std::byte*)> home) {
  auto table = std::make_unique<TableData>(rows, taken_);
  const std::uint16_t number = tables_count_.load(std::memory_order_relaxed);
  if (number == kMostTables) throw Error(fmt::format("this engine can have {} tables", kMostTables));
  table->number = number;
  table->key_bytes = key_bytes;
  table->key_space = round_up_to_8(key_bytes);
  table->row_bytes = row_bytes;
  table->home = std::move(home);
  if (table->answer_bytes() > kAnswerBytes) {
    throw Error(fmt::format("table {}: rows of {} bytes are more than a message takes", name, row_bytes));
  }
  tables_[number] = std::move(table);
  tables_count_.store(number + 1, std::memory_order_release);
  return *tables_[number];
}

/// Of a message: all nodes have added it before any of them says anything about it.
const TableData& Core::table(std::uint16_t number) const noexcept {
  ATOLL_CHECK(number < tables_count_.load(std::memory_order_acquire));
  return *tables_[number];
}

// ---- entries ----

Index::Index(std::uint64_t rows, std::atomic<std::uint64_t>& taken) : taken_(taken) {
  all_.push_back(make(std::bit_ceil(std::max(2 * rows, kFewestPlaces)), taken));
  if (all_.back() == nullptr) throw Error("there is no memory for an index", Errc::kOutOfMemory);
  places_.store(all_.back().get(), std::memory_order_release);
}

/// REQUIRES: `count` is a power of two, and not 1.
std::unique_ptr<Index::Places> Index::make(std::uint64_t count, std::atomic<std::uint64_t>& taken) noexcept {
  auto places = std::make_unique<Places>();
  places->all.reset(new (std::nothrow) Place[count]);
  if (places->all == nullptr) return nullptr;
  places->mask = count - 1;
  places->shift = unsigned(std::countl_zero(places->mask));
  taken.fetch_add(count * sizeof(Place), std::memory_order_relaxed);
  return places;
}

void Index::put(Places& places, Entry& entry, std::uint64_t hash) noexcept {
  std::uint64_t i = hash >> places.shift;
  while (places.all[i].entry.load(std::memory_order_relaxed) != nullptr) i = (i + 1) & places.mask;
  places.all[i].hash = hash;
  places.all[i].entry.store(&entry, std::memory_order_release);
}

bool Index::add(Entry& entry, std::uint64_t hash) noexcept {
  if (2 * (count_ + 1) > all_.back()->mask + 1 && !grow()) return false;
  put(*all_.back(), entry, hash);
  ++count_;
  return true;
}

bool Index::grow() noexcept {
  const Places& old = *all_.back();
  std::unique_ptr<Places> larger = make(2 * (old.mask + 1), taken_);
  if (larger == nullptr) return false;
  for (std::uint64_t i = 0; i <= old.mask; ++i) {
    Entry* const entry = old.all[i].entry.load(std::memory_order_relaxed);
    if (entry != nullptr) put(*larger, *entry, old.all[i].hash);
  }
  all_.push_back(std::move(larger));
  places_.store(all_.back().get(), std::memory_order_release);
  return true;
}

Entry* Core::find_or_make(const TableData& table, const std::byte* key, std::uint64_t hash, Arena& arena) noexcept {
  const Latch latch(table.index.latch);
  if (Entry* const found = table.index.find(key, hash, table.key_bytes)) return found;
  std::byte* const memory = arena.take(sizeof(Entry) + table.key_space + round_up_to_8(table.row_bytes), taken_);
  if (memory == nullptr) return nullptr;
  auto* const made = new (memory) Entry;
  made->home = table.home(key);
  if (made->home == self_) made->here = Here::kOwned;  // nobody has asked for it yet
  std::memcpy(made->key(), key, table.key_bytes);
  return table.index.add(*made, hash) ? made : nullptr;
}

/// May a transaction of this time have it that has not got it yet? REQUIRES: the caller has the latch.
Core::Lock Core::judge(Entry& entry, std::uint64_t time, bool exclusive) noexcept {
  if (entry.wanted != 0 && entry.wanted < time) return Lock::kDie;  // or somebody older might wait for ever
  const bool is_locked = entry.holder != 0 && (entry.readers == 0 || exclusive);
  if (is_locked && time < entry.holder) {
    entry.wanted = time;
    return Lock::kWait;
  }
  if (entry.wanted == time) entry.wanted = 0;
  return is_locked ? Lock::kDie : Lock::kHave;
}

Core::Lock Core::try_lock(Worker& worker, Entry& entry, bool exclusive) {
  const Latch latch(entry);
  const auto have = [&] {
    const bool is_enough = entry.here == Here::kOwned || (!exclusive && entry.here == Here::kShared);
    return is_enough ? Lock::kHave : Lock::kMustFetch;
  };
  if (entry.holder == worker.time && entry.readers == 0) return have();
  if (entry.readers > 0 && std::find(worker.locked.begin(), worker.locked.end(), &entry) != worker.locked.end()) {
    if (!exclusive) return Lock::kHave;
    if (entry.readers > 1) {
      if (worker.time > entry.holder || (entry.wanted != 0 && entry.wanted < worker.time)) return Lock::kDie;
      entry.wanted = worker.time;
      return Lock::kWait;
    }
    if (entry.wanted == worker.time) entry.wanted = 0;
    entry.readers = 0;
    entry.holder = worker.time;
    return have();
  }
  const Lock lock = judge(entry, worker.time, exclusive);
  if (lock != Lock::kHave) return lock;
  worker.locked.push_back(&entry);
  if (have() == Lock::kMustFetch) {  // to write, whatever it is for, until it is here
    entry.holder = worker.time;
    return Lock::kMustFetch;
  }
  if (!exclusive) ++entry.readers;
  entry.holder = entry.holder == 0 ? worker.time : std::min(entry.holder, worker.time);
  return Lock::kHave;
}

/// Waits if it may.
Core::Lock Core::lock(Worker& worker, Entry& entry, bool exclusive) noexcept {
  Lock lock = try_lock(worker, entry, exclusive);
  if (lock != Lock::kWait) return lock;
  base::Backoff backoff(host(), kSpin_ns, kYield_us, worker.learned);
  while (lock == Lock::kWait) {
    (void)peers_.poll(worker.thread);
    retry_parked();
    if (!backoff.pause()) {
      host().sleep_for(kSleep);
      worker.broken = peers_.all_here();  // or a lock might be a dead node's
      if (worker.broken.ok() && backoff.now() - backoff.start() > kDeadline) {
        worker.broken = {Errc::kDeadline, "a row stays locked"};
      }
      if (!worker.broken.ok()) break;
    }
    lock = try_lock(worker, entry, exclusive);
  }
  if (lock == Lock::kHave || lock == Lock::kMustFetch) return lock;
  const Latch latch(entry);
  if (entry.wanted == worker.time) entry.wanted = 0;
  return Lock::kDie;
}

/// This attempt is over, unless it is for another reason already.
Status Core::refuse(Worker& worker) noexcept {
  if (worker.broken.ok()) {
    worker.broken = {Errc::kRefused, "another transaction is in the way"};
    lock_conflicts.fetch_add(1, std::memory_order_relaxed);
  }
  return worker.broken;
}

// ---- transactions ----

Result<Worker*> Core::begin() noexcept {
  const Result<unsigned> thread = peers_.thread();
  if (!thread.ok()) return thread.status();
  (void)peers_.poll(*thread);
  Worker& worker = workers_[*thread];
  // Ticks of 64 ns in 47 bits, then who it is: no other transaction of any node has the same.
  const auto ticks = std::uint64_t(host().now().time_since_epoch().count()) >> 6;
  worker.last_time = std::max(worker.last_time + 1, ticks);
  worker.time = worker.last_time << 16 | std::uint64_t{self_} << 8 | worker.thread;
  return &worker;
}

Result<Entry*> Core::acquire(Worker& worker, const TableData& table, const std::byte* key, std::uint64_t hash,
                             Entry* found, bool exclusive) noexcept {
  if (!worker.broken.ok()) return worker.broken;
  if (!worker.fetches.empty()) {
    if (const Status status = fetch(worker); !status.ok()) return status;
  }
  Entry* const entry = found != nullptr ? found : find_or_make(table, key, hash, worker.arena);
  if (entry == nullptr) return {Errc::kOutOfMemory, "there is no memory for more rows", self_};
  const Lock got = lock(worker, *entry, exclusive);
  if (got == Lock::kHave) return entry;
  if (got != Lock::kMustFetch) return refuse(worker);
  worker.fetches.push_back({&table, entry, exclusive});
  if (const Status status = fetch(worker); !status.ok()) return status;
  return entry;
}

Status Core::want(Worker& worker, const TableData& table, const std::byte* key, std::uint64_t hash, Entry* found,
                  bool exclusive) noexcept {
  if (!worker.broken.ok()) return worker.broken;
  Entry* const entry = found != nullptr ? found : find_or_make(table, key, hash, worker.arena);
  if (entry == nullptr) return {Errc::kOutOfMemory, "there is no memory for more rows", self_};
  {
    const Latch latch(*entry);
    if (entry->here == Here::kOwned || (!exclusive && entry->here == Here::kShared)) return {};
  }
  const auto same = std::find_if(worker.fetches.begin(), worker.fetches.end(),
                                 [&](const Fetch& fetch) { return fetch.entry == entry; });
  if (same != worker.fetches.end()) {
    same->exclusive = same->exclusive || exclusive;
    return {};
  }
  const Lock got = lock(worker, *entry, exclusive);
  if (got == Lock::kHave) return {};
  if (got != Lock::kMustFetch) return refuse(worker);
  worker.fetches.push_back({&table, entry, exclusive});
  return {};
}

void Core::note_change(Worker& worker, const TableData& table, Entry& entry) {
  if (entry.changed) return;
  entry.changed = true;
  worker.undo.push_back({&table, &entry, entry.present, worker.rows.size()});
  if (!entry.present) return;
  const std::byte* const row = table.row(entry);
  worker.rows.insert(worker.rows.end(), row, row + table.row_bytes);
}

void Core::commit(Worker& worker) noexcept {
  for (const Worker::Undo& undo : worker.undo) undo.entry->changed = false;
  commits.fetch_add(1, std::memory_order_relaxed);
  release_all(worker);
}

/// Does nothing when it has ended already.
void Core::roll_back(Worker& worker) noexcept {
  for (const Worker::Undo& undo : worker.undo) {
    if (undo.present) {
      std::memcpy(undo.table->row(*undo.entry), worker.rows.data() + undo.row, undo.table->row_bytes);
    }
    undo.entry->present = undo.present;
    undo.entry->changed = false;
  }
  release_all(worker);
}

void Core::release_all(Worker& worker) noexcept {
  for (Entry* const entry : worker.locked) {
    const Latch latch(*entry);
    if (entry->readers > 0) --entry->readers;
    if (entry->readers == 0) entry->holder = 0;
  }
  const bool any = !worker.locked.empty();
  worker.locked.clear();
  worker.undo.clear();
  worker.rows.clear();
  worker.fetches.clear();
  worker.broken = {};
  if (any) retry_parked();
}

Status Core::back_off(Worker& worker, unsigned attempt) noexcept {
  const std::uint64_t most_us = std::min<std::uint64_t>(kMostBackoff_us, std::uint64_t{1} << std::min(attempt, 16u));
  const auto end = host().now() + std::chrono::nanoseconds(worker.random.below(most_us * 1000));
  base::Backoff backoff(host(), kSpin_ns, kYield_us, worker.learned);
  do {
    (void)peers_.poll(worker.thread);
    retry_parked();
    if (!backoff.pause()) backoff.reset();
  } while (host().now() < end);
  return attempt % kAttemptsBetweenLooks == kAttemptsBetweenLooks - 1 ? peers_.all_here() : Status();
}

}  // namespace atoll::bench::tpcc::migrating
