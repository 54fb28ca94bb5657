#include "verify/history.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <map>
#include <utility>

namespace atoll::verify {
namespace {

constexpr std::array<const char*, kOpKinds> kNames = {
    "read",       "write",         "exchange",       "compare_exchange", "fetch_add",   "read_lock",
    "write_lock", "try_read_lock", "try_write_lock", "unlock_read",      "unlock_write"};

/// The words of one line, taken one by one. The first complaint is kept.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  std::string_view take() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return word;
  }
  template <typename T>
  T number(std::string_view word, const char* what) {
    T value{};
    const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (word.empty() || failed != std::errc{} || end != word.data() + word.size()) complain(what, word);
    return value;
  }
  template <typename T>
  T number(const char* what) {
    return number<T>(take(), what);
  }
  /// "1.0": the client, and the two times that follow.
  template <typename T>
  void who_and_when(T& into) {
    const std::string_view who = take();
    const std::size_t dot = who.find('.');
    if (dot == std::string_view::npos) return complain("process.thread", who);
    into.process = number<std::uint16_t>(who.substr(0, dot), "a process");
    into.thread = number<std::uint16_t>(who.substr(dot + 1), "a thread");
    into.invoked = number<std::int64_t>("a time");
    const std::string_view end = take();
    into.responded = end == "?" ? kNever : number<std::int64_t>(end, "a time or ?");
  }
  void complain(const char* wanted, std::string_view found) {
    if (error_.empty()) error_ = fmt::format("'{}' is not {}", found, wanted);
  }
  /// Empty when the whole line made sense.
  std::string finish() {
    if (const std::string_view more = take(); !more.empty()) complain("expected here", more);
    return error_;
  }

 private:
  std::string_view rest_;
  std::string error_;
};

std::string parse_line(std::string_view line, Operation& into) {
  Words words(line);
  words.who_and_when(into);
  std::string_view key = words.take();
  if (key.empty() || key.front() != 'k') {
    words.complain("a key such as k3", key);
    return words.finish();
  }
  into.key = words.number<std::uint32_t>(key.substr(1), "the number of a key");
  const std::string_view name = words.take();
  int kind = 0;
  while (kind < kOpKinds && name != kNames[std::size_t(kind)]) ++kind;
  if (kind == kOpKinds) {
    words.complain("an operation", name);
    return words.finish();
  }
  into.kind = OpKind(kind);
  if (into.kind == OpKind::kCompareExchange) into.expected = words.number<std::uint64_t>("a value");
  if (into.kind > OpKind::kRead && !is_lock_kind(into.kind)) into.argument = words.number<std::uint64_t>("a value");
  const bool answers = is_try_kind(into.kind) || (!is_lock_kind(into.kind) && into.kind != OpKind::kWrite);
  if (answers && !into.pending()) {
    if (const std::string_view sign = words.take(); sign != "=") words.complain("=", sign);
    if (is_try_kind(into.kind)) {
      const std::string_view answer = words.take();
      into.refused = answer == "refused";
      if (!into.refused && answer != "taken") words.complain("taken or refused", answer);
    } else {
      into.result = words.number<std::uint64_t>("a value");
    }
  }
  return words.finish();
}

std::string parse_line(std::string_view line, Transaction& into) {
  Words words(line);
  words.who_and_when(into);
  const std::string_view outcome = words.take();
  bool known = false;
  for (const Outcome each : {Outcome::kCommitted, Outcome::kAborted, Outcome::kUnknown}) {
    if (outcome != to_string(each)) continue;
    into.outcome = each;
    known = true;
  }
  if (!known) words.complain("an outcome", outcome);
  for (std::string_view word = words.take(); !word.empty(); word = words.take()) {
    const std::size_t sign = word.find('=');
    if ((word.front() != 'r' && word.front() != 'w') || sign == std::string_view::npos) {
      words.complain("an access such as r3=5", word);
      break;
    }
    into.accesses.push_back({words.number<std::uint64_t>(word.substr(1, sign - 1), "a key"),
                             words.number<std::uint64_t>(word.substr(sign + 1), "a value"), word.front() == 'w'});
  }
  return words.finish();
}

template <typename T>
Parsed<T> parse(std::string_view text) {
  Parsed<T> parsed;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    T one;
    std::string error = parse_line(line, one);
    const char* wrong = error.empty() ? what_is_wrong(one) : nullptr;
    if (wrong != nullptr) error = wrong;
    if (!error.empty()) {
      parsed.error = fmt::format("line {}: {}", number, error);
      return parsed;
    }
    parsed.all.push_back(std::move(one));
  }
  return parsed;
}

template <typename T>
std::string who_and_when(const T& one) {
  const std::string end = one.responded == kNever ? "?" : std::to_string(one.responded);
  return fmt::format("{}.{} {} {}", one.process, one.thread, one.invoked, end);
}

}  // namespace

const char* to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::kAccepted: return "accepted";
    case Verdict::kRejected: return "rejected";
    case Verdict::kUnknown: return "unknown";
  }
  return "?";
}

const char* to_string(OpKind kind) noexcept {
  return int(kind) < kOpKinds ? kNames[std::size_t(kind)] : "?";
}

const char* to_string(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::kCommitted: return "committed";
    case Outcome::kAborted: return "aborted";
    case Outcome::kUnknown: return "unknown";
  }
  return "?";
}

const char* what_is_wrong(const Operation& operation) noexcept {
  if (int(operation.kind) >= kOpKinds) return "no such kind of operation";
  if (operation.invoked < 0) return "a time before the clock began";
  if (operation.responded < operation.invoked) return "it returned before it was called";
  if (operation.refused && !is_try_kind(operation.kind)) return "only a try-lock is refused";
  if (operation.refused && operation.pending()) return "refused, but never returned";
  return nullptr;
}

const char* what_is_wrong(const Transaction& transaction) noexcept {
  if (int(transaction.outcome) > int(Outcome::kUnknown)) return "no such outcome";
  if (transaction.invoked < 0) return "a time before the clock began";
  if (transaction.responded < transaction.invoked) return "it ended before it began";
  return nullptr;
}

std::string what(const Operation& operation) {
  std::string text = to_string(operation.kind);
  if (operation.kind == OpKind::kCompareExchange) text += fmt::format(" {}", operation.expected);
  if (operation.kind > OpKind::kRead && !is_lock_kind(operation.kind)) text += fmt::format(" {}", operation.argument);
  if (operation.pending()) return text;
  if (is_try_kind(operation.kind)) return text + (operation.refused ? " = refused" : " = taken");
  if (!is_lock_kind(operation.kind) && operation.kind != OpKind::kWrite) text += fmt::format(" = {}", operation.result);
  return text;
}

std::string to_string(const Operation& operation) {
  return fmt::format("{} k{} {}", who_and_when(operation), operation.key, what(operation));
}

std::string to_string(const Transaction& transaction) {
  std::string text = fmt::format("{} {}", who_and_when(transaction), to_string(transaction.outcome));
  for (const Access& access : transaction.accesses) {
    text += fmt::format(" {}{}={}", access.is_write ? 'w' : 'r', access.key, access.value);
  }
  return text;
}

Parsed<Operation> parse_operations(std::string_view text) {
  return parse<Operation>(text);
}
Parsed<Transaction> parse_transactions(std::string_view text) {
  return parse<Transaction>(text);
}

void release_by_death(std::vector<Operation>& history, std::uint16_t process, std::int64_t when) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<int, int>> held;  // (key, client): readers, writers
  for (const Operation& operation : history) {
    if (operation.process != process || operation.refused) continue;
    auto& [readers, writers] = held[{operation.key, operation.client()}];
    const bool over = operation.kind == OpKind::kUnlockRead || operation.kind == OpKind::kUnlockWrite;
    const bool reads = operation.kind == OpKind::kReadLock || operation.kind == OpKind::kTryReadLock ||
                       operation.kind == OpKind::kUnlockRead;
    if (is_lock_kind(operation.kind)) (reads ? readers : writers) += over ? -1 : 1;
  }
  for (const auto& [where, number] : held) {
    const auto release = [&, key = where.first, client = where.second](OpKind kind) {
      Operation unlock;
      unlock.invoked = when;
      unlock.key = key;
      unlock.process = process;
      unlock.thread = std::uint16_t(client & 0xffff);
      unlock.kind = kind;
      history.push_back(unlock);
    };
    for (int i = 0; i < number.first; ++i) release(OpKind::kUnlockRead);
    for (int i = 0; i < number.second; ++i) release(OpKind::kUnlockWrite);
  }
}

}  // namespace atoll::verify
