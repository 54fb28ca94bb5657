// Random programs over a simulated cluster, and the checkers that run along with them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "sim/cluster.hpp"
#include "sim/reference.hpp"

namespace atoll::sim {

/// What the threads do.
enum class Act : std::uint8_t {
  kReadWord,
  kWriteWord,
  kReadBlob,
  kWriteBlob,
  kScan,
  kAdd,
  kExchange,
  kCompareExchange,
  kFunction,
  kFence,
  kWriteLock,
  kReadLock,
  kTryWriteLock,
  kTryReadLock,
  kAllocate,
  kFree,
  kMisuse,
  kApply,
  kWriteElement,
  kReadElement,
  kTryWriteElement,
  kTryReadElement,
  kWriteIf,
  kCount,
};
inline constexpr std::size_t kActs = std::size_t(Act::kCount);
[[nodiscard]] std::string_view to_string(Act act) noexcept;

struct WorkloadOptions {
  std::uint32_t threads = 2;   // of each node
  std::uint64_t ops = 10'000;  // of all threads together
  std::uint32_t hot_words = 12;
  std::uint32_t hot_lines = 3;  // that they share
  std::uint32_t blobs = 6;
  std::uint32_t locked = 4;
  std::uint32_t cold_lines = 100;
  std::uint32_t larger = 0;      // lines are 2^larger times as large as the heap's
  std::uint32_t think_ns = 500;  // between two operations, on the average
  std::array<std::uint32_t, kActs> weights{};
  std::uint64_t kill_after = 0;     // operations; 0: nobody dies
  std::uint64_t crash_every = 0;    // operations, after which some nodes crash, to come back; 0: never
  std::uint64_t suspend_every = 0;  // operations, after which some node may not act for a while; 0: never
};

/// Thread-safety: the machine's. Invariants:
///   1. While a thread holds a lock it touches nothing but what the lock covers. (Else two threads might wait for each
///      other, and that would be the program's fault.)
class Workload {
 public:
  Workload(Cluster& cluster, const WorkloadOptions& options);
  /// All of it, from the allocation to the last free. Throws Failure.
  void run();

  [[nodiscard]] const std::array<std::uint64_t, kActs>& done() const noexcept { return done_; }
  [[nodiscard]] std::uint64_t operations() const noexcept { return operations_; }
  [[nodiscard]] std::uint64_t failed() const noexcept { return failed_; }

 private:
  /// The longest that an operation may take. All that it may have to wait for takes microseconds, or a suspension or
  /// two; who waits for a wake-up that never comes notices after 50 ms by itself.
  static constexpr Time kPatience = 45'000'000;

  /// Something in global memory with its cells, one for each line that it touches.
  struct Object {
    GlobalAddress address;
    std::uint32_t bytes = 0;
    std::vector<Cell> cells;
    // Of objects that are used under locks: who holds it.
    std::uint32_t writer = 0;  // 1 + thread
    std::uint32_t readers = 0;
    std::uint64_t draft = 0;           // the last stamp that was overwritten under the same lock
    std::set<std::uint64_t> replaced;  // values of 8 bytes that an atomic has replaced: each once
    bool is_going = false;             // it is being freed
    bool is_settled = false;           // its thread has fenced since it was allocated
  };
  /// One of several in a line, each of which has a lock of its own.
  struct Element {
    Object object;
    std::set<std::uint32_t> readers;  // threads that hold it
    NodeId left_by = kNoNode;         // whose crash has left it locked to write
    std::uint32_t left_in = 0;        // in which of its lives
  };
  struct Pending {
    Object* object;
    std::uint64_t stamp;
  };
  /// Three words that are combined together: `twice` is always twice the sum, and `least` the smallest operand's.
  struct Wide {
    std::uint64_t sum = 0;
    std::uint64_t least = 0;
    std::uint64_t twice = 0;
  };
  /// A word that operands are combined with: all of them add, or all are for the largest. It never gets smaller. (The
  /// largest is kept as the smallest distance from a limit: the identity of that is all ones, that of sums all zeroes,
  /// so that it shows when a slot begins with the wrong one.) Or a wide value, whose sum is what counts.
  struct Tally {
    enum class Kind : std::uint8_t { kSum, kLargest, kWide };
    GlobalAddress address;
    Kind kind = Kind::kSum;
    std::uint64_t begun = 0;  // all operands so far combined, the most that it can be
    std::uint64_t known = 0;  // those that are known to be done
    std::uint64_t seen = 0;   // what somebody has read

    static constexpr std::uint64_t kLimit = std::uint64_t{1} << 60;
    [[nodiscard]] std::uint64_t combine(std::uint64_t a, std::uint64_t b) const noexcept {
      return kind == Kind::kLargest ? std::max(a, b) : a + b;
    }
    void done(std::uint64_t operand) noexcept { known = combine(known, operand); }
  };
  /// A word, and two more that are changed only together with it.
  struct Guarded {
    GlobalAddress address;
    std::set<std::uint64_t> replaced;  // values of the first word: each once
    std::uint64_t maybe = 0;           // changes of threads that crashed while they were at it
  };
  struct Operand {
    std::size_t tally;
    std::uint64_t value;
  };
  /// One thread of one node.
  struct Worker {
    std::uint32_t number = 0;
    Node* node = nullptr;
    base::Random random{0};
    std::vector<Pending> pending;   // writes that are not known to be done
    std::vector<Operand> operands;  // the same of operands
    std::vector<std::unique_ptr<Object>> own;
    Tick begun = kNever;  // of the operation under way
    Time begun_at = 0;
    std::string_view doing;  // empty: nothing
    GlobalAddress about;
    bool at_barrier = false;
    bool has_arrived = false;       // at the barrier of this phase, or need not
    std::uint32_t since_death = 0;  // operations
    std::uint64_t steps = 0;        // of this phase
    // Of a thread whose node may crash: what it is about to change.
    bool vanished = false;  // it has
    Object* locked = nullptr;
    Element* element = nullptr;  // of which `locked` is the object, if it is of one
    LockMode mode = LockMode::kRead;
    Object* drafted = nullptr;  // it was overwritten under a lock whose unlock has not returned
    Guarded* guarded = nullptr;
    std::size_t counter = 0;
    std::uint64_t adds = 0;  // to that counter
  };

  void lay_out();
  void lay_out_tallies(GlobalAddress beside, GlobalAddress own, GlobalAddress wide);
  void register_operators(Node& node);
  void lay_out_elements(GlobalAddress line);
  void lay_out_guarded(GlobalAddress line);
  void audit();
  void run_phase(bool last);
  void finish_all();
  void work(Worker& worker, bool last);
  void act(Worker& worker, Act what);
  void begin_barrier();
  void arrive(Worker& worker);
  void look_at_barrier() const;
  void barrier_after_crash(NodeId back);
  [[nodiscard]] bool is_released(NodeId node) const noexcept { return cluster_.barriers(node) > barriers_before_; }
  void maybe_disturb();
  void start(Worker& worker);
  void plan_crash();
  void on_crash(NodeId node);
  void on_back(NodeId node);
  void bury(Worker& worker);
  [[nodiscard]] std::unique_ptr<Worker> reborn(const Worker& worker);
  void register_functions(Node& node);
  [[nodiscard]] NodeId node_of(std::uint32_t thread) const noexcept;
  [[nodiscard]] bool is_power() const noexcept;

  // ---- operations ----
  void read_object(Worker& worker, Object& object);
  void write_object(Worker& worker, Object& object, Consistency consistency);
  void scan(Worker& worker);
  void add(Worker& worker);
  void exchange(Worker& worker, bool compare);
  void call_function(Worker& worker);
  void fence(Worker& worker);
  void apply(Worker& worker);
  [[nodiscard]] Status combine(Node& node, const Tally& tally, std::uint64_t operand, Consistency consistency) const;
  [[nodiscard]] static Result<std::uint64_t> value_of(Node& node, const Tally& tally);
  void read_tally(Worker& worker);
  void peek(Worker& worker);
  void use_locked(Worker& worker, LockMode mode, bool is_try);
  void use_element(Worker& worker, LockMode mode, bool is_try);
  void lock_again(Worker& worker, const Element& element, LockMode mode);
  void allocate(Worker& worker);
  void free_one(Worker& worker);
  void misuse(Worker& worker);
  void use_guarded(Worker& worker);
  void change_guarded(Worker& worker, Guarded& guarded);
  void change_guarded_under_lock(Worker& worker, Guarded& guarded);
  void read_guarded(Worker& worker, const Guarded& guarded);

  // ---- checkers ----
  void begin(Worker& worker, std::string_view what, GlobalAddress about) noexcept;
  /// The operation is over. False when it failed and may: somebody has died.
  [[nodiscard]] bool end(Worker& worker, const Status& status);
  void check_time(const Worker& worker) const;
  void writes_are_done(Worker& worker) noexcept;
  void check_cells(Worker& worker, Object& object, std::span<const std::byte> found, Tick end);
  void take_lock(Worker& worker, Object& object, LockMode mode);
  static void give_lock(Worker& worker, Object& object, LockMode mode);
  void set_arena_lines(std::uint32_t line_bytes);
  void give_arenas_back();
  void take_element(Worker& worker, Element& element, LockMode mode);
  static void give_element(Worker& worker, Element& element);
  void bury_element(const Worker& worker);
  void claim_range(GlobalAddress address, std::uint64_t bytes);
  void check_counters();
  void check_guarded();
  static void count_guarded(Guarded& guarded, std::uint64_t found);

  /// In the arenas, or in lines of another size.
  [[nodiscard]] Object make_object(GlobalAddress address, std::uint32_t bytes) const {
    return make_object(address, bytes, line_bytes_);
  }
  [[nodiscard]] static Object make_object(GlobalAddress address, std::uint32_t bytes, std::uint32_t line_bytes);
  [[nodiscard]] Object& pick(Worker& worker, std::vector<Object>& from);
  [[nodiscard]] Consistency any_consistency(Worker& worker);
  [[nodiscard]] Tick tick() noexcept { return ++tick_; }

  Cluster& cluster_;
  WorkloadOptions options_;
  std::uint32_t line_bytes_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Worker>> vanished_;  // whose nodes have crashed
  bool at_work_ = false;                           // a phase is under way
  bool last_phase_ = false;
  std::vector<GlobalAddress> arenas_;  // of each node
  std::uint64_t arena_bytes_ = 0;
  std::vector<Object> words_;
  std::vector<Object> blobs_;
  std::vector<Object> locked_;
  std::deque<Element> elements_;            // which writes under way point to
  std::vector<Object> cold_;                // one word in each of many lines
  std::vector<std::uint32_t> cold_starts_;  // where in `cold_` each node's lines begin
  std::vector<GlobalAddress> counters_;
  std::vector<std::uint64_t> counted_;
  std::vector<std::uint64_t> maybe_counted_;           // by threads that crashed while they were at it
  std::vector<std::set<std::uint64_t>> counts_found_;  // by additions: each value at most once
  std::vector<Tally> tallies_;
  std::vector<Guarded> guarded_;
  Operator<Wide> combine_wide_;
  std::vector<GlobalAddress> triples_;                // three words that a function adds to together
  std::map<std::uint64_t, std::uint64_t> allocated_;  // begin and end of what was given out
  std::vector<std::uint64_t> free_before_;
  std::array<std::uint64_t, kActs> done_{};
  std::uint64_t operations_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t stamps_ = 0;
  Tick tick_ = 0;
  Time last_arrival_ = 0;                // of a node at the barrier
  std::vector<std::uint64_t> arrivals_;  // of each node, the last phase at whose barrier it has arrived, from 1
  std::uint64_t phase_ = 0;              // from 1
  std::uint64_t barriers_before_ = 0;    // that were released when the phase began, as nodes count them
};

}  // namespace atoll::sim
