// Joining, leaving, waiting, and what happens when a peer dies.
#include "runtime/runtime.hpp"
#include "runtime/file_calls.hpp"

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/units.hpp"

namespace atoll::runtime {
namespace {
constexpr std::uint32_t kWriteRoom = 4096;                 // an element of an array fits
constexpr std::chrono::milliseconds kLockPatience{5'000};  // a process before that was declared out may still be ending
constexpr NodeId kMostLogged = 64;                         // beyond that the directory does not know each sharer
}  // namespace

Runtime::Runtime(const Options& options, std::unique_ptr<cluster::Membership> membership)
    : Runtime(options, std::move(membership), make_transport(options), base::Host::real()) {}

Runtime::Runtime(const Options& options, std::unique_ptr<cluster::Membership> membership,
                 std::unique_ptr<Transport> transport, base::Host& host, std::unique_ptr<storage::Disk> disk,
                 std::unique_ptr<storage::PageStore> pages)
    : options_(options),
      host_(host),
      membership_(std::move(membership)),
      act_until_(membership_->act_until()),
      page_joiner_(host, [this](const std::byte* begin, std::uint64_t bytes) { segment_.join_pages(begin, bytes); }),
      transport_(std::move(transport)),
      threads_(host),
      reach_(membership_->count()),
      sessions_(membership_->count()),
      epochs_(membership_->count()),
      answers_due_(membership_->count()),
      returning_to_(membership_->count()),
      given_pages_(std::move(pages)),
      file_calls_(std::make_unique<FileCalls>(*this)),
      dead_(membership_->count()) {
  self_ = membership_->id();
  nodes_ = membership_->count();
  if (options_.log != LogMode::kOff) {
    if (nodes_ > kMostLogged) throw Error(fmt::format("a cluster with a log has at most {} nodes", kMostLogged));
    if (options_.log == LogMode::kPower) options_.read_in_place = false;  // nobody sees what may be lost
    if (disk == nullptr) {
      if (options_.log_dir.empty()) throw Error("a node with a log needs a directory for it: give --log-dir");
      disk = storage::open_disk(options_.log_dir, options_.recover ? kLockPatience : kLockPatience.zero(), host_);
    }
  }
  if (options_.log != LogMode::kOff && options_.file_space_bytes != 0) {
    throw Error("--file-space and --log do not go together yet: pages of files are in no log");
  }
  segment_ = memory::Segment::create(options_, nodes_);
  segment_.join_cache_pages();
  segment_.populate_cache();
  counters_ = &segment_.header().counters;
  allocator_ = std::make_unique<memory::Allocator>(segment_.heap_bytes(), options_.line_bytes);
  slots_ = std::make_unique<memory::CacheSlots>(std::uint32_t(segment_.cache_bytes() / options_.line_bytes));
  writes_ =
      std::make_unique<WritePool>(std::max(1u, options_.outstanding_writes), std::max(options_.line_bytes, kWriteRoom));
  counters_->memory_bytes.set(segment_.heap_bytes());
  counters_->cache_lines.set(slots_->size());
  try {
    Legacy legacy;
    if (disk != nullptr) legacy = open_journal(std::move(disk));
    counters_->memory_free_bytes.set(allocator_->free_bytes());
    connect(legacy);
  } catch (...) {
    joined_.store(Joined::kFailed, std::memory_order_release);
    membership_.reset();  // no callbacks from here on
    if (journal_ != nullptr) journal_->end();
    throw;
  }
  spdlog::info("node {} of {}: transport {}, memory {}, cache {}, lines of {} B, {}, {}", self_, nodes_,
               transport_->describe(), base::format_bytes(segment_.heap_bytes()),
               base::format_bytes(segment_.cache_bytes()), options_.line_bytes,
               segment_.huge()         ? "huge pages"
               : segment_.huge_cache() ? "huge pages for the cache"
                                       : "small pages (the system gives no huge ones)",
               threads_.has_barrier() ? "membarrier" : "fenced accesses (no membarrier)");
  if (nodes_ > 1) service_ = host_.start([this] { serve_forever(); });
  file_calls_->start();
  if (journal_ == nullptr) return;
  checkpointer_ = host_.start([this] { checkpoint_forever(); });
  try {
    if (recovering_) come_back();
    publish_again();
  } catch (...) {
    stop_threads();
    throw;
  }
}

/// Meets the other nodes, and makes what depends on what they bring.
void Runtime::connect(const Legacy& legacy) {
  std::vector<Brought> brought = transport_->connect(
      segment_, *membership_,
      {[this](NodeId node, const std::string& why) { on_death(node, why); }, [this] { end(Over::kMasterLost); },
       [this](cluster::Standing standing, const std::string& why) { on_standing(standing, why); },
       [this](const cluster::Peer& peer, std::uint32_t epoch) { on_return(peer, epoch); },
       [this](NodeId node, const std::string& why) { on_given_up(node, why); }});
  std::vector<memory::LineMap::Extent> extents;
  for (NodeId node = 0; node < nodes_; ++node) {
    const auto before = legacy.peers.find(node);
    if (brought[node].memory_bytes != 0 || before == legacy.peers.end()) continue;
    brought[node].memory_bytes = before->second.memory_bytes;  // it is dead now; it will bring the same
    brought[node].cache_slots = std::uint32_t(before->second.cache_slots);
  }
  for (const Brought& node : brought) {
    memory_bytes_.push_back(node.memory_bytes);
    cache_slots_.push_back(node.cache_slots);
    extents.push_back({node.memory_bytes, node.file_bytes});
  }
  lines_ = std::make_unique<memory::LineMap>(
      self_, options_.line_bytes, extents,
      memory::LineMap::Own{segment_.memory(), segment_.directory(), segment_.lines()}, !threads_.has_barrier(),
      host_.has_inlined_hits(),
      [this](const std::byte* begin, std::uint64_t bytes) { page_joiner_.want(begin, bytes); });
  threads_.set_table(lines_->table(), options_.consistency == Consistency::kSc || journal_ != nullptr);
  begin_sessions(brought);
  limits_ = {nodes_,
             self_,
             epochs_.data(),
             options_.line_bytes,
             cache_slots_.data(),
             memory_bytes_.data(),
             lines_->table().larger};
  if (options_.read_in_place) views_ = transport_->views();
  if (segment_.file_bytes() != 0) {
    begin_files(given_pages_ != nullptr ? std::move(given_pages_) : storage::make_page_store());
  }
  if (journal_ != nullptr) begin_journal(legacy);
  // Not under the engine lock: peers are waited for, and the death of one is told by another thread.
  fabric::Upcalls upcalls{[this](NodeId from, std::uint32_t slot)
                              ATOLL_NO_THREAD_SAFETY_ANALYSIS { return answer_in(from, slot); },
                          [this](NodeId peer, const char* why) ATOLL_NO_THREAD_SAFETY_ANALYSIS { cut_off(peer, why); }};
  auto fabric = transport_->make_fabric(*counters_, std::move(upcalls), [this](NodeId node) { return is_dead(node); });
  base::MutexLock lock(mutex_);
  fabric_ = std::move(fabric);
  for (NodeId node = 0; node < nodes_; ++node) {
    if (is_dead(node)) fabric_->forget(node);
  }
  if (is_over()) be_silent();
  joined_.store(Joined::kYes, std::memory_order_release);
}

Runtime::~Runtime() {
  if (const Status status = fence(); !status.ok()) {
    spdlog::error("leaving with writes that could not be done: {}", status.to_string());
  }
  ThreadState& thread = threads_.current();
  (void)wait(thread, kNoNode, host_.now() + std::chrono::seconds(10), [&] { return writes_->all_free(); });
  tell_leaving();
  membership_->leave();
  file_calls_->close_all();
  stop_threads();
  if (journal_ != nullptr) {
    if (const Status status = journal_->close(); !status.ok())
      spdlog::info("the log ends as it is: {}", status.to_string());
  }
  threads_.forget_lines();
}

void Runtime::stop_threads() {
  {
    base::MutexLock lock(mutex_);
    stopping_.store(true, std::memory_order_release);
  }
  fabric_->wake_self();
  if (checkpointer_ != nullptr) wake_checkpointer();
  checkpointer_.reset();
  file_calls_->stop();
  service_.reset();
  membership_.reset();  // no callbacks from here on
  if (journal_ != nullptr) journal_->end();
}

/// Those who wait in a barrier for this node need not wait any longer.
void Runtime::tell_leaving() {
  const Entry entry(*this);
  wire::Message leaving;
  leaving.kind = wire::Kind::kLeaving;
  leaving.argument = barrier_round_;
  for (NodeId node = 0; node < nodes_; ++node) {
    if (node != self_) call_home(node, leaving);
  }
  flush();
}

bool Runtime::is_dead(NodeId node) const noexcept {
  return node < dead_.size() && dead_[node].load(std::memory_order_acquire);
}

Status Runtime::why_to_give_up(NodeId on, const base::Backoff& wait, Clock::time_point deadline) {
  const Clock::time_point now = wait.now();
  if (now >= deadline) return {Errc::kDeadline, "the time given was over"};
  if (const Status over = why_over(); !over.ok()) return over;
  if (!may_act()) return {};  // nothing can be given up before it is known whether this node is still in
  const NodeId dead = first_dead_.load(std::memory_order_acquire);
  if (dead == kNoNode || ATOLL_FAULT(death_not_noticed)) return {};
  const bool returns = journal_ != nullptr && !given_up_.load(std::memory_order_acquire);
  if (is_dead(on) && !returns) return {Errc::kNodeDied, "the node that was waited for is gone", on};
  // Whether the dead node matters to this wait cannot be known here (it may own the line that the home waits for);
  // what does not depend on it is done well within the grace.
  const Clock::time_point died{Clock::duration(died_at_.load(std::memory_order_relaxed))};
  if (now < std::max(died, wait.start()) + (returns ? options_.recovery_wait : options_.death_grace)) return {};
  return {Errc::kNodeDied, "a node that this may depend on is gone", dead};
}

void Runtime::notify_all() {
  threads_.for_each([](ThreadState& thread) { thread.notify(); });
}

void Runtime::on_death(NodeId node, const std::string& why) {
  if (node >= nodes_ || node == self_) return;
  spdlog::warn("node {} is gone: {}", node, why);
  {
    base::MutexLock lock(mutex_);
    dead_[node].store(true, std::memory_order_release);  // from here on nothing of it is worked on
    if (fabric_ != nullptr) {                            // else it died while we join: nothing was sent to it yet
      fabric_->forget(node);
      std::erase(to_report_, node);
      if (files_ != nullptr) {
        files_->forget_peer(node);
        flush();
      }
      to_clean_.push_back(node);
      clean_up();
    }
  }
  died_at_.store(host_.now().time_since_epoch().count(), std::memory_order_relaxed);
  first_dead_.store(node, std::memory_order_release);
  notify_all();
}

Status Runtime::publish(std::string_view name, GlobalAddress address) {
  if (name.empty()) return {Errc::kInvalidArgument, "a name needs at least one character"};
  if (const Status status = check_range(address, 1); !status.ok()) return status;
  if (const Status status = fence(); !status.ok()) return status;
  if (journal_ == nullptr) return membership_->publish(name, address);
  ThreadState& thread = threads_.current();
  if (const Status status = need_room(thread); !status.ok()) return status;
  GlobalAddress before;
  {
    const Entry entry(*this);
    before = journal_->find_name(name);
    thread.note_logged(journal_->note_name(name, address));
  }
  if (const Status status = settle(thread); !status.ok()) return status;
  const Status published = membership_->publish(name, address);
  if (published.code() == Errc::kAlreadyExists) {
    const Entry entry(*this);
    journal_->take_back_name(name, before);
  }
  return published;
}

Result<GlobalAddress> Runtime::lookup(std::string_view name, std::chrono::milliseconds timeout) {
  return membership_->lookup(name, timeout);
}

Stats Runtime::stats() {
  const ThreadRegistry::Counts counts = threads_.counts();
  counters_->hits.set(counts.hits);
  counters_->reads_in_place.set(counts.reads_in_place);
  return counters_->snapshot();
}

Inspection Runtime::inspect() {
  base::MutexLock lock(mutex_);
  Inspection all;
  const auto look = [](const LineRef& ref) {
    return Inspection::LineHere{ref.address,
                                ref.state(),
                                ref.directory,
                                ref.hot.access(),
                                ref.line->lock.load() & (detail::kLockHeld | detail::kLockWaiters),
                                ref.line->cold != 0,
                                ref.hot.byte_at(ref.address),
                                ref.bytes};
  };
  for (std::uint64_t at = 0; at < segment_.memory_bytes();) {
    const GlobalAddress line = GlobalAddress::make(self_, at);
    if (lines_->is_file(line) && lines_->next_used(line) != at) {
      at = lines_->next_used(line);
      continue;
    }
    all.homes.push_back(look(lines_->ref(line)));
    at += all.homes.back().size;
  }
  for (std::uint32_t slot = 0; slot < slots_->size(); ++slot) {
    const GlobalAddress address = slots_->occupant(slot);
    if (address) all.copies.push_back(look(lines_->ref(address)));
  }
  all.slots_used = slots_->used();
  all.slots_returning = returning();
  all.lines_waiting = colds_.size() - free_colds_.size();
  all.lines_starved = starved_.size();
  all.calls = calls_.size() + element_calls_.size();
  all.element_locks = element_locks_.book().requests.size() + element_locks_.book().elements.size();
  all.writes_under_way = !writes_->all_free();
  return all;
}

}  // namespace atoll::runtime
