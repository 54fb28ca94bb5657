#include "sim/workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace atoll::sim {
namespace {

constexpr Time kLongestSuspension = 500'000;
constexpr Time kPatienceWithDead = 2'000'000'000;
constexpr std::uint64_t kPhases = 4;          // after each of which nothing is under way, and all is looked at
constexpr std::uint32_t kOpsAfterDeath = 40;  // of each thread; many of them take a second, until they fail

std::span<std::byte> bytes_of(std::vector<std::byte>& bytes) noexcept {
  return {bytes.data(), bytes.size()};
}

std::vector<std::byte> stamped(std::uint64_t stamp, std::uint32_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::uint32_t i = 0; i < bytes; ++i) data[i] = pattern(stamp, i);
  return data;
}

template <typename Word>
Word word_of(std::uint64_t stamp) {
  Word word;
  const std::vector<std::byte> bytes = stamped(stamp, sizeof(Word));
  std::memcpy(&word, bytes.data(), sizeof(Word));
  return word;
}

}  // namespace

std::string_view to_string(Act act) noexcept {
  constexpr std::array<std::string_view, kActs> kNames = {"read",
                                                          "write",
                                                          "read_blob",
                                                          "write_blob",
                                                          "scan",
                                                          "fetch_add",
                                                          "exchange",
                                                          "compare_exchange",
                                                          "atomic",
                                                          "fence",
                                                          "write_lock",
                                                          "read_lock",
                                                          "try_write_lock",
                                                          "try_read_lock",
                                                          "allocate",
                                                          "free",
                                                          "misuse",
                                                          "apply",
                                                          "write_element",
                                                          "read_element",
                                                          "try_write_element",
                                                          "try_read_element",
                                                          "write_if"};
  return kNames[std::size_t(act)];
}

Workload::Workload(Cluster& cluster, const WorkloadOptions& options)
    : cluster_(cluster),
      options_(options),
      line_bytes_(cluster.options().node.line_bytes << options.larger),
      arrivals_(cluster.options().nodes, 0) {
  for (NodeId node = 0; node < cluster.options().nodes; ++node) {
    free_before_.push_back(cluster.network().segment(node).header().counters.memory_free_bytes.get());
    for (std::uint32_t thread = 0; thread < options_.threads; ++thread) {
      auto worker = std::make_unique<Worker>();
      worker->number = std::uint32_t(workers_.size());
      worker->random = base::Random(cluster.machine().random().next());
      workers_.push_back(std::move(worker));
    }
  }
  cluster.set_hooks([this](NodeId node) { on_crash(node); }, [this](NodeId node) { on_back(node); });
}

// ---- from the beginning to the end ----

void Workload::run() {
  lay_out();
  for (std::uint64_t phase = 0; phase < kPhases; ++phase) {
    run_phase(phase + 1 == kPhases);
    if (cluster_.any_dead()) return cluster_.leave();
    cluster_.settle();
    audit();
  }
  finish_all();
  cluster_.leave();
}

void Workload::audit() {
  cluster_.audit(cluster_.options().nodes <= 64 && options_.weights[std::size_t(Act::kTryWriteLock)] == 0);
}

void Workload::run_phase(bool last) {
  last_phase_ = last;
  begin_barrier();
  at_work_ = true;
  cluster_.allow_crashes(true);
  for (auto& worker : workers_) {
    worker->steps = 0;
    worker->has_arrived = false;
    start(*worker);
  }
  while (!cluster_.run_for(kPatience)) {
    if (cluster_.away() != 0 && cluster_.machine().time() - cluster_.away_since() > kPatienceWithDead) {
      throw Failure(fmt::format("{} nodes have crashed and are not back", cluster_.away()));
    }
    for (const auto& worker : workers_) {
      const bool waits = worker->node != nullptr && !worker->at_barrier && !cluster_.is_dead(worker->node->id());
      if (waits) check_time(*worker);
    }
    look_at_barrier();
  }
  at_work_ = false;
  cluster_.allow_crashes(false);
}

void Workload::start(Worker& worker) {
  cluster_.spawn(node_of(worker.number), [this, &worker](Node& node) {
    worker.node = &node;
    work(worker, last_phase_);
  });
}

/// Nobody works any more: all must be as it should, and nothing may be left when all is given back.
void Workload::finish_all() {
  check_counters();
  check_guarded();
  give_arenas_back();
  cluster_.settle();
  audit();
  if (cluster_.crashes() != 0) return;  // what threads had asked for, or freed, when they crashed nobody knows
  for (NodeId node = 0; node < cluster_.options().nodes; ++node) {
    const std::uint64_t left = cluster_.network().segment(node).header().counters.memory_free_bytes.get();
    if (left != free_before_[node]) {
      throw Failure(fmt::format("node {} has {} bytes free in the end, and had {}", node, left, free_before_[node]));
    }
  }
}

void Workload::work(Worker& worker, bool last) {
  const std::uint64_t each = options_.ops / workers_.size() / kPhases + 1;
  const std::uint64_t total = std::accumulate(options_.weights.begin(), options_.weights.end(), std::uint64_t{0});
  const bool arrives = worker.number % options_.threads == 0;
  for (std::uint64_t& i = worker.steps; i < each; ++i) {
    std::uint64_t lot = worker.random.below(total);
    std::size_t what = 0;
    while (lot >= options_.weights[what]) lot -= options_.weights[what++];
    act(worker, Act(what));
    ++done_[what];
    ++operations_;
    maybe_disturb();
    if (cluster_.is_dead(worker.node->id())) return;
    if (cluster_.any_dead() && ++worker.since_death > kOpsAfterDeath) break;
    if (arrives && i >= each / 2) arrive(worker);
    if (options_.think_ns != 0) cluster_.machine().sleep_ns(worker.random.below(2 * options_.think_ns));
  }
  if (arrives && !cluster_.any_dead()) arrive(worker);  // who came back late has no steps left
  while (last && !worker.own.empty()) free_one(worker);
  fence(worker);
}

/// A node dies, or does not know for a while whether it is still in.
void Workload::maybe_disturb() {
  base::Random& random = cluster_.machine().random();
  const auto anybody = [&] { return NodeId(random.below(cluster_.options().nodes)); };
  if (options_.kill_after != 0 && operations_ == options_.kill_after) cluster_.kill(anybody());
  if (options_.crash_every != 0 && operations_ % options_.crash_every == 0) plan_crash();
  if (options_.suspend_every == 0 || operations_ % options_.suspend_every != 0) return;
  cluster_.suspend(anybody(), random.below(kLongestSuspension));
}

void Workload::act(Worker& worker, Act what) {
  switch (what) {
    case Act::kReadWord: return read_object(worker, pick(worker, worker.random.below(3) == 0 ? cold_ : words_));
    case Act::kWriteWord:
      return write_object(worker, pick(worker, worker.random.below(3) == 0 ? cold_ : words_), any_consistency(worker));
    case Act::kReadBlob: return worker.random.below(3) == 0 ? peek(worker) : read_object(worker, pick(worker, blobs_));
    case Act::kWriteBlob: return write_object(worker, pick(worker, blobs_), any_consistency(worker));
    case Act::kScan: return scan(worker);
    case Act::kAdd: return add(worker);
    case Act::kExchange: return exchange(worker, false);
    case Act::kCompareExchange: return exchange(worker, true);
    case Act::kFunction: return call_function(worker);
    case Act::kFence: return fence(worker);
    case Act::kWriteLock: return use_locked(worker, LockMode::kWrite, false);
    case Act::kReadLock: return use_locked(worker, LockMode::kRead, false);
    case Act::kTryWriteLock: return use_locked(worker, LockMode::kWrite, true);
    case Act::kTryReadLock: return use_locked(worker, LockMode::kRead, true);
    case Act::kAllocate: return allocate(worker);
    case Act::kFree: return free_one(worker);
    case Act::kMisuse: return misuse(worker);
    case Act::kApply: return worker.random.below(4) == 0 ? read_tally(worker) : apply(worker);
    case Act::kWriteElement: return use_element(worker, LockMode::kWrite, false);
    case Act::kReadElement: return use_element(worker, LockMode::kRead, false);
    case Act::kTryWriteElement: return use_element(worker, LockMode::kWrite, true);
    case Act::kTryReadElement: return use_element(worker, LockMode::kRead, true);
    case Act::kWriteIf: return use_guarded(worker);
    case Act::kCount: break;
  }
}

Workload::Object& Workload::pick(Worker& worker, std::vector<Object>& from) {
  return from[worker.random.below(from.size())];
}

Consistency Workload::any_consistency(Worker& worker) {
  constexpr std::array<Consistency, 6> kMix = {Consistency::kDefault, Consistency::kDefault, Consistency::kDefault,
                                               Consistency::kPso,     Consistency::kTso,     Consistency::kSc};
  return kMix[worker.random.below(kMix.size())];
}

// ---- operations ----

void Workload::read_object(Worker& worker, Object& object) {
  std::vector<std::byte> data(object.bytes);
  begin(worker, "read", object.address);
  const Status status = worker.node->read(object.address, bytes_of(data));
  if (end(worker, status)) check_cells(worker, object, data, tick());
}

void Workload::write_object(Worker& worker, Object& object, Consistency consistency) {
  const std::uint64_t stamp = ++stamps_;
  const std::vector<std::byte> data = stamped(stamp, object.bytes);
  begin(worker, "write", object.address);
  for (Cell& cell : object.cells) cell.begin_write(stamp, worker.number, worker.begun);
  worker.pending.push_back({&object, stamp});
  const Status status = worker.node->write(object.address, data, consistency);
  if (consistency == Consistency::kDefault) consistency = cluster_.options().node.consistency;
  if (end(worker, status) && consistency != Consistency::kPso) writes_are_done(worker);
}

/// Several lines in a row by one call, as who streams does.
void Workload::scan(Worker& worker) {
  const auto home = std::size_t(worker.random.below(cold_starts_.size() - 1));
  const std::uint32_t lines = cold_starts_[home + 1] - cold_starts_[home];
  const auto first = std::uint32_t(worker.random.below(lines));
  const std::uint32_t count = std::min(std::uint32_t(1 + worker.random.below(12)), lines - first);
  std::vector<std::byte> data(std::size_t(count) * line_bytes_);
  Object* const objects = &cold_[cold_starts_[home] + first];
  if (worker.random.below(4) == 0) {
    begin(worker, "prefetch", objects[0].address);
    if (!end(worker, worker.node->prefetch(objects[0].address, data.size()))) return;
  }
  begin(worker, "scan", objects[0].address);
  const Status status = worker.node->read(objects[0].address, bytes_of(data));
  if (!end(worker, status)) return;
  const Tick now = tick();
  for (std::uint32_t i = 0; i < count; ++i) {
    check_cells(worker, objects[i], std::span(data).subspan(std::size_t(i) * line_bytes_, 8), now);
  }
}

void Workload::add(Worker& worker) {
  const std::size_t which = worker.random.below(counters_.size());
  const std::uint64_t value = 1 + worker.random.below(5);
  worker.counter = which;
  worker.adds = value;
  begin(worker, "fetch_add", counters_[which]);
  const auto found = worker.node->fetch_add(global_ptr<std::uint64_t>(counters_[which]), value);
  if (!end(worker, found.status())) return;
  worker.adds = 0;
  writes_are_done(worker);
  if (!counts_found_[which].insert(*found).second) {
    throw Failure(fmt::format("two additions have found {} in one counter", *found), counters_[which]);
  }
  counted_[which] += value;
}

void Workload::exchange(Worker& worker, bool compare) {
  Object& object = pick(worker, words_);
  const std::uint64_t stamp = ++stamps_;
  Cell& cell = object.cells[0];
  std::vector<std::byte> found(object.bytes);
  bool replaced = true;
  const auto go = [&]<typename Word>(Word) {
    const global_ptr<Word> at(object.address);
    Word expected{};
    if (compare) {
      const auto now = worker.node->read(at);
      if (!now.ok()) return now.status();
      expected = *now;
    }
    begin(worker, "exchange", object.address);
    cell.begin_write(stamp, worker.number, worker.begun);
    const auto got = compare ? worker.node->compare_exchange(at, expected, word_of<Word>(stamp))
                             : worker.node->exchange(at, word_of<Word>(stamp));
    if (!got.ok()) return got.status();
    replaced = !compare || *got == expected;
    std::memcpy(found.data(), &*got, sizeof(Word));
    return Status();
  };
  begin(worker, "exchange", object.address);
  const Status status = object.bytes == 1   ? go(std::uint8_t{})
                        : object.bytes == 2 ? go(std::uint16_t{})
                        : object.bytes == 4 ? go(std::uint32_t{})
                                            : go(std::uint64_t{});
  if (!end(worker, status)) return cell.give_up(stamp);
  const Tick now = tick();
  if (!replaced) cell.withdraw(stamp);
  check_cells(worker, object, found, now);
  if (replaced) cell.end_write(stamp, now);
  if (replaced && object.bytes == 8) {
    std::uint64_t value = 0;
    std::memcpy(&value, found.data(), 8);
    if (!object.replaced.insert(value).second) {
      throw Failure(fmt::format("two atomics have replaced the same value at {}", object.address.to_string()),
                    object.address);
    }
  }
  writes_are_done(worker);
}

/// A function adds one to three words of a line, with nobody in between; they are always equal.
void Workload::call_function(Worker& worker) {
  const GlobalAddress at = triples_[worker.random.below(triples_.size())];
  begin(worker, "atomic", at);
  if (worker.random.below(2) == 0) {
    if (end(worker, worker.node->atomic(at, 24, "add to all", {}))) writes_are_done(worker);
    return;
  }
  std::array<std::uint64_t, 3> words{};
  Status status;
  const bool one_by_one = worker.random.below(2) == 0;
  for (std::size_t i = 0; i < words.size() && one_by_one && status.ok(); ++i) {
    const auto word = worker.node->read<std::uint64_t>(at + std::int64_t(8 * i));
    status = word.status();
    if (word.ok()) words[i] = *word;
  }
  if (!one_by_one) status = worker.node->read(at, std::as_writable_bytes(std::span(words)));
  if (!end(worker, status)) return;
  const bool whole = words[0] == words[1] && words[1] == words[2];
  if (one_by_one ? words[0] > words[1] || words[1] > words[2] : !whole) {
    throw Failure(fmt::format("a function for atomic() was seen half done at {}: {} {} {}", at.to_string(), words[0],
                              words[1], words[2]),
                  at);
  }
}

void Workload::fence(Worker& worker) {
  begin(worker, "fence", {});
  if (end(worker, worker.node->fence())) return writes_are_done(worker);
  // What has failed was reported; it is not in the way of what comes next.
  const Status again = worker.node->fence();
  if (!again.ok()) throw Failure("a fence reports the same failure twice: " + again.to_string());
}

/// Reads what is written under locks without one. Nodes other than the writer's wait for its unlock, so that they never
/// see what it overwrote before that.
void Workload::peek(Worker& worker) {
  Object& object = pick(worker, locked_);
  const std::uint64_t draft = object.draft;
  const bool other_node = object.writer == 0 || node_of(object.writer - 1) != worker.node->id();
  std::vector<std::byte> data(object.bytes);
  begin(worker, "peek", object.address);
  if (!end(worker, worker.node->read(object.address, bytes_of(data)))) return;
  check_cells(worker, object, data, tick());
  if (draft == 0 || draft != object.draft || !other_node || object.bytes < 8 || cluster_.any_dead()) return;
  if (data == stamped(draft, object.bytes)) {
    throw Failure(fmt::format("thread {} has seen in {} what its writer has overwritten before it unlocked",
                              worker.number, object.address.to_string()),
                  object.address);
  }
}

void Workload::allocate(Worker& worker) {
  if (worker.own.size() >= 4) return free_one(worker);
  const auto bytes = std::uint32_t(1 + worker.random.below(worker.random.below(2) == 0 ? 40 : 3000));
  const NodeId nodes = cluster_.options().nodes;
  Placement placement;
  switch (worker.random.below(4)) {
    case 0: placement = Placement::local(); break;
    case 1: placement = Placement::remote(); break;
    case 2: placement = Placement::on(NodeId(worker.random.below(nodes))); break;
    default: break;
  }
  begin(worker, "allocate", {});
  const auto got = worker.node->allocate(bytes, placement);
  if (!end(worker, got.status())) return;
  claim_range(*got, bytes);
  // Of the heap, whose lines are those of the node: a crash may come between two of them.
  worker.own.push_back(std::make_unique<Object>(make_object(*got, bytes, cluster_.options().node.line_bytes)));
  worker.own.back()->is_settled = got->node() != worker.node->id();  // another node answers when it is durable
  read_object(worker, *worker.own.back());
  write_object(worker, *worker.own.back(), any_consistency(worker));
}

void Workload::free_one(Worker& worker) {
  if (worker.own.empty()) return;
  const std::size_t which = worker.random.below(worker.own.size());
  Object& object = *worker.own[which];
  read_object(worker, object);
  fence(worker);  // a write that is under way must not hit the next owner
  std::erase_if(worker.pending, [&](const Pending& write) { return write.object == &object; });
  allocated_.erase(object.address.bits());
  object.is_going = true;
  begin(worker, "free", object.address);
  (void)end(worker, worker.node->free(object.address));
  worker.own.erase(worker.own.begin() + std::ptrdiff_t(which));
}

/// What a program gets wrong, and what it is told.
void Workload::misuse(Worker& worker) {
  Node& node = *worker.node;
  const auto expect = [&](const Status& status, Errc code, const char* what) {
    if (worker.vanished) throw Vanished{};
    if (status.code() != code && !cluster_.any_dead()) {
      throw Failure(fmt::format("{}: \"{}\" instead of \"{}\"", what, status.to_string(), to_string(code)));
    }
  };
  std::byte byte{};
  begin(worker, "misuse", {});
  switch (worker.random.below(5)) {
    case 0: expect(node.read(GlobalAddress(), {&byte, 1}), Errc::kNullAddress, "a read of null"); break;
    case 1:
      expect(node.write(GlobalAddress::make(NodeId(node.count()), 8192), std::span<const std::byte>(&byte, 1)),
             Errc::kBadAddress, "a write to a node that is not there");
      break;
    case 2: expect(node.unlock(words_[0].address, 1), Errc::kNotHeld, "an unlock without a lock"); break;
    case 3:
      expect(node.free(arenas_[worker.random.below(arenas_.size())] + 8), Errc::kNotAllocated, "a free inside");
      break;
    default: expect(node.allocate(0).status(), Errc::kInvalidArgument, "an allocation of nothing"); break;
  }
  (void)end(worker, {});
}

// ---- checkers ----

void Workload::begin(Worker& worker, std::string_view what, GlobalAddress about) noexcept {
  worker.begun = tick();
  worker.begun_at = cluster_.machine().time();
  worker.doing = what;
  worker.about = about;
}

bool Workload::end(Worker& worker, const Status& status) {
  if (worker.vanished) throw Vanished{};
  if (cluster_.is_dead(worker.node->id())) return false;
  check_time(worker);
  const std::string_view what = std::exchange(worker.doing, {});
  if (status.ok()) return true;
  ++failed_;
  const bool excused = cluster_.any_dead() && (status.code() == Errc::kNodeDied || status.code() == Errc::kInDoubt ||
                                               status.code() == Errc::kClusterDown);
  if (excused) {
    for (const Pending& write : worker.pending) {
      for (Cell& cell : write.object->cells) cell.give_up(write.stamp);
    }
    worker.pending.clear();
    worker.operands.clear();
    return false;
  }
  throw Failure(fmt::format("{} of thread {}: {}", what, worker.number, status.to_string()), worker.about);
}

void Workload::check_time(const Worker& worker) const {
  if (cluster_.away() != 0) return;  // it may be them that it waits for
  const Time took = cluster_.machine().time() - std::max(worker.begun_at, cluster_.away_since());
  if (worker.doing.empty() || took <= (cluster_.any_dead() ? kPatienceWithDead : kPatience)) return;
  throw Failure(fmt::format("thread {} of node {}: {} takes {} us by now; it waits for something that does not come",
                            worker.number, worker.node->id(), worker.doing, took / 1000),
                worker.about);
}

void Workload::writes_are_done(Worker& worker) noexcept {
  const Tick now = tick();
  for (const Pending& write : worker.pending) {
    for (Cell& cell : write.object->cells) cell.end_write(write.stamp, now);
  }
  worker.pending.clear();
  for (const auto& object : worker.own) object->is_settled = true;
  for (const auto& [tally, operand] : worker.operands) tallies_[tally].done(operand);
  worker.operands.clear();
}

void Workload::check_cells(Worker& worker, Object& object, std::span<const std::byte> found, Tick end) {
  for (Cell& cell : object.cells) {
    const std::span<const std::byte> bytes = found.subspan(cell.position(), cell.bytes());
    // In mode power, what a thread has seen of another of its node may not be durable, and vanish with both of them.
    const auto is_witness = [&](std::uint32_t writer) {
      return !is_power() || node_of(writer) != node_of(worker.number);
    };
    const std::string wrong = cell.check_read(bytes, worker.number, worker.begun, end, is_witness);
    if (!wrong.empty()) throw Failure(wrong + cell.explain(bytes, stamps_), cell.address());
    if (cell.candidates() < 32) continue;
    Tick oldest = worker.begun;
    for (const auto& other : workers_) oldest = std::min(oldest, other->begun);
    cell.prune(oldest);
  }
}

void Workload::claim_range(GlobalAddress address, std::uint64_t bytes) {
  const auto next = allocated_.lower_bound(address.bits());
  const bool overlaps = (next != allocated_.end() && next->first < address.bits() + bytes) ||
                        (next != allocated_.begin() && std::prev(next)->second > address.bits());
  if (overlaps) throw Failure(fmt::format("{} was given out twice", address.to_string()), address);
  allocated_[address.bits()] = address.bits() + bytes;
}

}  // namespace atoll::sim
