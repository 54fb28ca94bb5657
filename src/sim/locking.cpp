// Locks of lines and of elements, and the book of who holds them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/workload.hpp"

namespace atoll::sim {

// ---- of lines ----

void Workload::use_locked(Worker& worker, LockMode mode, bool is_try) {
  Object& object = pick(worker, locked_);
  Node& node = *worker.node;
  begin(worker, "lock", object.address);
  Status status;
  if (mode == LockMode::kWrite) {
    status = is_try ? node.try_write_lock(object.address, object.bytes) : node.write_lock(object.address, object.bytes);
  } else {
    status = is_try ? node.try_read_lock(object.address, object.bytes) : node.read_lock(object.address, object.bytes);
  }
  const bool refused = is_try && status.code() == Errc::kRefused;
  if (!end(worker, refused ? Status() : status)) return;
  if (!is_power()) writes_are_done(worker);  // else seen by all, but not durable before the unlock
  if (refused) return;
  take_lock(worker, object, mode);
  read_object(worker, object);
  if (mode == LockMode::kWrite) {
    if (worker.random.below(2) == 0) {
      object.draft = stamps_ + 1;
      worker.drafted = &object;
      write_object(worker, object, any_consistency(worker));
      if (worker.random.below(2) == 0) cluster_.machine().sleep_ns(worker.random.below(5'000));
    }
    write_object(worker, object, any_consistency(worker));
  }
  if (worker.random.below(3) == 0) cluster_.machine().sleep_ns(worker.random.below(20'000));
  if (worker.random.below(2) == 0) read_object(worker, object);
  give_lock(worker, object, mode);
  begin(worker, "unlock", object.address);
  if (end(worker, node.unlock(object.address, object.bytes))) writes_are_done(worker);
  worker.drafted = nullptr;
}

void Workload::take_lock(Worker& worker, Object& object, LockMode mode) {
  if (object.writer != 0 || (mode == LockMode::kWrite && object.readers != 0)) {
    throw Failure(
        fmt::format("thread {} was given a lock of {} that {} holds", worker.number, object.address.to_string(),
                    object.writer != 0 ? fmt::format("thread {}", object.writer - 1) : "a reader"),
        object.address);
  }
  worker.locked = &object;
  worker.mode = mode;
  if (mode == LockMode::kWrite) {
    object.writer = worker.number + 1;
  } else {
    ++object.readers;
  }
}

void Workload::give_lock(Worker& worker, Object& object, LockMode mode) {
  worker.locked = nullptr;
  if (mode == LockMode::kWrite) {
    object.writer = 0;
  } else {
    --object.readers;
  }
}

// ---- of elements ----

/// Several to a line, so that threads hold them side by side.
void Workload::lay_out_elements(GlobalAddress line) {
  base::Random& random = cluster_.machine().random();
  for (std::uint32_t i = 0; i < std::min(line_bytes_ / 16, 6u); ++i) {
    elements_.push_back({make_object(line + 16 * i, std::uint32_t(1 + random.below(16))), {}});
  }
}

void Workload::use_element(Worker& worker, LockMode mode, bool is_try) {
  Element& element = elements_[worker.random.below(elements_.size())];
  Object& object = element.object;
  Node& node = *worker.node;
  if (worker.random.below(4) == 0) return read_object(worker, object);  // a lock of it keeps nobody from its line
  begin(worker, "lock of an element", object.address);
  Status status;
  if (mode == LockMode::kWrite) {
    status = is_try ? node.try_write_lock_element(object.address) : node.write_lock_element(object.address);
  } else {
    status = is_try ? node.try_read_lock_element(object.address) : node.read_lock_element(object.address);
  }
  const bool refused = is_try && status.code() == Errc::kRefused;
  if (!end(worker, refused ? Status() : status)) return;
  if (!is_power()) writes_are_done(worker);  // as with lines
  if (refused) return;
  take_element(worker, element, mode);
  read_object(worker, object);
  if (worker.random.below(4) == 0) lock_again(worker, element, mode);
  if (mode == LockMode::kWrite) {
    for (std::uint64_t i = worker.random.below(3); i != 0; --i) write_object(worker, object, any_consistency(worker));
  }
  if (worker.random.below(3) == 0) cluster_.machine().sleep_ns(worker.random.below(20'000));
  if (worker.random.below(2) == 0) read_object(worker, object);
  if (cluster_.is_dead(worker.node->id())) return;  // it has died with the lock
  give_element(worker, element);
  begin(worker, "unlock of an element", object.address);
  if (end(worker, node.unlock_element(object.address))) writes_are_done(worker);
}

/// A second lock of the same thread: a reader has it at once, whoever waits, and anybody else is told.
void Workload::lock_again(Worker& worker, const Element& element, LockMode mode) {
  const GlobalAddress at = element.object.address;
  Node& node = *worker.node;
  begin(worker, "second lock of an element", at);
  const Status wrote = worker.random.below(2) == 0 ? node.write_lock_element(at) : node.try_write_lock_element(at);
  const Status read = node.read_lock_element(at);
  const Status unlocked = read.ok() ? node.unlock_element(at) : Status();
  if (!end(worker, unlocked)) return;
  if (read.ok()) writes_are_done(worker);
  const Errc expected = mode == LockMode::kRead ? Errc::kOk : Errc::kWouldDeadlock;
  if ((wrote.code() != Errc::kWouldDeadlock || read.code() != expected) && !cluster_.any_dead()) {
    throw Failure(fmt::format("second locks: \"{}\" and \"{}\"", wrote.to_string(), read.to_string()), at);
  }
}

/// Readers that have died have nothing any more; what a writer had locked when it died, nobody gets. With logs, what it
/// had locked when it crashed nobody gets before its node has met the others again.
void Workload::take_element(Worker& worker, Element& element, LockMode mode) {
  Object& object = element.object;
  std::erase_if(element.readers, [&](std::uint32_t reader) { return cluster_.is_dead(node_of(reader)); });
  object.readers = std::uint32_t(element.readers.size());
  take_lock(worker, object, mode);
  worker.element = &element;
  if (mode == LockMode::kRead) element.readers.insert(worker.number);
  const NodeId left_by = std::exchange(element.left_by, kNoNode);
  if (left_by == kNoNode || cluster_.network().lives(left_by) > element.left_in) return;
  throw Failure(fmt::format("thread {} was given the element {}, whose writer's node {} has crashed and is not back",
                            worker.number, object.address.to_string(), left_by),
                object.address);
}

void Workload::give_element(Worker& worker, Element& element) {
  element.readers.erase(worker.number);
  worker.element = nullptr;
  give_lock(worker, element.object, worker.mode);
}

/// Its thread has crashed under the lock.
void Workload::bury_element(const Worker& worker) {
  Element& element = *worker.element;
  element.readers.erase(worker.number);
  if (worker.mode == LockMode::kRead) return;
  element.left_by = node_of(worker.number);
  element.left_in = cluster_.network().lives(element.left_by);
}

}  // namespace atoll::sim
