#include "litmus/model.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.hpp"

namespace atoll::litmus {
namespace {

constexpr std::uint8_t kNobody = 0xff;

struct Pending {
  Variable variable = Variable::kX;
  std::uint8_t value = 0;
  auto operator<=>(const Pending&) const = default;
};

/// The writes of a thread that are under way, the oldest first. What is beyond `count` is as a fresh object has it, so
/// that equal states compare equal.
struct Pendings {
  std::array<Pending, kMaxAccesses> writes{};
  std::uint8_t count = 0;
  auto operator<=>(const Pendings&) const = default;

  void add(Pending write) {
    ATOLL_CHECK(count < writes.size());
    writes[count++] = write;
  }
  void remove(unsigned index) {
    std::rotate(writes.begin() + index, writes.begin() + index + 1, writes.begin() + count);
    writes[--count] = {};
  }
};

struct Lock {
  std::uint8_t writer = kNobody;
  std::uint8_t readers = 0;  // a bit for each thread
  auto operator<=>(const Lock&) const = default;
};

struct State {
  std::array<std::uint8_t, kMaxThreads> next{};  // the instruction that a thread is at
  std::array<Pendings, kMaxThreads> under_way{};
  std::array<std::uint8_t, kVariables> memory{};
  std::array<Lock, kVariables> locks{};  // by line
  Outcome registers = 0;
  auto operator<=>(const State&) const = default;
};

/// Walks the executions.
///
/// Thread-safety: none; one walk.
class Machine {
 public:
  Machine(const Case& test, Consistency mode)
      : program_(test.program()),
        mode_(mode),
        one_line_(test.layout == Layout::kOneLine),
        one_node_(test.layout == Layout::kOneNode) {}

  std::set<Outcome> walk() {
    visit({});
    while (!open_.empty()) {
      const State state = open_.back();
      open_.pop_back();
      if (is_end(state)) {
        outcomes_.insert(state.registers | at_the_end(Variable::kX, state.memory[0]) |
                         at_the_end(Variable::kY, state.memory[1]));
        continue;
      }
      const std::size_t before = ways_;
      for (unsigned t = 0; t < program_.size(); ++t) {
        finish_writes(state, t);
        execute(state, t);
      }
      ATOLL_CHECK(ways_ != before);  // a test that can get stuck is no test
    }
    return std::move(outcomes_);
  }

 private:
  void visit(const State& state) {
    ++ways_;
    if (seen_.insert(state).second) open_.push_back(state);
  }

  [[nodiscard]] bool is_end(const State& state) const {
    for (unsigned t = 0; t < program_.size(); ++t) {
      if (state.next[t] < program_[t].size() || state.under_way[t].count > 0) return false;
    }
    return true;
  }

  [[nodiscard]] unsigned line_of(Variable variable) const {
    return one_line_ && variable == Variable::kY ? unsigned(Variable::kX) : unsigned(variable);
  }

  /// Does a lock of another node keep thread `t` from this access?
  [[nodiscard]] bool kept_out(const State& state, unsigned t, Variable variable, bool writes) const {
    if (one_node_) return false;
    const Lock& lock = state.locks[line_of(variable)];
    const bool read_locked = (lock.readers & ~(1u << t)) != 0;
    return (lock.writer != kNobody && lock.writer != t) || (writes && read_locked);
  }

  void finish_writes(const State& state, unsigned t) {
    const Pendings& mine = state.under_way[t];
    for (unsigned i = 0; i < mine.count; ++i) {
      const unsigned line = line_of(mine.writes[i].variable);
      const bool is_next = std::none_of(mine.writes.begin(), mine.writes.begin() + i, [&](const Pending& earlier) {
        return mode_ != Consistency::kPso || line_of(earlier.variable) == line;
      });
      if (!is_next || kept_out(state, t, mine.writes[i].variable, true)) continue;
      State after = state;
      after.memory[unsigned(mine.writes[i].variable)] = mine.writes[i].value;
      after.under_way[t].remove(i);
      visit(after);
    }
  }

  void execute(const State& state, unsigned t) {
    if (state.next[t] == program_[t].size()) return;
    if (mode_ == Consistency::kSc && state.under_way[t].count > 0) return;
    const Instruction& instruction = program_[t][state.next[t]];
    State after = state;
    ++after.next[t];
    if (instruction.op == Op::kWrite) {
      after.under_way[t].add({instruction.variable, instruction.value});
      visit(after);
    } else if (instruction.op == Op::kRead) {
      if (read(state, t, instruction, after)) visit(after);
    } else if (state.under_way[t].count == 0 && synchronise(t, instruction, after)) {
      visit(after);
    }
  }

  /// False when the read has to wait.
  bool read(const State& state, unsigned t, const Instruction& instruction, State& after) const {
    const Variable variable = instruction.variable;
    if (kept_out(state, t, variable, false)) return false;
    std::uint8_t value = state.memory[unsigned(variable)];
    bool own = false, line_is_busy = false;
    for (unsigned i = 0; i < state.under_way[t].count; ++i) {
      const Pending& write = state.under_way[t].writes[i];
      line_is_busy = line_is_busy || line_of(write.variable) == line_of(variable);
      if (write.variable != variable) continue;
      value = write.value;
      own = true;
    }
    if (line_is_busy && !own && !one_node_) return false;
    after.registers |= in_register(instruction.value, value);
    return true;
  }

  /// All that waits for the thread's writes. False when it has to wait for somebody else.
  bool synchronise(unsigned t, const Instruction& instruction, State& after) const {
    Lock& lock = after.locks[line_of(instruction.variable)];
    switch (instruction.op) {
      case Op::kFence: return true;
      case Op::kExchange:
        after.memory[unsigned(instruction.variable)] = instruction.value;
        return !kept_out(after, t, instruction.variable, true);
      case Op::kReadLock: lock.readers |= std::uint8_t(1u << t); return lock.writer == kNobody;
      case Op::kWriteLock: {
        const bool free = lock == Lock{};
        lock.writer = std::uint8_t(t);
        return free;
      }
      case Op::kUnlock:
        if (lock.writer == t) lock.writer = kNobody;
        lock.readers &= std::uint8_t(~(1u << t));
        return true;
      case Op::kRead:
      case Op::kWrite: break;
    }
    return false;
  }

  const Program program_;
  const Consistency mode_;
  const bool one_line_;
  const bool one_node_;
  std::set<State> seen_;
  std::vector<State> open_;
  std::set<Outcome> outcomes_;
  std::size_t ways_ = 0;  // steps taken, to see whether a state has any
};

}  // namespace

std::set<Outcome> allowed_outcomes(const Case& test, Consistency mode) {
  return Machine(test, mode).walk();
}

bool allows_interesting(const Case& test, Consistency mode) {
  const std::set<Outcome> allowed = allowed_outcomes(test, mode);
  return std::any_of(allowed.begin(), allowed.end(), [&](Outcome o) { return test.shape->interesting.holds(o); });
}

}  // namespace atoll::litmus
