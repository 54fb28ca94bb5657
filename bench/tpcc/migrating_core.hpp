// The rows that a node of a partitioned engine has, and how they come and go. MigratingDb says what it is good for.
#pragma once

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "bench/tpcc/db.hpp"
#include "bench/tpcc/peers.hpp"

namespace atoll::bench::tpcc::migrating {

/// What a node may do with a key: nothing without asking; read; also write, for no other node has it.
enum class Here : std::uint8_t { kNot, kShared, kOwned };

/// A key on one node, with its row or that it has none: a key that is not there has an owner too, who may insert it.
///
/// Guarded by the latch, but for the row, `present` and `changed`, which are the lock's: who reads them holds it, or
/// sees with the latch that nobody holds it to write.
struct Entry {
  std::uint64_t holder = 0;   // the oldest transaction that has it locked, of those since it was free; 0: it is free
  std::uint64_t wanted = 0;   // the oldest that waits for it; 0: none
  std::uint64_t others = 0;   // at its home: bits of the other nodes that have it
  std::uint32_t readers = 0;  // who have it locked; 0: the holder has, to write
  std::atomic<bool> latch{false};
  Here here = Here::kNot;
  bool present = false;
  bool changed = false;  // by the transaction that has it locked
  NodeId home = 0;

  // The key follows, then the row, each rounded up to 8 bytes.
  [[nodiscard]] std::byte* key() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
  [[nodiscard]] std::byte* row(std::uint32_t key_space) noexcept { return key() + key_space; }
};

[[nodiscard]] constexpr std::uint32_t round_up_to_8(std::size_t bytes) noexcept {
  return std::uint32_t((bytes + 7) / 8 * 8);
}

[[nodiscard]] inline std::uint64_t hash_of(const std::byte* key, std::size_t bytes) noexcept {
  std::uint64_t hash = bytes;
  while (bytes > 0) {
    const std::size_t part = std::min<std::size_t>(bytes, 8);
    std::uint64_t word = 0;
    std::memcpy(&word, key, part);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
    key += part;
    bytes -= part;
  }
  hash *= 0xbf58476d1ce4e5b9;  // numbers of keys have their low bytes last: they must get to the low bits
  return hash ^ hash >> 32;
}

/// A short lock, of one entry or of what is added to an index.
///
/// Thread-safety: none; nobody waits, sends or looks for messages while it has one.
class Latch {
 public:
  explicit Latch(Entry& entry) noexcept : Latch(entry.latch) {}
  explicit Latch(std::atomic<bool>& word) noexcept : word_(word) {
    for (unsigned spins = 0; word_.exchange(true, std::memory_order_acquire); ++spins) relax(spins);
  }
  ~Latch() { word_.store(false, std::memory_order_release); }
  Latch(const Latch&) = delete;
  Latch& operator=(const Latch&) = delete;

 private:
  static void relax(unsigned spins) noexcept;  // who has it may want this processor

  std::atomic<bool>& word_;
};

/// Where entries are made, one behind the other; they stay until the end.
///
/// Thread-safety: none.
class Arena {
 public:
  /// Of zeros; null: there is no memory. `taken` counts the bytes.
  [[nodiscard]] std::byte* take(std::size_t bytes, std::atomic<std::uint64_t>& taken) noexcept;

 private:
  static constexpr std::size_t kChunkBytes = 2 << 20;  // a huge page
  struct Free {
    void operator()(std::byte* chunk) const noexcept { std::free(chunk); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> chunks_;
  std::size_t used_ = kChunkBytes;  // of the last one
};

/// Finds entries by their keys: open addressing, at most half full, twice as large when it would be more. Places are in
/// the order of the hashes, so that to grow is to read one array and write another from their beginning to their end.
///
/// Thread-safety: `find` takes no lock, and may miss what is being added. `add` is called by one thread at a time.
class Index {
 public:
  Index(std::uint64_t rows, std::atomic<std::uint64_t>& taken);

  /// `bytes`: of the key, which most callers know when they are compiled. Null: there is none.
  [[nodiscard]] Entry* find(const std::byte* key, std::uint64_t hash, std::size_t bytes) const noexcept {
    const Places& places = *places_.load(std::memory_order_acquire);
    for (std::uint64_t i = hash >> places.shift;; i = (i + 1) & places.mask) {
      const Place& place = places.all[i];
      Entry* const entry = place.entry.load(std::memory_order_acquire);
      if (entry == nullptr || (place.hash == hash && std::memcmp(entry->key(), key, bytes) == 0)) return entry;
    }
  }
  /// False: there is no memory. REQUIRES: there is none with this key.
  [[nodiscard]] bool add(Entry& entry, std::uint64_t hash) noexcept;
  std::atomic<bool> latch{false};  // for who adds

 private:
  struct Place {
    std::uint64_t hash = 0;  // never changes once there is an entry
    std::atomic<Entry*> entry{nullptr};
  };
  struct Places {
    unsigned shift = 0;
    std::uint64_t mask = 0;
    std::unique_ptr<Place[]> all;
  };
  [[nodiscard]] static std::unique_ptr<Places> make(std::uint64_t count, std::atomic<std::uint64_t>& taken) noexcept;
  static void put(Places& places, Entry& entry, std::uint64_t hash) noexcept;
  [[nodiscard]] bool grow() noexcept;

  std::atomic<std::uint64_t>& taken_;  // bytes
  std::uint64_t count_ = 0;
  std::vector<std::unique_ptr<Places>> all_;  // the old ones too: somebody may still be looking there
  std::atomic<Places*> places_{nullptr};
};

/// A table on this node.
struct TableData {
  TableData(std::uint64_t rows, std::atomic<std::uint64_t>& taken) : index(rows, taken) {}

  std::uint16_t number = 0;
  std::uint32_t key_bytes = 0, key_space = 0, row_bytes = 0;
  std::function<NodeId(const std::byte*)> home;
  mutable Index index;

  [[nodiscard]] std::byte* row(Entry& entry) const noexcept { return entry.row(key_space); }
  [[nodiscard]] std::uint32_t answer_bytes() const noexcept;  // what an answer about one key takes
};

/// What a transaction lacks.
struct Fetch {
  enum class Stage : std::uint8_t { kAskHome, kAskOthers, kDone, kFailed };
  const TableData* table = nullptr;
  Entry* entry = nullptr;
  bool exclusive = false;
  bool home_is_locked = false;  // for us, at another node: it has to hear how it went
  Stage stage = Stage::kAskHome;
  std::uint64_t others = 0;  // nodes that have yet to give it up
  std::uint64_t gave = 0;    // that have
};

/// What a thread keeps from one transaction to the next, so that none allocates once they have been as large as they
/// will be.
struct alignas(64) Worker {
  struct Undo {
    const TableData* table;
    Entry* entry;
    bool present;
    std::size_t row;  // in `rows`
  };
  unsigned thread = 0;
  std::uint64_t time = 0;       // of the transaction: the lower, the older. The same for all its attempts
  std::uint64_t last_time = 0;  // without node and thread
  Status broken;                // what all calls of this attempt end with
  std::vector<Entry*> locked;   // each once
  std::vector<Undo> undo;
  std::vector<std::byte> rows;  // as they were
  std::vector<Fetch> fetches;
  std::vector<std::vector<std::uint32_t>> asked;  // by node: which fetches
  base::Random random{1};
  base::Backoff::Learned learned;
  Arena arena;
};

/// Rows of this node, transactions on them, and what other nodes ask.
///
/// A lock is a node's own; it guards the node's right to use a key as much as its row. Who waits is always older than
/// who is waited for (wait-die), here and on other nodes; the younger one gives up and begins again, as old as it was.
///
/// A transaction locks an entry that is not here as well, then fetches it: from the key's home, if it is there; if not,
/// the home locks its entry and says who has it, and these give it up as soon as none of their transactions has it
/// locked. Then the home is told. A key whose row is at home can be read by several nodes at a time; who writes it has
/// it alone.
///
/// Thread-safety: add_table at set-up; the rest as it says.
/// Invariants:
///   1. An entry with Here::kOwned is on one node only, then all others have kNot, kShared only where the home has
///      kShared too and counts the node among the entry's `others`.
///   2. A node loses a right only while no transaction of it has the entry locked, or it has it locked to read and is
///      asked to share.
///   3. Of two transactions that are in each other's way the older one never gives up: the oldest of all ends.
///   4. Nobody who holds a latch waits.
class Core final : public PeerHandler {
 public:
  /// All nodes together. `threads`: how many run transactions at the same time. Throws Error.
  Core(Node& node, unsigned threads);
  ~Core() override;

  /// `rows`: of this node. Throws Error.
  [[nodiscard]] const TableData& add_table(std::string_view name, std::uint32_t key_bytes, std::uint32_t row_bytes,
                                           std::uint64_t rows, std::function<NodeId(const std::byte*)> home);
  [[nodiscard]] NodeId nodes() const noexcept { return count_; }

  // By a thread with the Worker that is its own:

  [[nodiscard]] Result<Worker*> begin() noexcept;
  /// The entry, locked, here.
  [[nodiscard]] Result<Entry*> acquire(Worker& worker, const TableData& table, const std::byte* key, std::uint64_t hash,
                                       Entry* found, bool exclusive) noexcept;
  /// If it is not here: it is locked, and fetched with others before the next `acquire`.
  [[nodiscard]] Status want(Worker& worker, const TableData& table, const std::byte* key, std::uint64_t hash,
                            Entry* found, bool exclusive) noexcept;
  /// Before the row, or whether there is one, is changed. REQUIRES: it is locked to write.
  void note_change(Worker& worker, const TableData& table, Entry& entry);
  void commit(Worker& worker) noexcept;
  void roll_back(Worker& worker) noexcept;
  /// Before attempt number `attempt` + 1. kNodeDied: it would be in vain.
  [[nodiscard]] Status back_off(Worker& worker, unsigned attempt) noexcept;

  /// Any thread.
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept { return taken_.load(std::memory_order_relaxed); }
  std::atomic<std::uint64_t> commits{0}, aborts{0}, lock_conflicts{0};

  void handle(const Call& call, std::span<const std::byte> message) noexcept override;

 private:
  static constexpr std::size_t kMostTables = 64;
  enum class Lock : std::uint8_t { kHave, kMustFetch, kWait, kDie };
  enum class Question : std::uint32_t { kWant, kGiveUp, kSettle };
  struct QuestionHead;
  struct QuestionItem;
  struct Reply;
  /// A question that waits for a transaction to end.
  struct Parked {
    Call call;
    std::vector<std::byte> message;
    std::uint64_t left = 0;  // bits of its items that are not answered
  };

  [[nodiscard]] const TableData& table(std::uint16_t number) const noexcept;
  [[nodiscard]] Entry* find_or_make(const TableData& table, const std::byte* key, std::uint64_t hash,
                                    Arena& arena) noexcept;
  [[nodiscard]] static Lock judge(Entry& entry, std::uint64_t time, bool exclusive) noexcept;
  [[nodiscard]] static Lock try_lock(Worker& worker, Entry& entry, bool exclusive);
  [[nodiscard]] Lock lock(Worker& worker, Entry& entry, bool exclusive) noexcept;
  [[nodiscard]] Status refuse(Worker& worker) noexcept;
  void release_all(Worker& worker) noexcept;

  // As the one who asks:
  [[nodiscard]] Status fetch(Worker& worker) noexcept;
  [[nodiscard]] Status ask_all(Worker& worker, Question kind) noexcept;
  [[nodiscard]] Status ask(Worker& worker, Question kind, NodeId to) noexcept;
  [[nodiscard]] Status hear(Worker& worker, Question kind, NodeId from) noexcept;
  void take_over(Fetch& fetch, const Reply& reply, const std::byte* row, bool is_from_home) noexcept;
  void settle(Worker& worker) noexcept;
  void settle_here(const Fetch& fetch) noexcept;
  static void forget(Entry& entry, std::uint64_t gave) noexcept;

  // As the one who is asked:
  [[nodiscard]] std::uint64_t serve(const Call& call, std::span<const std::byte> message, std::uint64_t left) noexcept;
  [[nodiscard]] Lock serve_want(const TableData& table, Entry& entry, std::uint64_t time, bool exclusive, NodeId asker,
                                Reply& reply, std::byte* row) noexcept;
  [[nodiscard]] Lock serve_give_up(const TableData& table, Entry& entry, std::uint64_t time, Reply& reply,
                                   std::byte* row) noexcept;
  void hear_settled(NodeId asker, std::span<const std::byte> message) noexcept;
  void retry_parked() noexcept;

  const NodeId self_, count_;
  std::array<std::unique_ptr<TableData>, kMostTables> tables_;
  std::atomic<std::uint16_t> tables_count_{0};  // that messages may be about
  std::vector<Worker> workers_;                 // by the thread's place among those of the node
  std::mutex handlers_mutex_;                   // of the arena of those who serve, who have none of their own
  Arena handlers_arena_;
  std::mutex parked_mutex_;
  std::vector<Parked> parked_;
  std::atomic<std::uint32_t> parked_count_{0};
  std::atomic<std::uint64_t> taken_{0};
  Peers peers_;  // the last: while it is there, messages are handled
};

}  // namespace atoll::bench::tpcc::migrating
