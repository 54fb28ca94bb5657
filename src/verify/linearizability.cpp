#include "verify/linearizability.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "base/random.hpp"
#include "verify/models.hpp"

namespace atoll::verify {
namespace {

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  void flip(std::uint64_t number) noexcept {
    base::Random random(number);
    low ^= random.next();
    high ^= random.next();
  }
};
struct Fold {
  std::size_t operator()(const Hash128& hash) const noexcept { return std::size_t(hash.low); }
};

/// A search for an order of the operations on one object.
///
/// An operation may come next if no other that is not yet placed returned before it was called. A place in the search
/// is the set of operations placed and the object's state; one that led nowhere is not entered twice. Of
/// each place 128 bits of hash are kept: with 10^8 of them the odds that two are taken for one are some 10^-23.
///
/// Thread-safety: none.
/// Invariants:
///   1. The list holds the completed operations that are not placed, in order of their calls.
///   2. `hash_` is that of the set of operations placed.
///   3. Every frame but the last has placed the operation `chosen`.
template <typename Model>
class Search {
 public:
  using State = typename Model::State;

  /// REQUIRES: `operations` are in order of their calls.
  Search(const std::vector<Operation>& operations, State initial, std::uint64_t max_states)
      : operations_(operations), initial_(std::move(initial)), max_states_(max_states) {
    const auto end = std::uint32_t(operations.size());
    next_.assign(end + 1, end);
    previous_.assign(end + 1, end);
    placed_.assign(end, false);
    for (std::uint32_t i = 0; i < end; ++i) {
      if (operations[i].pending()) {
        pending_.push_back(i);
        continue;
      }
      ++left_;
      const std::uint32_t last = previous_[end];
      next_[last] = i;
      previous_[i] = last;
      next_[i] = end;
      previous_[end] = i;
    }
  }

  Verdict run(bool remember_longest = false) {
    push(initial_);
    while (!frames_.empty()) {
      if (left_ == 0) return Verdict::kAccepted;
      Frame& frame = frames_.back();
      if (frame.next == frame.end) {
        if (remember_longest) remember();
        candidates_.resize(frame.begin);
        frames_.pop_back();
        if (!frames_.empty()) put_back(frames_.back().chosen);
        continue;
      }
      const std::uint32_t candidate = candidates_[frame.next++];
      State after = frame.state;
      if (!Model::apply(operations_[candidate], after)) continue;
      place(candidate);
      Hash128 key = hash_;
      key.flip(Model::hash(after));
      if (!seen_.insert(key).second) {
        put_back(candidate);
        continue;
      }
      if (seen_.size() > max_states_) return Verdict::kUnknown;
      frame.chosen = candidate;
      push(std::move(after));
    }
    return Verdict::kRejected;
  }
  [[nodiscard]] std::uint64_t states() const noexcept { return seen_.size(); }
  /// The longest order found (by the completed operations in it), the state after it, and what might have come next.
  [[nodiscard]] const std::vector<std::uint32_t>& longest() const noexcept { return longest_; }
  [[nodiscard]] const State& state_after() const noexcept { return state_after_; }
  [[nodiscard]] const std::vector<std::uint32_t>& stuck() const noexcept { return stuck_; }

 private:
  struct Frame {
    State state;
    std::uint32_t chosen = 0;
    std::size_t begin = 0, next = 0, end = 0;  // in candidates_
  };

  void push(State state) {
    Frame frame{std::move(state), 0, candidates_.size(), candidates_.size(), 0};
    const std::uint32_t end = std::uint32_t(operations_.size());
    std::int64_t bound = kNever;  // the earliest return of what is not placed
    for (std::uint32_t i = next_[end]; i != end && operations_[i].invoked <= bound; i = next_[i]) {
      bound = std::min(bound, operations_[i].responded);
      State after = frame.state;
      if (Model::is_free(operations_[i]) && Model::apply(operations_[i], after)) {
        // If there is an order from here on, there is one that begins with this.
        candidates_.resize(frame.begin);
        candidates_.push_back(i);
        frame.end = candidates_.size();
        frames_.push_back(std::move(frame));
        return;
      }
      candidates_.push_back(i);
    }
    // Who returned first most likely came first; what never returned, most likely never came.
    std::sort(candidates_.begin() + std::ptrdiff_t(frame.begin), candidates_.end(), [&](auto a, auto b) {
      return std::pair(operations_[a].responded, a) < std::pair(operations_[b].responded, b);
    });
    for (const std::uint32_t i : pending_) {
      if (operations_[i].invoked <= bound && !placed_[i] && !twin_is_left(i)) candidates_.push_back(i);
    }
    frame.end = candidates_.size();
    frames_.push_back(std::move(frame));
  }
  /// Of pending operations that are alike the first called is placed first.
  bool twin_is_left(std::uint32_t index) const {
    const Operation& one = operations_[index];
    return std::any_of(pending_.begin(), pending_.end(), [&](std::uint32_t i) {
      const Operation& other = operations_[i];
      return i < index && !placed_[i] && one.kind == other.kind && one.argument == other.argument &&
             one.expected == other.expected && (!is_lock_kind(one.kind) || one.client() == other.client());
    });
  }
  void place(std::uint32_t index) {
    hash_.flip(index * 2 + 1);
    placed_[index] = true;
    if (operations_[index].pending()) return;
    next_[previous_[index]] = next_[index];
    previous_[next_[index]] = previous_[index];
    --left_;
  }
  void put_back(std::uint32_t index) {
    hash_.flip(index * 2 + 1);
    placed_[index] = false;
    if (operations_[index].pending()) return;
    next_[previous_[index]] = index;
    previous_[next_[index]] = index;
    ++left_;
  }
  void remember() {
    if (left_ >= least_left_) return;
    least_left_ = left_;
    longest_.clear();
    for (std::size_t i = 0; i + 1 < frames_.size(); ++i) longest_.push_back(frames_[i].chosen);
    const Frame& last = frames_.back();
    state_after_ = last.state;
    stuck_.assign(candidates_.begin() + std::ptrdiff_t(last.begin), candidates_.begin() + std::ptrdiff_t(last.end));
  }

  const std::vector<Operation>& operations_;
  State initial_;
  std::uint64_t max_states_;
  std::vector<std::uint32_t> next_, previous_;  // a ring; its end is the number of operations
  std::vector<bool> placed_;
  std::vector<std::uint32_t> pending_;
  std::size_t left_ = 0;
  Hash128 hash_;
  std::unordered_set<Hash128, Fold> seen_;
  std::vector<Frame> frames_;
  std::vector<std::uint32_t> candidates_;
  std::size_t least_left_ = std::size_t(-1);
  std::vector<std::uint32_t> longest_, stuck_;
  State state_after_{};
};

/// Checks the operations on one object, and explains what is wrong with them.
template <typename Model>
class ObjectCheck {
 public:
  ObjectCheck(std::vector<Operation> operations, typename Model::State initial, const LinearizabilityOptions& options)
      : operations_(std::move(operations)), initial_(std::move(initial)), options_(options) {
    std::stable_sort(operations_.begin(), operations_.end(),
                     [](const Operation& a, const Operation& b) { return a.invoked < b.invoked; });
  }

  void run(LinearizabilityReport& report) {
    const std::uint32_t key = operations_.front().key;
    const Verdict verdict = judge(operations_, options_.max_states);
    report.states += states_;
    if (verdict == Verdict::kAccepted || report.verdict == Verdict::kRejected) return;
    report.verdict = verdict;
    if (verdict == Verdict::kUnknown) {
      report.explanation = fmt::format("k{} ({}): given up after {} states with {} operations\n", key, Model::kName,
                                       options_.max_states, operations_.size());
      return;
    }
    budget_ = options_.explain ? 8 * options_.max_states : 0;
    std::vector<Operation> window = smallest(shortest_prefix());
    report.explanation = explain(window);
    report.window = std::move(window);
  }

 private:
  Verdict judge(std::vector<Operation> operations, std::uint64_t max_states) {
    Model::prune(operations);
    Search<Model> search(operations, initial_, max_states);
    const Verdict verdict = search.run();
    states_ = search.states();
    return verdict;
  }
  /// Within what explaining may cost; what is not known counts as not rejected.
  bool is_rejected(const std::vector<Operation>& operations) {
    if (budget_ == 0) return false;
    const bool rejected = judge(operations, std::min(budget_, options_.max_states)) == Verdict::kRejected;
    budget_ -= std::min(budget_, states_ + operations.size());
    return rejected;
  }
  [[nodiscard]] std::vector<Operation> until(std::int64_t time) const {
    std::vector<Operation> prefix;
    for (Operation operation : operations_) {
      if (operation.invoked > time) break;
      if (operation.responded > time) {
        operation.responded = kNever;
        operation.result = 0;
        operation.refused = false;
      }
      prefix.push_back(operation);
    }
    return prefix;
  }
  /// A prefix of a linearizable history is linearizable. So the first return with which it is not is found by halving.
  std::vector<Operation> shortest_prefix() {
    std::vector<std::int64_t> returns;
    for (const Operation& operation : operations_) {
      if (!operation.pending()) returns.push_back(operation.responded);
    }
    std::sort(returns.begin(), returns.end());
    std::size_t good = 0, bad = returns.size();  // numbers of returns
    while (good + 1 < bad && budget_ > 0) {
      const std::size_t middle = (good + bad) / 2;
      (is_rejected(until(returns[middle - 1])) ? bad : good) = middle;
    }
    std::vector<Operation> prefix = until(returns[bad - 1]);
    Model::prune(prefix);
    return prefix;
  }
  /// Takes out what plays no part: halves, then quarters, and at last one by one.
  std::vector<Operation> smallest(std::vector<Operation> operations) {
    for (std::size_t size = operations.size(); size > 0 && budget_ > 0; size /= 2) {
      for (std::size_t end = operations.size(); end > 0;) {
        const std::size_t begin = end - std::min(end, size);
        std::vector<Operation> rest = Model::without(operations, begin, end);
        if (rest.size() < operations.size() && is_rejected(rest)) operations = std::move(rest);
        end = std::min(begin, operations.size());
      }
    }
    return operations;
  }
  /// Who did what and when, how far an order goes, and what does not fit then.
  std::string explain(const std::vector<Operation>& window) {
    constexpr std::size_t kShown = 40;
    Search<Model> search(window, initial_, options_.max_states);
    search.run(true);
    const std::int64_t start = window.front().invoked;
    std::string text = fmt::format("k{} ({}): these {} operations of {} have no order\n", window.front().key,
                                   Model::kName, window.size(), operations_.size());
    text +=
        fmt::format("  {:>5} {:>7} {:>12} {:>12}  what (times in ns from {})\n", "", "client", "call", "return", start);
    const std::size_t first = window.size() > kShown ? window.size() - kShown : 0;
    if (first > 0) text += fmt::format("  ... {} earlier ones, in the history\n", first);
    for (std::size_t i = first; i < window.size(); ++i) {
      const Operation& one = window[i];
      const std::string end = one.pending() ? "?" : std::to_string(one.responded - start);
      text += fmt::format("  {:>5} {:>7} {:>12} {:>12}  {}\n", fmt::format("#{}", i + 1),
                          fmt::format("{}.{}", one.process, one.thread), one.invoked - start, end, what(one));
    }
    const auto list = [&](const std::vector<std::uint32_t>& numbers) {
      std::string names = numbers.size() > kShown ? " ..." : "";
      for (std::size_t i = numbers.size() - std::min(numbers.size(), kShown); i < numbers.size(); ++i) {
        names += fmt::format(" #{}", numbers[i] + 1);
      }
      return names.empty() ? std::string(" none") : names;
    };
    text +=
        fmt::format("  the longest order:{}; then {}\n", list(search.longest()), Model::describe(search.state_after()));
    return text + fmt::format("  what must come next, and cannot:{}\n", list(search.stuck()));
  }

  std::vector<Operation> operations_;
  typename Model::State initial_;
  const LinearizabilityOptions& options_;
  std::uint64_t states_ = 0;
  std::uint64_t budget_ = 0;
};

template <typename Model>
void check_object(std::vector<Operation> operations, typename Model::State initial,
                  const LinearizabilityOptions& options, LinearizabilityReport& report) {
  ObjectCheck<Model>(std::move(operations), std::move(initial), options).run(report);
}

}  // namespace

LinearizabilityReport check_linearizable(std::span<const Operation> history, const LinearizabilityOptions& options) {
  LinearizabilityReport report;
  report.operations = history.size();
  std::map<std::pair<std::uint32_t, bool>, std::vector<Operation>> objects;
  for (const Operation& operation : history) {
    if (const char* wrong = what_is_wrong(operation); wrong != nullptr) {
      report.verdict = Verdict::kUnknown;
      report.explanation = fmt::format("{}: {}\n", to_string(operation), wrong);
      return report;
    }
    objects[{operation.key, is_lock_kind(operation.kind)}].push_back(operation);
  }
  report.keys = objects.size();
  for (auto& [object, operations] : objects) {
    if (object.second) {
      check_object<LockModel>(std::move(operations), {}, options, report);
    } else {
      check_object<WordModel>(std::move(operations), options.initial, options, report);
    }
  }
  return report;
}

}  // namespace atoll::verify
