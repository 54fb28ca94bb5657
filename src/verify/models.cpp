#include "verify/models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/random.hpp"

namespace atoll::verify {
namespace {

bool replaces(const Operation& operation) {
  return operation.kind == OpKind::kCompareExchange && operation.result == operation.expected;
}

/// The value that a completed operation left behind; false when it changed nothing.
bool produced(const Operation& operation, std::uint64_t& value) {
  if (operation.kind == OpKind::kRead) return false;
  if (operation.kind == OpKind::kCompareExchange && !replaces(operation)) return false;
  value = operation.kind == OpKind::kFetchAdd ? operation.result + operation.argument : operation.argument;
  return true;
}

/// How often each value was found, or may have been found without anybody being told.
class Noticed {
 public:
  explicit Noticed(const std::vector<Operation>& operations) {
    for (const Operation& operation : operations) {
      if (!operation.pending()) {
        if (operation.kind != OpKind::kWrite) ++times_[operation.result];
      } else if (operation.kind == OpKind::kCompareExchange) {
        ++times_[operation.expected];
      } else if (operation.kind == OpKind::kFetchAdd) {
        any_ = true;
      }
    }
  }
  [[nodiscard]] bool has(std::uint64_t value) const {
    const auto found = times_.find(value);
    return any_ || (found != times_.end() && found->second > 0);
  }
  void forget(const Operation& operation) {
    if (operation.kind != OpKind::kWrite) --times_[operation.result];
  }

 private:
  std::unordered_map<std::uint64_t, int> times_;
  bool any_ = false;
};

bool reads(OpKind kind) {
  return kind == OpKind::kReadLock || kind == OpKind::kTryReadLock || kind == OpKind::kUnlockRead;
}
std::vector<Operation> those_left(const std::vector<Operation>& operations, const std::vector<bool>& gone) {
  std::vector<Operation> left;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (!gone[i]) left.push_back(operations[i]);
  }
  return left;
}

bool unlocks(OpKind kind) {
  return kind == OpKind::kUnlockRead || kind == OpKind::kUnlockWrite;
}

}  // namespace

// ---- word ----

bool WordModel::apply(const Operation& operation, State& state) {
  if (!operation.pending() && operation.kind != OpKind::kWrite && operation.result != state) return false;
  switch (operation.kind) {
    case OpKind::kRead: return true;
    case OpKind::kWrite:
    case OpKind::kExchange: state = operation.argument; return true;
    case OpKind::kCompareExchange:
      if (state == operation.expected) state = operation.argument;
      return true;
    case OpKind::kFetchAdd: state += operation.argument; return true;
    case OpKind::kReadLock:
    case OpKind::kWriteLock:
    case OpKind::kTryReadLock:
    case OpKind::kTryWriteLock:
    case OpKind::kUnlockRead:
    case OpKind::kUnlockWrite: return false;
  }
  return false;
}

bool WordModel::is_free(const Operation& operation) {
  return !operation.pending() &&
         (operation.kind == OpKind::kRead || (operation.kind == OpKind::kCompareExchange && !replaces(operation)));
}

std::uint64_t WordModel::hash(const State& state) {
  return base::Random(state).next();
}

std::string WordModel::describe(const State& state) {
  return fmt::format("the word is {}", state);
}

void WordModel::prune(std::vector<Operation>& operations) {
  // After a write that nobody noticed comes a write that notices nothing, or the end: without it all is as before.
  const Noticed noticed(operations);
  std::erase_if(operations, [&](const Operation& operation) {
    if (!operation.pending()) return false;
    return operation.kind == OpKind::kRead || (operation.kind != OpKind::kFetchAdd && !noticed.has(operation.argument));
  });
}

std::vector<Operation> WordModel::without(const std::vector<Operation>& operations, std::size_t begin,
                                          std::size_t end) {
  std::vector<bool> gone(operations.size(), false);
  Noticed noticed(operations);
  // From the end, so that a chain of exchanges whose last value nobody found goes as a whole.
  for (std::size_t i = end; i-- > begin;) {
    std::uint64_t value = 0;
    if (operations[i].pending() || (produced(operations[i], value) && noticed.has(value))) continue;
    noticed.forget(operations[i]);
    gone[i] = true;
  }
  return those_left(operations, gone);
}

// ---- lock ----

bool LockModel::apply(const Operation& operation, State& state) {
  const std::uint32_t client = operation.client();
  const auto at = std::lower_bound(state.readers.begin(), state.readers.end(), client);
  switch (operation.kind) {
    case OpKind::kTryReadLock:
    case OpKind::kReadLock:
      if (operation.refused) return true;
      if (state.writer != kNobody) return false;
      state.readers.insert(at, client);
      return true;
    case OpKind::kTryWriteLock:
    case OpKind::kWriteLock:
      if (operation.refused) return true;
      if (state.writer != kNobody || !state.readers.empty()) return false;
      state.writer = client;
      return true;
    case OpKind::kUnlockRead:
      if (at == state.readers.end() || *at != client) return false;
      state.readers.erase(at);
      return true;
    case OpKind::kUnlockWrite:
      if (state.writer != client) return false;
      state.writer = kNobody;
      return true;
    case OpKind::kRead:
    case OpKind::kWrite:
    case OpKind::kExchange:
    case OpKind::kCompareExchange:
    case OpKind::kFetchAdd: return false;
  }
  return false;
}

bool LockModel::is_free(const Operation& operation) {
  return operation.refused;
}

std::uint64_t LockModel::hash(const State& state) {
  std::uint64_t hash = base::Random(state.writer).next();
  for (const std::uint32_t reader : state.readers) hash = base::Random(hash + reader).next();
  return hash;
}

std::string LockModel::describe(const State& state) {
  const auto name = [](std::uint32_t client) { return fmt::format(" {}.{}", client >> 16, client & 0xffff); };
  if (state.writer != kNobody) return "the lock is held for writing by" + name(state.writer);
  if (state.readers.empty()) return "the lock is free";
  std::string text = "the lock is held for reading by";
  for (const std::uint32_t reader : state.readers) text += name(reader);
  return text;
}

void LockModel::prune(std::vector<Operation>& operations) {
  // A lock that its client never goes on to unlock only stands in the way: that it was not taken is the better guess.
  std::unordered_map<std::uint32_t, std::int64_t> last_unlock;
  for (const Operation& operation : operations) {
    if (!unlocks(operation.kind)) continue;
    auto& last = last_unlock.try_emplace(operation.client(), operation.responded).first->second;
    last = std::max(last, operation.responded);
  }
  std::erase_if(operations, [&](const Operation& operation) {
    if (!operation.pending() || unlocks(operation.kind)) return false;
    const auto last = last_unlock.find(operation.client());
    return last == last_unlock.end() || last->second < operation.invoked;
  });
}

std::vector<Operation> LockModel::without(const std::vector<Operation>& operations, std::size_t begin,
                                          std::size_t end) {
  // A lock together with its unlock, a lock that is never unlocked, a refusal: without them others are only freer.
  std::vector<bool> gone(operations.size(), false);
  std::unordered_set<std::uint32_t> doubtful;  // with a pending operation it is not clear which unlock is whose
  for (const Operation& operation : operations) {
    if (operation.pending()) doubtful.insert(operation.client());
  }
  std::map<std::pair<std::uint32_t, bool>, std::vector<std::size_t>> open;  // (client, reads): locks not yet unlocked
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    if (doubtful.contains(operation.client())) continue;
    auto& mine = open[{operation.client(), reads(operation.kind)}];
    if (unlocks(operation.kind)) {
      if (mine.empty()) continue;
      gone[i] = gone[mine.back()];
      mine.pop_back();
    } else {
      gone[i] = begin <= i && i < end;
      if (!operation.refused) mine.push_back(i);
    }
  }
  return those_left(operations, gone);
}

}  // namespace atoll::verify
