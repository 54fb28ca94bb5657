// The node: drives the coherence core with fabric, memory and threads.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "atoll/node.hpp"
#include "base/backoff.hpp"
#include "base/host.hpp"
#include "base/mutex.hpp"
#include "cluster/membership.hpp"
#include "coherence/element_locks.hpp"
#include "coherence/protocol.hpp"
#include "fabric/fabric.hpp"
#include "memory/allocator.hpp"
#include "memory/cache_slots.hpp"
#include "memory/line_map.hpp"
#include "memory/page_joiner.hpp"
#include "memory/segment.hpp"
#include "runtime/inspection.hpp"
#include "runtime/journal.hpp"
#include "runtime/operators.hpp"
#include "runtime/task.hpp"
#include "runtime/threads.hpp"
#include "runtime/transport.hpp"
#include "storage/page_store.hpp"

namespace atoll::runtime {

class FileCalls;
class Files;

/// One node. What Node's methods do beyond a hit.
///
/// Thread-safety: public methods may be called from any thread. One engine lock (`mutex_`) guards the protocol and
/// everything that it works on; a hit never takes it. A thread that misses posts its request itself, then drives the
/// node's progress while it waits; the service thread does so when nobody waits, and sleeps when there is nothing to
/// do. Invariants:
///   1. Nothing waits while it holds the engine lock, but for threads that are inside an access (nanoseconds).
///   2. Nothing is sent, and no message worked on, but within the node's lease as it was when the engine was entered.
///   3. Everything sent under the engine lock is flushed before it is released, but for a few small writes to a home
///      that has an answer to give to an earlier one: its arrival flushes them (see is_held_back).
class Runtime final : private coherence::Env, private coherence::ElementEnv {
 public:
  /// Throws Error.
  Runtime(const Options& options, std::unique_ptr<cluster::Membership> membership);
  /// The same with another way to the peers and another machine than those of this process, and another disk than that
  /// of `options.log_dir` (none: there is no log, or it is in that directory), and another store of pages of files than
  /// the system's.
  Runtime(const Options& options, std::unique_ptr<cluster::Membership> membership, std::unique_ptr<Transport> transport,
          base::Host& host, std::unique_ptr<storage::Disk> disk = nullptr,
          std::unique_ptr<storage::PageStore> pages = nullptr);
  ~Runtime() override;

  [[nodiscard]] NodeId id() const noexcept { return self_; }
  [[nodiscard]] NodeId count() const noexcept { return nodes_; }
  [[nodiscard]] const Options& options() const noexcept { return options_; }
  /// Did this node find its memory as a process before it had left it?
  [[nodiscard]] bool recovered() const noexcept { return recovered_; }
  /// Which of the node's processes this is: 1 for the first, more for each that came back.
  [[nodiscard]] std::uint64_t life() const noexcept { return journal_ == nullptr ? 1 : journal_->log().generation(); }
  [[nodiscard]] Presence presence(NodeId node) const noexcept;
  [[nodiscard]] const detail::LineTable& table() const noexcept { return lines_->table(); }

  // allocate.cpp
  Result<GlobalAddress> allocate(std::uint64_t bytes, const Placement& placement);
  Status free(GlobalAddress address);
  Status release(GlobalAddress address);
  Status give_back(GlobalAddress address, std::uint64_t bytes);
  // regions.cpp
  [[nodiscard]] std::uint32_t largest_line_bytes() const noexcept;
  Result<GlobalAddress> allocate_region(std::uint64_t bytes);
  Status close_region(GlobalAddress first, std::uint64_t bytes);
  Status open_region(GlobalAddress first, std::uint64_t bytes, std::uint32_t line_bytes);
  [[nodiscard]] bool attach_words(GlobalAddress first, std::uint64_t bytes, std::span<detail::HotWord> words,
                                  std::uint64_t zero);
  /// What is done with files as a whole.
  [[nodiscard]] FileCalls& file_calls() noexcept { return *file_calls_; }
  // access.cpp
  Status read(GlobalAddress address, std::byte* into, std::uint64_t bytes);
  Status prefetch(GlobalAddress address, std::uint64_t bytes, LockMode mode);
  Status write(GlobalAddress address, const std::byte* from, std::uint64_t bytes, Consistency consistency);
  Result<std::uint64_t> rmw(GlobalAddress address, std::size_t bytes, Action what, std::uint64_t operand,
                            std::uint64_t expected, Settle settled = Settle::kNow);
  // write_if.cpp
  Result<bool> write_if(GlobalAddress guard, std::uint64_t expected, std::uint64_t desired, GlobalAddress address,
                        std::span<const std::byte> bytes);
  // together.cpp
  Status write_together(std::span<const WritePart> parts);
  // access.cpp
  Status register_atomic(std::string_view name, AtomicFunction function);
  Status atomic(GlobalAddress address, std::uint32_t bytes, std::string_view name, std::span<const std::byte> args);
  Status fence();
  // operate.cpp
  Result<std::uint8_t> register_operator(std::string_view name, OperatorInfo info);
  Status apply(GlobalAddress address, std::uint8_t number, const std::byte* operand, std::size_t bytes,
               Consistency consistency);
  // locks.cpp
  Status lock(GlobalAddress address, std::uint64_t bytes, LockMode mode, bool is_try);
  Status unlock(GlobalAddress address, std::uint64_t bytes);
  Result<std::byte*> pin(GlobalAddress address, std::uint64_t bytes, LockMode mode);
  // element_locks.cpp
  Status lock_element(GlobalAddress element, LockMode mode, bool is_try);
  Status unlock_element(GlobalAddress element);
  // allocate.cpp, runtime.cpp
  Status barrier(std::chrono::milliseconds timeout);
  /// How many barriers have been released, as far as this node knows.
  [[nodiscard]] std::uint64_t barriers() const noexcept { return barrier_released_.load(std::memory_order_acquire); }
  Status publish(std::string_view name, GlobalAddress address);
  Result<GlobalAddress> lookup(std::string_view name, std::chrono::milliseconds timeout);
  [[nodiscard]] Stats stats();
  /// What this node holds right now. Looks at all of it.
  [[nodiscard]] Inspection inspect();

 private:
  using Clock = base::Host::Clock;
  using LineRef = coherence::LineRef;
  static constexpr std::uint64_t kSleepSlice_us = 50'000;  // a sleeper looks this often whether a node has died
  static constexpr std::uint32_t kBatch = 16;              // messages taken from the fabric before they are worked on

  // ---- standing.cpp: leases ----
  enum class Over : std::uint8_t { kNot, kFenced, kMasterLost, kLogLost };
  /// The engine lock for a thread of the program. It waits while the node is suspended; a node whose time is over gets
  /// in, and why_over() says so.
  class ATOLL_TSA(scoped_lockable) Entry {
   public:
    explicit Entry(Runtime& runtime) ATOLL_TSA(acquire_capability(runtime.mutex_)) : runtime_(runtime) {
      runtime.enter();
    }
    ~Entry() ATOLL_TSA(release_capability()) { runtime_.mutex_.unlock(); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    Runtime& runtime_;
  };
  void enter() ATOLL_TSA(acquire_capability(mutex_));
  /// May this node touch memory and send, now? Asked each time that the engine is entered.
  [[nodiscard]] bool may_act() const noexcept {
    const std::int64_t until = act_until_.load(std::memory_order_acquire);
    return until == cluster::Membership::kForEver || host_.coarse_ns() < until;
  }
  /// The same, and what time it is for what is done under the engine lock.
  [[nodiscard]] bool refresh_right() noexcept ATOLL_REQUIRES(mutex_) {
    const std::int64_t until = act_until_.load(std::memory_order_acquire);
    if (until == cluster::Membership::kForEver) return true;
    now_ns_ = host_.coarse_ns();
    return now_ns_ < until;
  }
  [[nodiscard]] bool is_over() const noexcept { return over_.load(std::memory_order_acquire) != Over::kNot; }
  [[nodiscard]] Status why_over() const noexcept;
  void on_standing(cluster::Standing standing, const std::string& why);
  void end(Over why);
  void be_silent() ATOLL_REQUIRES(mutex_);
  void clean_up() ATOLL_REQUIRES(mutex_);
  void hide_copies() ATOLL_REQUIRES(mutex_);
  void hide_homes() ATOLL_REQUIRES(mutex_);
  void hide(const LineRef& ref, std::vector<LineRef>& lines) ATOLL_REQUIRES(mutex_);

  // ---- probes.cpp: do the peers hear this node? ----
  struct Reach {                        // what is known of a peer
    std::int64_t unanswered_since = 0;  // something was sent to it then, and nothing was heard since; 0: nothing was
    std::int64_t probed_at = 0;
    bool complained = false;  // the master knows
  };
  void note_sent(NodeId to) noexcept ATOLL_REQUIRES(mutex_) {
    if (reach_[to].unanswered_since == 0) reach_[to].unanswered_since = now_ns_;
  }
  void note_heard(NodeId from) noexcept ATOLL_REQUIRES(mutex_) {
    reach_[from].unanswered_since = 0;
    if (reach_[from].complained) [[unlikely]]
      be_reconciled(from);
  }
  void look_at_peers(std::int64_t& looked_ns) ATOLL_EXCLUDES(mutex_);
  void look_at_peer(NodeId peer) ATOLL_REQUIRES(mutex_);
  void tell_alive() ATOLL_REQUIRES(mutex_);
  void be_reconciled(NodeId peer) noexcept ATOLL_REQUIRES(mutex_);
  void handle_probe(NodeId from) ATOLL_REQUIRES(mutex_);

  // ---- engine.cpp: the core's environment; all under mutex_ ----
  [[nodiscard]] NodeId self() const noexcept override { return self_; }
  [[nodiscard]] NodeId nodes() const noexcept override { return nodes_; }
  coherence::Cold& cold(const LineRef& ref) override ATOLL_REQUIRES(mutex_);
  [[nodiscard]] coherence::Cold* find_cold(const LineRef& ref) noexcept override ATOLL_REQUIRES(mutex_);
  void drop_cold(const LineRef& ref) noexcept override ATOLL_REQUIRES(mutex_);
  void mark_here(const LineRef& ref) noexcept ATOLL_REQUIRES(mutex_);
  [[nodiscard]] wire::Message make_message(const LineRef& ref, const coherence::Message& message)
      ATOLL_REQUIRES(mutex_);
  void send(const LineRef& ref, NodeId to, const coherence::Message& message) override ATOLL_REQUIRES(mutex_);
  void send_line(const LineRef& ref, NodeId to, std::uint32_t slot, const coherence::Message& message) override
      ATOLL_REQUIRES(mutex_);
  void send_home(const LineRef& ref, const coherence::Message& message) override ATOLL_REQUIRES(mutex_);
  void send_write(const LineRef& ref, const coherence::Op& op, const coherence::Message& message) override
      ATOLL_REQUIRES(mutex_);
  void quiesce(const LineRef& ref) override ATOLL_REQUIRES(mutex_);
  [[nodiscard]] bool take_slot(const LineRef& ref) override ATOLL_REQUIRES(mutex_);
  void release_slot(const LineRef& ref) noexcept override ATOLL_REQUIRES(mutex_);
  void log_transfer(const LineRef& ref, NodeId owner) override ATOLL_REQUIRES(mutex_);
  [[nodiscard]] bool is_logged() const noexcept override { return journal_ != nullptr; }
  [[nodiscard]] std::uint64_t& tenure(const LineRef& ref) override ATOLL_REQUIRES(mutex_);
  void take_home(const LineRef& ref, const coherence::Message& message) override ATOLL_REQUIRES(mutex_);
  void send_settled(const LineRef& ref, NodeId to, const coherence::Message& message) override ATOLL_REQUIRES(mutex_);
  [[nodiscard]] bool is_settled(const LineRef& ref) override ATOLL_REQUIRES(mutex_);
  void perform(const LineRef& ref, coherence::Op& op) override ATOLL_REQUIRES(mutex_);
  void perform_for(const LineRef& ref, const coherence::Message& message) override ATOLL_REQUIRES(mutex_);
  void clear_operands(const LineRef& ref) override ATOLL_REQUIRES(mutex_);
  void merge(const LineRef& ref, const coherence::Message& message) override ATOLL_REQUIRES(mutex_);
  void complete(const LineRef& ref, coherence::Op& op, Errc result) override ATOLL_REQUIRES(mutex_);
  void load(const LineRef& ref) override ATOLL_REQUIRES(mutex_);
  [[nodiscard]] NodeId sharer_to_ask(const LineRef& ref) override ATOLL_REQUIRES(mutex_);
  void note_held(const LineRef& ref, bool held) override ATOLL_REQUIRES(mutex_);
  void fault(const LineRef& ref, const coherence::Message& message, const char* why) override ATOLL_REQUIRES(mutex_);
  void broken(const LineRef& ref, const char* what) override ATOLL_REQUIRES(mutex_);

  // ---- engine.cpp: progress ----
  std::uint32_t progress() ATOLL_REQUIRES(mutex_);
  void flush() ATOLL_REQUIRES(mutex_);
  void calm(const LineRef& ref) ATOLL_REQUIRES(mutex_);
  void count_write_hit(ThreadState& thread, GlobalAddress address);
  void issue_barrier() ATOLL_REQUIRES(mutex_);
  void quiesce_all(std::span<const LineRef> refs) ATOLL_REQUIRES(mutex_);
  void withdraw_for(std::span<const wire::Message> messages) ATOLL_REQUIRES(mutex_);
  void prefetch_for(const wire::Message& message) const;
  void dispatch(const wire::Message& message, NodeId from) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] bool is_deaf(NodeId peer) const noexcept ATOLL_REQUIRES(mutex_);
  void note_demand(const LineRef& ref, const wire::Message& message) ATOLL_REQUIRES(mutex_);
  void cut_off(NodeId peer, const char* why) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] wire::Message answer_in(NodeId from, std::uint32_t slot) ATOLL_REQUIRES(mutex_);
  void call_home(NodeId to, wire::Message message) ATOLL_REQUIRES(mutex_);
  void serve_forever();

  // ---- logged.cpp: writes that the log has first ----
  struct Late {  // a message that waits until the log is durable up to there
    NodeId to = kNoNode;
    wire::Message message;
    log::Sequence sequence = 0;
  };
  [[nodiscard]] Place place_of(const detail::Line& line, GlobalAddress address) const noexcept;
  [[nodiscard]] Journal::Writer& writer_of(ThreadState& thread);
  [[nodiscard]] Errc log_and_store(ThreadState& thread, bool in_engine, detail::Line& line, GlobalAddress at,
                                   const std::byte* from, std::uint32_t bytes);
  [[nodiscard]] Errc write_logged(ThreadState& thread, bool in_engine, detail::Line& line, GlobalAddress at,
                                  const std::byte* from, std::uint32_t bytes);
  template <typename Change>
  [[nodiscard]] Errc change_logged(ThreadState& thread, bool in_engine, detail::Line& line, GlobalAddress at,
                                   std::uint32_t bytes, Change change);
  [[nodiscard]] Errc rmw_logged(ThreadState& thread, bool in_engine, detail::Line& line, Task& task);
  [[nodiscard]] Errc combine_logged(ThreadState& thread, bool in_engine, detail::Line& line, GlobalAddress at,
                                    const OperatorInfo& info, const std::byte* operand);
  [[nodiscard]] Errc call_logged(const LineRef& ref, Task& task) ATOLL_REQUIRES(mutex_);
  void perform_logged(const LineRef& ref, Task& task) ATOLL_REQUIRES(mutex_);
  template <typename Note>
  [[nodiscard]] Errc write_if_noted(detail::Line& line, GlobalAddress guard, GlobalAddress at,
                                    const wire::GuardedWrite& write, std::uint32_t bytes, bool* done, Note note);
  [[nodiscard]] Errc write_if_logged(ThreadState& thread, detail::Line& line, GlobalAddress guard, GlobalAddress at,
                                     const wire::GuardedWrite& write, std::uint32_t bytes, bool* done);
  Result<bool> write_if_locked(ThreadState& thread, detail::Line& line, GlobalAddress guard, GlobalAddress at,
                               const wire::GuardedWrite& write, std::uint32_t bytes);
  [[nodiscard]] std::uint64_t write_if_for(const Caller& caller, GlobalAddress guard, GlobalAddress at,
                                           const wire::GuardedWrite& write, std::uint32_t bytes) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] Result<std::vector<WritePart>> cut_at_lines(std::span<const WritePart> parts) const;
  [[nodiscard]] Errc store_together(ThreadState& thread, std::span<const WritePart> pieces,
                                    std::span<const GlobalAddress> lines);
  [[nodiscard]] Status log_pinned(ThreadState& thread, GlobalAddress address, std::uint64_t bytes);
  /// Does a logged write that the line allows; waits for room in the log where there is none. `write` returns a code
  /// and is called under the hazard. False: the line may not be written.
  template <typename Write>
  Result<bool> hit_logged(ThreadState& thread, GlobalAddress address, Write write);
  Status wait_for_log(ThreadState& thread);
  /// Before the engine logs what a thread wants: it does so from what is kept for it, and what is kept must not be used
  /// up by threads.
  Status need_room(ThreadState& thread) {
    return journal_ == nullptr || journal_->has_room() ? Status() : wait_for_log(thread);
  }
  Status settle(ThreadState& thread);
  void go_on_settled() ATOLL_REQUIRES(mutex_);

  // ---- recovery.cpp: nodes that come back ----
  struct Session {         // with the process that a peer is now
    bool reported = true;  // it has said what it has of this node's lines
    bool open = true;      // it serves its own
    bool told = true;      // it knows what this node has of its lines
  };
  [[nodiscard]] Legacy open_journal(std::unique_ptr<storage::Disk> disk);
  void begin_journal(const Legacy& legacy);
  void fall_silent() ATOLL_REQUIRES(mutex_);
  void lose_log(const Status& why);
  void begin_sessions(const std::vector<Brought>& brought);
  void restore(const Legacy& legacy) ATOLL_REQUIRES(mutex_);
  template <typename F>
  void for_each_copy_of(NodeId home, F f) ATOLL_REQUIRES(mutex_);
  void mourn(NodeId dead) ATOLL_REQUIRES(mutex_);
  void on_return(const cluster::Peer& peer, std::uint32_t epoch);
  void on_given_up(NodeId node, const std::string& why);
  void take_up(NodeId peer) ATOLL_REQUIRES(mutex_);
  void report_to(NodeId peer) ATOLL_REQUIRES(mutex_);
  void handle_report(const wire::Message& message, NodeId from) ATOLL_REQUIRES(mutex_);
  void open_if_complete() ATOLL_REQUIRES(mutex_);
  void open_to(NodeId peer) ATOLL_REQUIRES(mutex_);
  void come_back();
  void publish_again();

  // ---- checkpoints.cpp ----
  void wake_checkpointer();
  void checkpoint_forever();
  void wait_for_stores() ATOLL_EXCLUDES(mutex_);
  [[nodiscard]] Status make_checkpoint() ATOLL_EXCLUDES(mutex_);
  [[nodiscard]] Status write_pages(const std::vector<std::uint32_t>& pages) ATOLL_EXCLUDES(mutex_);
  [[nodiscard]] Status log_owned_again() ATOLL_EXCLUDES(mutex_);

  // ---- eviction.cpp, with take_slot and release_slot ----
  [[nodiscard]] std::uint32_t returning() const noexcept ATOLL_REQUIRES(mutex_);
  [[nodiscard]] std::uint32_t evict_some(std::uint32_t wanted, unsigned order, bool pressing) ATOLL_REQUIRES(mutex_);
  void retry_starved() ATOLL_REQUIRES(mutex_);
  void keep_room() ATOLL_REQUIRES(mutex_);
  void find_lines(std::uint32_t first, unsigned order, std::vector<LineRef>& found) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] static bool are_idle(std::span<const LineRef> lines, bool pressing);
  [[nodiscard]] bool all_runs_locked(unsigned order) ATOLL_REQUIRES(mutex_);

  // ---- runtime.cpp: waiting; the template is below ----
  /// Waits until `done()`, driving progress. The status says why it ended if `done()` is not true. `on`: a node whose
  /// death ends the wait at once (kNoNode: none in particular).
  template <typename Done>
  Status wait(ThreadState& thread, NodeId on, Clock::time_point deadline, Done done);
  [[nodiscard]] Status why_to_give_up(NodeId on, const base::Backoff& wait, Clock::time_point deadline);
  void connect(const Legacy& legacy);
  void stop_threads();
  void tell_leaving();
  [[nodiscard]] bool is_dead(NodeId node) const noexcept;
  void on_death(NodeId node, const std::string& why);
  void notify_all();

  // ---- access.cpp ----
  Status check_range(GlobalAddress address, std::uint64_t bytes) const noexcept;
  Status check_home(GlobalAddress address) const noexcept;
  /// REQUIRES: some node has memory there.
  [[nodiscard]] std::uint64_t line_bytes_at(GlobalAddress address) const noexcept {
    return std::uint64_t{1} << detail::line_shift_at(lines_->table(), address.bits());
  }
  [[nodiscard]] const HeldLock* lock_over(const ThreadState& thread, GlobalAddress address) const noexcept;
  [[nodiscard]] bool would_wait_for_itself(const ThreadState& thread, const LineRef& ref) const noexcept;
  Status run(ThreadState& thread, Task& task);
  Status fence_writes(ThreadState& thread);
  Status finish(ThreadState& thread, std::span<Task* const> tasks);
  struct Glimpse {  // of a line at its home
    const detail::Line& line;
    const std::byte* bytes;
    std::uint32_t lock, version;
  };
  [[nodiscard]] std::optional<Glimpse> look_home(GlobalAddress address) const noexcept;
  bool read_in_place(ThreadState& thread, GlobalAddress address, std::byte* into, std::uint32_t bytes) noexcept;
  static void learn_price(ThreadState& thread, Clock::duration time) noexcept;
  Status read_missed(ThreadState& thread, GlobalAddress address, std::byte* into, std::uint64_t bytes,
                     std::uint64_t* taken);
  [[nodiscard]] bool is_worth_leaving(ThreadState& thread, const LineRef& ref, GlobalAddress address,
                                      std::uint32_t bytes, Consistency consistency) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] bool is_held_back(NodeId home) const noexcept ATOLL_REQUIRES(mutex_);
  Status write_missed(ThreadState& thread, GlobalAddress address, const std::byte* from, std::uint32_t bytes,
                      Consistency consistency, std::uint8_t operation = 0);
  bool fetch_ahead(GlobalAddress line) ATOLL_REQUIRES(mutex_);
  void look_in_passing(ThreadState& thread);
  [[nodiscard]] bool are_here(std::uint64_t at, std::uint64_t end, std::uint64_t line) const noexcept;
  [[nodiscard]] bool are_writable(std::uint64_t at, std::uint64_t end, std::uint64_t line) const noexcept;
  void prefetch_to_read(std::uint64_t at, std::uint64_t end, std::uint64_t line);
  void prefetch_file(std::uint64_t at, std::uint64_t end, std::uint64_t line);
  void prefetch_to_write(std::uint64_t at, std::uint64_t end, std::uint64_t line);
  void read_ahead(ThreadState& thread, GlobalAddress at, GlobalAddress end) ATOLL_REQUIRES(mutex_);
  void read_file_ahead(ThreadState& thread, GlobalAddress at, GlobalAddress end) ATOLL_REQUIRES(mutex_);
  void abandon_writes(ThreadState& thread, Errc why);
  Status zero(GlobalAddress address, std::uint64_t bytes);

  // ---- regions.cpp ----
  void change_region(GlobalAddress first, std::uint64_t bytes, std::uint8_t larger) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] std::uint32_t empty_region(GlobalAddress first, std::uint64_t bytes) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] bool is_all_here(GlobalAddress first, std::uint64_t bytes, std::vector<GlobalAddress>& listed)
      ATOLL_REQUIRES(mutex_);
  Status take_back(ThreadState& thread, std::span<const GlobalAddress> lines);
  void take_from_threads(GlobalAddress first, std::uint64_t bytes) ATOLL_REQUIRES(mutex_);

  // ---- operate.cpp ----
  void combine(NodeId home, detail::Line& line, const OperatorInfo& info, std::byte* at,
               const std::byte* operand) noexcept;

  // ---- write_if.cpp ----
  Result<bool> write_away(ThreadState& thread, GlobalAddress guard, GlobalAddress address, wire::GuardedWrite& write,
                          std::uint32_t bytes);
  Result<bool> write_away_logged(GlobalAddress guard, GlobalAddress address, const wire::GuardedWrite& write,
                                 std::uint32_t bytes);
  void handle_write_if(const wire::Message& message, NodeId from) ATOLL_REQUIRES(mutex_);

  // ---- locks.cpp ----
  Status lock_line(ThreadState& thread, GlobalAddress line, LockMode mode, bool is_try);
  Status lock_range(ThreadState& thread, GlobalAddress address, std::uint64_t bytes, LockMode mode, bool is_try);
  void unlock_line(GlobalAddress line, LockMode mode);
  void tell_unlocked(GlobalAddress line);

  // ---- element_locks.cpp ----
  struct ElementCall {  // a thread that waits for an element
    std::atomic<bool> done{false};
    ThreadState* thread = nullptr;
    GlobalAddress element;
    bool exclusive = false;
    bool is_try = false;
    coherence::ElementAnswer answer = coherence::ElementAnswer::kRefused;
    NodeId dead = kNoNode;
  };
  struct LockedElement {  // of another home, by a thread of this node; known where the cluster is logged
    GlobalAddress element;
    bool exclusive = false;
  };
  /// Is the cluster logged, so that nodes that have died come back?
  [[nodiscard]] bool returns() const noexcept override;
  [[nodiscard]] std::uint64_t ask_for_element(ElementCall& call);
  [[nodiscard]] bool is_shut(NodeId home) const noexcept ATOLL_REQUIRES(mutex_);
  void send_element_call(std::uint64_t ticket, const ElementCall& call) ATOLL_REQUIRES(mutex_);
  void send_element_lock(std::uint64_t ticket, GlobalAddress element, int flags) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] bool withdraw_element_call(std::uint64_t ticket, const ElementCall& call);
  void release_element(std::uint64_t ticket, GlobalAddress element) ATOLL_REQUIRES(mutex_);
  void end_element_call(std::uint64_t ticket, GlobalAddress element, coherence::ElementAnswer answer, NodeId dead)
      ATOLL_REQUIRES(mutex_);
  void handle_element(const wire::Message& message, NodeId from) ATOLL_REQUIRES(mutex_);
  void answer(const coherence::Party& to, GlobalAddress element, coherence::ElementAnswer answer, NodeId dead) override
      ATOLL_REQUIRES(mutex_);
  void fault(const coherence::Party& from, GlobalAddress element, const char* why) override ATOLL_REQUIRES(mutex_);
  void broken(GlobalAddress element, const char* what) override ATOLL_REQUIRES(mutex_);
  void drop_locks_of(NodeId dead) ATOLL_REQUIRES(mutex_);
  void close_element_home(NodeId home) ATOLL_REQUIRES(mutex_);
  void report_element_locks(NodeId home) ATOLL_REQUIRES(mutex_);
  void resend_element_locks(NodeId home) ATOLL_REQUIRES(mutex_);

  // ---- allocate.cpp ----
  struct Call {  // a request to another node's allocator, or a logged write that its home does
    std::atomic<bool> done{false};
    ThreadState* thread = nullptr;
    NodeId node = 0;  // who was asked
    wire::Kind kind = wire::Kind::kNone;
    std::uint64_t argument = 0;
    const wire::GuardedWrite* write = nullptr;  // of a WriteIf
    std::uint64_t value = 0;
    std::uint32_t code = 0;
    bool fresh = false;
  };
  Result<memory::Allocator::Block> allocate_here(std::uint64_t bytes, Caller caller) ATOLL_REQUIRES(mutex_);
  Status free_here(std::uint64_t offset, Caller caller) ATOLL_REQUIRES(mutex_);
  Result<GlobalAddress> allocate_on(NodeId node, std::uint64_t bytes, bool* fresh);
  Status call(NodeId node, wire::Kind kind, std::uint64_t argument, Call& call);
  void send_call(std::uint64_t number, const Call& call) ATOLL_REQUIRES(mutex_);
  void handle_frees(const wire::Message& message, NodeId from) ATOLL_REQUIRES(mutex_);
  void send_frees(NodeId to) ATOLL_REQUIRES(mutex_);
  void send_kept_frees(NodeId to) ATOLL_REQUIRES(mutex_);
  void handle_call(const wire::Message& message, NodeId from) ATOLL_REQUIRES(mutex_);
  void handle_reply(const wire::Message& message, NodeId from) ATOLL_REQUIRES(mutex_);
  void answer_call(NodeId to, const wire::Message& reply) ATOLL_REQUIRES(mutex_);
  void handle_barrier(const wire::Message& message, NodeId from) ATOLL_REQUIRES(mutex_);

  // ---- files ----
  friend class FileCalls;
  void begin_files(std::unique_ptr<storage::PageStore> store);
  void take_offer(const LineRef& ref) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] bool are_pages_under_way() const noexcept { return pages_under_way_.load(std::memory_order_relaxed); }

  Options options_;
  base::Host& host_;
  std::unique_ptr<Journal> journal_;  // where there is a log
  std::unique_ptr<cluster::Membership> membership_;
  const std::atomic<std::int64_t>& act_until_;  // the membership's
  NodeId self_ = 0;
  NodeId nodes_ = 1;
  bool recovered_ = false;
  std::map<std::string, std::uint64_t> recovered_names_;
  memory::Segment segment_;
  memory::PageJoiner page_joiner_;
  std::unique_ptr<Transport> transport_;
  std::vector<std::uint64_t> memory_bytes_;  // per node
  std::vector<std::uint32_t> cache_slots_;   // per node
  ThreadRegistry threads_;
  std::unique_ptr<memory::LineMap> lines_;
  std::span<const HomeView> views_;  // of the others' memory; empty where it cannot be read in place
  std::unique_ptr<fabric::Fabric> fabric_;
  wire::Limits limits_;
  metrics::Counters* counters_ = nullptr;
  Operators operators_;
  OperandLocks operand_locks_;

  base::Mutex mutex_;
  coherence::Protocol protocol_ ATOLL_GUARDED_BY(mutex_){*this};
  std::vector<std::unique_ptr<coherence::Cold>> colds_ ATOLL_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> free_colds_ ATOLL_GUARDED_BY(mutex_);
  std::unique_ptr<memory::CacheSlots> slots_;
  std::unique_ptr<memory::Allocator> allocator_;
  std::unique_ptr<WritePool> writes_;
  std::vector<GlobalAddress> starved_ ATOLL_GUARDED_BY(mutex_);  // lines that wait for a slot
  std::vector<LineRef> victims_ ATOLL_GUARDED_BY(mutex_);        // scratch of withdraw_for
  std::vector<GlobalAddress> written_ ATOLL_GUARDED_BY(mutex_);  // scratch of quiesce_all
  std::int64_t now_ns_ ATOLL_GUARDED_BY(mutex_) = 0;             // host_.coarse_ns() when the engine was entered
  std::int64_t told_alive_ns_ ATOLL_GUARDED_BY(mutex_) = 0;      // when tell_alive did
  std::vector<Reach> reach_ ATOLL_GUARDED_BY(mutex_);            // per node
  std::vector<NodeId> to_clean_ ATOLL_GUARDED_BY(mutex_);        // dead, and their locks are not dropped yet
  std::vector<NodeId> to_report_ ATOLL_GUARDED_BY(mutex_);       // back, and not told yet what is here of theirs
  std::vector<Session> sessions_ ATOLL_GUARDED_BY(mutex_);       // per node
  /// Of each session: in which the later of the two processes came. It stands in every message between them; this
  /// node's own has its own.
  std::vector<std::uint32_t> epochs_;
  bool is_open_ ATOLL_GUARDED_BY(mutex_) = true;  // this node serves its memory
  bool told_ ATOLL_GUARDED_BY(mutex_) = false;    // all have been told what is here of theirs
  std::deque<Late> late_ ATOLL_GUARDED_BY(mutex_);
  std::vector<GlobalAddress> unsettled_ ATOLL_GUARDED_BY(mutex_);  // lines that are wanted and not durable yet
  std::vector<ThreadState*> finished_ ATOLL_GUARDED_BY(mutex_);  // whose operations were completed since the last flush
  bool evicting_ ATOLL_GUARDED_BY(mutex_) = false;
  bool reclaiming_ ATOLL_GUARDED_BY(mutex_) = false;             // less was free than should be, and not enough yet
  std::uint32_t taken_since_look_ ATOLL_GUARDED_BY(mutex_) = 0;  // slots, as long as that is so
  bool in_run_ ATOLL_GUARDED_BY(mutex_) = false;                 // the message that is worked on names several lines
  const wire::Message* received_ ATOLL_GUARDED_BY(mutex_) = nullptr;  // the message that is worked on
  bool written_in_use_ ATOLL_GUARDED_BY(mutex_) = false;  // the line of the last perform_for was used by threads here
  bool guard_held_ ATOLL_GUARDED_BY(mutex_) = true;       // it was done: its guard, if it had one, was as expected
  std::vector<std::uint32_t> answers_due_ ATOLL_GUARDED_BY(mutex_);   // per home: small writes that were sent there
  std::uint32_t gathered_ ATOLL_GUARDED_BY(mutex_) = 0;               // of these, not flushed yet:
  NodeId gathered_for_ ATOLL_GUARDED_BY(mutex_) = kNoNode;            // all for this one
  std::vector<std::uint32_t> returning_to_ ATOLL_GUARDED_BY(mutex_);  // per home: slots that it has not taken back yet
  std::uint32_t fruitless_ ATOLL_GUARDED_BY(mutex_) = 0;              // searches for a slot in a row that found none
  std::unique_ptr<storage::PageStore> given_pages_;                   // until there are files_
  std::unique_ptr<Files> files_;                                      // where this node may open any
  std::unique_ptr<FileCalls> file_calls_;
  std::atomic<bool> pages_under_way_{false};  // files_ has something to do
  std::unordered_map<std::uint64_t, Call*> calls_ ATOLL_GUARDED_BY(mutex_);
  std::uint64_t next_call_ ATOLL_GUARDED_BY(mutex_) = 1;
  std::map<Caller, std::uint64_t> answered_ ATOLL_GUARDED_BY(mutex_);  // calls that the process before did, see Legacy
  std::uint32_t given_back_ ATOLL_GUARDED_BY(mutex_) = 0;
  std::vector<wire::Message> frees_ ATOLL_GUARDED_BY(mutex_);  // of each node: blocks that it is not told of yet
  std::map<NodeId, std::vector<wire::Message>> kept_frees_ ATOLL_GUARDED_BY(mutex_);  // logged: for who is away
  coherence::ElementLocks element_locks_ ATOLL_GUARDED_BY(mutex_){*this};             // of this node's elements
  std::map<std::uint64_t, ElementCall*> element_calls_ ATOLL_GUARDED_BY(mutex_);      // by ticket
  std::map<std::uint64_t, LockedElement> locked_elements_ ATOLL_GUARDED_BY(mutex_);   // by ticket
  std::map<NodeId, bool> shut_homes_ ATOLL_GUARDED_BY(mutex_);  // logged: not open; true: what is held was reported
  std::map<std::string, AtomicFunction, std::less<>> functions_ ATOLL_GUARDED_BY(mutex_);
  std::uint64_t barrier_round_ ATOLL_GUARDED_BY(mutex_) = 0;  // this node's
  bool barrier_given_up_ ATOLL_GUARDED_BY(mutex_) = false;    // the last call ended early; the next goes on with it
  std::vector<std::uint64_t> barrier_reached_ ATOLL_GUARDED_BY(mutex_);  // node 0: the round that each has reached

  enum class Joined : std::uint8_t { kNotYet, kYes, kFailed };
  std::atomic<Joined> joined_{Joined::kNotYet};  // there is a fabric
  std::atomic<bool> recovering_{false};          // not all have said what they have of this node's lines
  std::atomic<bool> durable_moved_{false};       // the log has become durable further on
  std::atomic<bool> checkpoint_failed_{false};   // the last one
  std::atomic<bool> given_up_{false};            // a node that died will not come back
  std::atomic<std::uint32_t> checkpoint_bell_{0};
  std::atomic<std::uint64_t> barrier_released_{0};
  std::atomic<std::uint64_t> left_after_{UINT64_MAX};  // the last barrier of the node that left first
  std::atomic<NodeId> left_node_{kNoNode};
  std::atomic<std::uint32_t> drives_{0};    // bumped by every thread that drives progress while it waits
  std::atomic<std::uint32_t> waiters_{0};   // threads in `wait`: they look for messages, and write no line meanwhile,
  std::atomic<std::uint32_t> sleepers_{0};  // but for those of them that sleep
  std::atomic<std::uint32_t> room_waiters_{0};  // threads that wait for other threads' writes to be done
  std::atomic<bool> stopping_{false};
  std::atomic<Over> over_{Over::kNot};
  std::atomic<bool> log_lost_{false};
  std::vector<std::atomic<bool>> dead_;
  std::atomic<NodeId> first_dead_{kNoNode};
  std::atomic<Clock::rep> died_at_{0};
  std::unique_ptr<base::Host::Thread> service_;
  std::unique_ptr<base::Host::Thread> checkpointer_;
};

}  // namespace atoll::runtime

#include "runtime/waiting.hpp"
