#include "litmus/runner.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/host.hpp"
#include "base/random.hpp"

namespace atoll::litmus {
namespace {

/// Instances between two meetings: one of these for each round. Short legs keep threads side by side, which is what
/// plain accesses need to pass each other; long ones cost less, for on a busy machine the meetings take most of the
/// time.
constexpr unsigned kLegs[] = {64, 512, 512, 512, 4096, 4096, 4096, 4096};
constexpr unsigned kLegsOfPlain[] = {64, 64, 512, 4096};
constexpr std::chrono::milliseconds kPatience = std::chrono::minutes(2);

/// Where threads of one process wait for each other so that they go on within nanoseconds. (Who is woken by the kernel
/// comes too late to meet the others in a store buffer.)
///
/// Thread-safety: every method from any thread.
class SpinMeeting {
 public:
  explicit SpinMeeting(unsigned members) : members_(members) {}

  /// Throws Error when somebody has given up.
  void meet() {
    constexpr unsigned kSpins = 2000;
    const unsigned round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (unsigned i = 0; round_.load(std::memory_order_acquire) == round; ++i) {
      if (given_up_.load(std::memory_order_relaxed)) throw Error("another thread of the test has failed");
      if (i < kSpins) {
        base::Host::real().relax();
      } else {
        ::sched_yield();
      }
    }
  }
  void give_up() noexcept { given_up_.store(true, std::memory_order_relaxed); }

 private:
  const unsigned members_;
  std::atomic<bool> given_up_{false};
  std::atomic<unsigned> arrived_{0};
  std::atomic<unsigned> round_{0};
};

/// Keeps threads of one process in step, as long as they run at the same time: two stores meet in store buffers only if
/// they are nanoseconds apart.
///
/// Thread-safety: each thread calls keep_step with its own number.
class Steps {
 public:
  void keep_step(unsigned thread, unsigned threads) {
    constexpr unsigned kSpins = 500, kAlone = 64;
    Place& mine = places_[thread];
    const std::uint64_t step = mine.step.load(std::memory_order_relaxed) + 1;
    mine.step.store(step, std::memory_order_release);
    if (step < mine.waits_again) return;
    for (unsigned other = 0; other < threads; ++other) {
      for (unsigned i = 0; places_[other].step.load(std::memory_order_acquire) < step; ++i) {
        if (i < kSpins) continue;
        mine.waits_again = step + kAlone;  // it has no CPU now
        return;
      }
    }
  }

 private:
  struct alignas(64) Place {
    std::atomic<std::uint64_t> step{0};
    std::uint64_t waits_again = 0;  // the owner's
  };
  std::array<Place, kMaxThreads> places_;
};

/// Keeps the calling thread on a CPU of its own, as far as there are enough, while this object lives: on a busy machine
/// the system likes to run threads that talk to each other in turns on one.
class Pinned {
 public:
  explicit Pinned(unsigned number) {
    if (::sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
    unsigned left = number % unsigned(std::max(1, CPU_COUNT(&before_)));
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &before_) || left-- > 0) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      changed_ = ::sched_setaffinity(0, sizeof(one), &one) == 0;
      return;
    }
  }
  ~Pinned() {
    if (changed_) (void)::sched_setaffinity(0, sizeof(before_), &before_);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  cpu_set_t before_{};
  bool changed_ = false;
};

/// Up to so many steps of a fraction of a nanosecond.
void dawdle(base::Random& random, std::uint64_t most) {
  for (std::uint64_t i = random.below(most); i > 0; --i) asm volatile("" : : : "memory");
}

void execute(Node& node, const Instruction& instruction, GlobalAddress at, Outcome& found) {
  constexpr std::uint64_t kBytes = sizeof(std::uint64_t);
  switch (instruction.op) {
    case Op::kRead: found |= in_register(instruction.value, node.read<std::uint64_t>(at).value()); return;
    case Op::kWrite: return node.write<std::uint64_t>(at, instruction.value).or_throw();
    case Op::kExchange: return node.exchange(global_ptr<std::uint64_t>(at), instruction.value).status().or_throw();
    case Op::kFence: return node.fence().or_throw();
    case Op::kReadLock: return node.read_lock(at, kBytes).or_throw();
    case Op::kWriteLock: return node.write_lock(at, kBytes).or_throw();
    case Op::kUnlock: return node.unlock(at, kBytes).or_throw();
  }
}

/// One seat's part of one round.
///
/// Thread-safety: none; the seat's own.
class Round {
 public:
  Round(Node& node, const Seat& seat, const Arena& arena, const Case& test, std::uint64_t seed)
      : node_(node),
        seat_(seat),
        arena_(arena),
        test_(test),
        random_(seed ^ (seat.index + 1) * 0x9e3779b97f4a7c15),
        instances_(arena.instances_for(test, seed)),
        order_(instances_.size()),
        found_(instances_.size(), 0) {
    // Groups at random, for instances that share lines shall be used at the same time.
    std::iota(order_.begin(), order_.end(), 0u);
    base::Random common(seed + 1);
    for (std::size_t left = order_.size() / Arena::kGroup; left > 1; --left) {
      const auto last = order_.begin() + std::ptrdiff_t((left - 1) * Arena::kGroup);
      const auto other = order_.begin() + std::ptrdiff_t(common.below(left) * Arena::kGroup);
      if (other != last) std::swap_ranges(last, last + Arena::kGroup, other);
    }
    const std::span<const unsigned> legs =
        test.variant == Variant::kPlain ? std::span<const unsigned>(kLegsOfPlain) : std::span<const unsigned>(kLegs);
    leg_ = legs[common.below(legs.size())];
  }

  void prepare() {
    for_each_line([&](const Instance& instance, unsigned v) {
      static constexpr std::array<std::uint64_t, Arena::kGroup> kZeros{};
      if (instance.owner[v] != node_.id()) return;
      // Whatever the node's mode: the meeting waits for all of them.
      node_.write(instance.at[v], std::as_bytes(std::span(kZeros).first(instance.leads)), Consistency::kPso).or_throw();
    });
    seat_.meet();
    for_each_line([&](const Instance& instance, unsigned v) {
      if ((instance.sharers[v] >> node_.id() & 1) != 0) node_.read<std::uint64_t>(instance.at[v]).status().or_throw();
    });
    seat_.meet();
  }

  void run() {
    const Program program = test_.program();
    for (std::size_t begin = 0; begin < order_.size(); begin += leg_) {
      const std::size_t end = std::min(begin + leg_, order_.size());
      // One that waits for its reads is slower than one that only writes. With a pace of their own for each leg, any
      // two threads are side by side in some of them.
      constexpr std::uint64_t kPaces[] = {1, 16, 256, 2048, 16384};
      const std::uint64_t pace = kPaces[random_.below(seat_.keep_step ? 3 : std::size(kPaces))];
      for (std::size_t k = begin; seat_.thread && k < end; ++k) {
        const Instance& instance = instances_[order_[k]];
        if (seat_.keep_step) seat_.keep_step();
        dawdle(random_, pace);
        for (const Instruction& instruction : program[*seat_.thread]) {
          execute(node_, instruction, instance.at[unsigned(instruction.variable)], found_[order_[k]]);
        }
      }
      seat_.meet();
    }
  }

  /// What all seats found, at seat 0; else nothing.
  std::vector<Outcome> gather() {
    const std::size_t begin = instances_.size() * seat_.index / seat_.seats;
    const std::size_t end = instances_.size() * (seat_.index + 1) / seat_.seats;
    for (std::size_t i = begin; i < end; ++i) {
      for (unsigned v = 0; v < test_.shape->variables; ++v) {
        found_[i] |= at_the_end(Variable(v), node_.read<std::uint64_t>(instances_[i].at[v]).value());
      }
    }
    node_.write(arena_.results(seat_.index), std::as_bytes(std::span(found_)), Consistency::kPso).or_throw();
    seat_.meet();
    if (seat_.index != 0) return {};
    for (unsigned other = 1; other < seat_.seats; ++other) {
      std::vector<Outcome> theirs(found_.size());
      node_.read(arena_.results(other), std::as_writable_bytes(std::span(theirs))).or_throw();
      for (std::size_t i = 0; i < found_.size(); ++i) found_[i] |= theirs[i];
    }
    return found_;
  }

 private:
  /// For each line of the variables that the test uses, if this seat prepares any.
  template <typename Act>
  void for_each_line(Act&& act) {
    const bool has_mutex = test_.variant == Variant::kMutex;
    for (const unsigned i : order_) {
      if (instances_[i].leads == 0 || !seat_.prepares) continue;
      for (unsigned v = 0; v < test_.shape->variables; ++v) act(instances_[i], v);
      if (has_mutex) act(instances_[i], unsigned(Variable::kMutex));
    }
  }

  Node& node_;
  const Seat& seat_;
  const Arena& arena_;
  const Case& test_;
  base::Random random_;  // this seat's own
  const std::vector<Instance> instances_;
  std::vector<unsigned> order_;
  unsigned leg_ = 1;
  std::vector<Outcome> found_;  // by this seat
};

bool is_enough(const Case& test, const RunSettings& settings, const Histogram& histogram, std::uint64_t done) {
  if (done < settings.runs) return false;
  const bool seen = std::any_of(histogram.begin(), histogram.end(),
                                [&](const auto& entry) { return test.shape->interesting.holds(entry.first); });
  return seen || done >= settings.until_seen;
}

/// The seats of a node whose threads are all of the test's: the node's own, and `others` in threads of their own. If
/// one fails all end, and the first failure is thrown.
Histogram run_together(Node& node, Seat seat, unsigned others, const Arena& arena, const Case& test,
                       const RunSettings& settings) {
  SpinMeeting here(others + 1);
  Steps steps;
  const auto in_step = [&steps, others](unsigned thread) {
    return [&steps, others, thread] { steps.keep_step(thread, others + 1); };
  };
  Histogram histogram;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto run = [&](const Seat& mine) {
    const Pinned pinned(*mine.thread);
    try {
      Histogram found = run_seat(node, mine, arena, test, settings);
      if (mine.index == 0) histogram = std::move(found);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
      here.give_up();
    }
  };
  std::vector<std::thread> started;
  for (unsigned k = 0; k < others; ++k) {
    const auto meet = [&] {
      node.fence().or_throw();
      here.meet();  // all threads of this node are here,
      here.meet();  // and all nodes too
    };
    started.emplace_back(run, Seat{node.count() + k, seat.seats, 1 + k, false, meet, in_step(1 + k)});
  }
  seat.meet = [&] {
    here.meet();
    node.barrier(kPatience).or_throw();
    here.meet();
  };
  seat.keep_step = in_step(0);
  run(seat);
  for (std::thread& thread : started) thread.join();
  if (failure != nullptr) std::rethrow_exception(failure);
  return histogram;
}

}  // namespace

Histogram run_seat(Node& node, const Seat& seat, const Arena& arena, const Case& test, const RunSettings& settings) {
  Histogram histogram;
  std::uint64_t done = 0;
  for (std::uint64_t round = 0;; ++round) {
    Round mine(node, seat, arena, test, settings.seed + round * 0x632be59bd9b4e019);
    mine.prepare();
    mine.run();
    const std::vector<Outcome> found = mine.gather();
    for (const Outcome outcome : found) ++histogram[outcome];
    done += found.size();
    if (seat.index == 0) {
      node.write(arena.goes_on(), is_enough(test, settings, histogram, done) ? 0 : 1).or_throw();
    }
    seat.meet();
    // (Who reads this late is not late: seat 0 writes it again after two more meetings.)
    if (node.read(arena.goes_on()).value() == 0) return histogram;
  }
}

Histogram run_node(Node& node, const Arena& arena, const Case& test, const RunSettings& settings) {
  const unsigned nodes = node.count(), threads = test.shape->thread_count;
  const bool one_node = test.layout == Layout::kOneNode;
  const unsigned others = one_node ? threads - 1 : 0;  // threads of node 0 beyond the first
  Seat seat{node.id(), nodes + others, {}, true, [&node] { node.barrier(kPatience).or_throw(); }};
  if (one_node ? node.id() == 0 : node.id() < threads) seat.thread = node.id();
  if (!one_node || node.id() != 0) return run_seat(node, seat, arena, test, settings);

  return run_together(node, seat, others, arena, test, settings);
}

NodeId nodes_for(const Case& test) {
  const unsigned taken = test.layout == Layout::kOneNode ? 1 : test.shape->thread_count;
  return NodeId(std::clamp(taken + 1, 3u, 4u));
}

}  // namespace atoll::litmus
