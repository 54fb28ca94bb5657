// Words that are changed together on the condition that one of them is as expected, with and without locks.
#include <fmt/format.h>

#include <array>

#include "sim/workload.hpp"

namespace atoll::sim {
namespace {

/// What belongs to a guard: as large as may be, and different from what belongs to any other.
constexpr std::array<std::uint64_t, 2> tail_of(std::uint64_t guard) {
  return {3 * guard, ~(5 * guard)};
}
constexpr bool is_changing(std::uint64_t guard) {
  return guard >> 63 != 0;  // the complement of a small number
}

}  // namespace

void Workload::lay_out_guarded(GlobalAddress line) {
  for (const GlobalAddress at : {line, line + 32}) guarded_.emplace_back().address = at;
  cluster_.spawn(0, [this](Node& node) {
    for (const Guarded& guarded : guarded_) node.write(guarded.address + 8, tail_of(0), Consistency::kSc).or_throw();
  });
  cluster_.run();
}

void Workload::use_guarded(Worker& worker) {
  Guarded& guarded = guarded_[worker.random.below(guarded_.size())];
  switch (worker.random.below(4)) {
    case 0: return read_guarded(worker, guarded);
    case 1: return change_guarded_under_lock(worker, guarded);
    default: return change_guarded(worker, guarded);
  }
}

/// Of those who found one value, one may have replaced it.
void Workload::count_guarded(Guarded& guarded, std::uint64_t found) {
  if (!guarded.replaced.insert(found).second) {
    throw Failure(fmt::format("two have replaced {} at {}", found, guarded.address.to_string()), guarded.address);
  }
}

void Workload::change_guarded(Worker& worker, Guarded& guarded) {
  const global_ptr<std::uint64_t> guard(guarded.address);
  begin(worker, "write_if", guarded.address);
  const auto found = worker.node->read(guard);
  if (!end(worker, found.status()) || is_changing(*found)) return;
  const auto tail = tail_of(*found + 1);
  worker.guarded = &guarded;
  begin(worker, "write_if", guarded.address);
  const auto done =
      worker.node->write_if(guard, *found, *found + 1, guarded.address + 8, std::as_bytes(std::span(tail)));
  if (!end(worker, done.status())) return;
  worker.guarded = nullptr;
  writes_are_done(worker);
  if (*done) return count_guarded(guarded, *found);
  begin(worker, "read", guarded.address);
  const auto now = worker.node->read(guard);
  if (end(worker, now.status()) && *now == *found) {
    throw Failure(fmt::format("a write was refused although {} is as expected", guarded.address.to_string()),
                  guarded.address);
  }
}

/// Others wait; what is read under the lock stays as it is. Who crashed under it has left the complement, and is
/// followed by somebody who finishes the change.
void Workload::change_guarded_under_lock(Worker& worker, Guarded& guarded) {
  Node& node = *worker.node;
  const global_ptr<std::uint64_t> guard(guarded.address);
  worker.guarded = &guarded;
  begin(worker, "write_lock", guarded.address);
  if (!end(worker, node.write_lock(guarded.address, 24))) return;
  begin(worker, "write under a lock", guarded.address);
  const auto read = node.read(guard);
  const std::uint64_t found = read.ok() && is_changing(*read) ? ~*read : read.value_or(0);
  Status status = read.status();
  if (status.ok()) {
    cluster_.machine().sleep_ns(worker.random.below(1000));
    status = node.write(guard, ~found);
    if (status.ok()) status = node.write(guarded.address + 8, tail_of(found + 1));
    if (status.ok()) status = node.write(guard, found + 1);
  }
  const bool written = end(worker, status);
  begin(worker, "unlock", guarded.address);
  const bool unlocked = end(worker, node.unlock(guarded.address, 24));
  worker.guarded = nullptr;
  if (!written || !unlocked) return;
  writes_are_done(worker);
  count_guarded(guarded, found);
}

/// By words, with a look at the guard before and after: what was read counts if that is the same. (Without inlined hits
/// read_words looks at the version too; word by word nobody does.)
void Workload::read_guarded(Worker& worker, const Guarded& guarded) {
  Node& node = *worker.node;
  const global_ptr<std::uint64_t> guard(guarded.address);
  std::array<std::uint64_t, 2> tail{};
  begin(worker, "read", guarded.address);
  const auto before = node.read(guard);
  Status status = before.status();
  const bool one_by_one = worker.random.below(2) == 0;
  for (std::size_t i = 0; i < tail.size() && one_by_one && status.ok(); ++i) {
    const auto word = node.read<std::uint64_t>(guarded.address + std::int64_t(8 + 8 * i));
    status = word.status();
    tail[i] = word.value_or(0);
  }
  if (!one_by_one && status.ok()) {
    status = node.read_words(guarded.address + 8, std::as_writable_bytes(std::span(tail)));
  }
  const auto after = node.read(guard);
  if (status.ok()) status = after.status();
  if (!end(worker, status) || *before != *after || is_changing(*before) || tail == tail_of(*before)) return;
  throw Failure(
      fmt::format("at {} stand {} and {} with guard {}", guarded.address.to_string(), tail[0], tail[1], *before),
      guarded.address);
}

void Workload::check_guarded() {
  cluster_.spawn(0, [this](Node& node) {
    for (const Guarded& guarded : guarded_) {
      const auto words = node.read<std::array<std::uint64_t, 3>>(guarded.address).value();
      const bool half = is_changing(words[0]);  // by who crashed, and nobody came after it
      const std::uint64_t value = half ? ~words[0] : words[0];
      const std::uint64_t changes = guarded.replaced.size();
      const bool counts = value >= changes && value <= changes + guarded.maybe && (!half || guarded.maybe > 0);
      const std::array tail{words[1], words[2]};
      if (counts && (tail == tail_of(value) || (half && tail == tail_of(value + 1)))) continue;
      throw Failure(
          fmt::format("{} was changed {} times and stands at {}", guarded.address.to_string(), changes, words[0]),
          guarded.address);
    }
  });
  cluster_.run();
}

}  // namespace atoll::sim
