// What must hold in every state.
#include <fmt/format.h>

#include <bit>

#include "coherence/line_version.hpp"
#include "explorer/world.hpp"

namespace atoll::explorer {

using coherence::CacheState;
using coherence::DirState;
using coherence::Protocol;

namespace {

constexpr std::uint8_t kReadWrite = detail::kReadable | detail::kWritable;
constexpr std::uint8_t kAnyAccess = kReadWrite | detail::kOperable;

}  // namespace

/// Single writer or many readers, counting those who read in a state that waits: a copy whose upgrade is under
/// way is still read by the holders of a read lock, and so is the home's while it invalidates for itself.
bool World::may_read(unsigned node, unsigned line) const noexcept {
  if (!is_open(node)) return false;  // nobody is there, or its program has not begun again
  const ModelLine& model = at(node, line);
  if (((Protocol::permission(model.ref) | model.lingering) & kReadWrite) != 0) return true;
  return model.ref.is_home() ? model.entry.state == DirState::kSharedToUnshared
                             : model.ref.state() == CacheState::kSharedToDirty;
}

/// Has some node operands that the home has not taken? Then nobody can know the line's value.
bool World::lacks_operands(unsigned line) const noexcept {
  for (unsigned node = 0; node < options_.nodes; ++node) {
    if (at(node, line).operands == Operands::kSome) return true;
  }
  return false;
}

/// The invariants, in the order in which they are looked at:
///   1. single writer or many readers; every copy that may be read is that of the last write, and the home's memory
///      is whenever nobody owns the line, but for operands that are still elsewhere: then nobody reads;
///   2. the directory knows every copy;
///   3. the access byte allows no more than the state gives, and nothing while something of the node is queued; no
///      thread is in a line beyond what Line::use says; the waiters bit is set exactly when an unlock must be told;
///   4. never a writer together with another holder; the lock word counts the holders; a held copy is valid;
///   5. of a home that is back all this holds when all have reported; what one node has written and may lose no other
///      has seen;
///   6. what passes for as its file has it is; what the home does not have is in the file; what the core has said of
///   the
///      home's memory is so;
///   7. channels and queues are bounded; with an empty network nobody waits, unless for a lock, and a try not even
///   then.
void World::check() {
  for (unsigned line = 0; line < options_.lines; ++line) {
    check_copies(line);
    check_directory(line);
    check_locks(line);
    if (options_.files) check_file(line);
    for (unsigned node = 0; node < options_.nodes; ++node) check_access(node, line);
  }
  check_network();
}

void World::check_copies(unsigned line) {
  int writers = 0;
  int readers = 0;
  for (unsigned node = 0; node < options_.nodes; ++node) {
    const ModelLine& model = at(node, line);
    const bool reads = may_read(node, line);
    const bool writes = reads && ((Protocol::permission(model.ref) | model.lingering) & detail::kWritable) != 0;
    writers += writes ? 1 : 0;
    readers += reads ? 1 : 0;
    if (reads && !model.fresh) fail(fmt::format("node {} may read an old value of line {}", node, line));
  }
  if (readers > 0 && lacks_operands(line)) fail(fmt::format("line {} may be read while operands are missing", line));
  if (writers > 0 && readers > 1) fail(fmt::format("line {} has a writer and another copy that may be read", line));
  const ModelLine& home = at(home_of(line), line);
  // Where the end of a log can be lost, only the reports of all others make it so.
  const bool knows = options_.power ? is_open(home_of(line)) : is_alive(home_of(line));
  if (knows && home.entry.owner == kNoNode && !home.fresh && !is_absent(line)) {
    fail(fmt::format("nobody owns line {}, and the home's memory is old", line));
  }
}

/// Data is written when it is sent here; elsewhere nobody knows that it has come before the message has.
bool World::data_under_way(unsigned node, unsigned line) const noexcept {
  for (unsigned from = 0; from < options_.nodes; ++from) {
    for (const Packet& packet : channel(from, node)) {
      const wire::Kind kind = packet.message.kind;
      if (packet.line == line && (kind == wire::Kind::kData || kind == wire::Kind::kOwnerData)) return true;
    }
  }
  return false;
}

bool World::put_ack_under_way(unsigned node, unsigned line) const noexcept {
  for (const auto* packets : {&channel(home_of(line), node), &late_[home_of(line) * options_.nodes + node]}) {
    for (const Packet& packet : *packets) {
      if (packet.line == line && packet.message.kind == wire::Kind::kPutAck) return true;
    }
  }
  return false;
}

/// Logged: a return that the home does not expect any more, and will acknowledge.
bool World::return_under_way(unsigned node, unsigned line) const noexcept {
  for (const Packet& packet : channel(node, home_of(line))) {
    if (options_.logged && packet.line == line && is_return(packet.message.kind)) return true;
  }
  return false;
}

/// The home forgets a node only after that node's message that it has no copy, so knowing needs no exception
/// for messages under way, but for the acknowledgement of a return.
void World::check_known(unsigned node, unsigned line) {
  const ModelLine& home = at(home_of(line), line);
  const bool owner = home.entry.owner == node;
  const bool sharer = (home.entry.sharers >> node & 1U) != 0;
  const bool requester = home.entry.requester == node;
  bool known = true;
  switch (at(node, line).ref.state()) {
    case CacheState::kInvalid:
    case CacheState::kInvalidToShared:
    case CacheState::kInvalidToDirty:
    case CacheState::kLeftToInvalid:
    case CacheState::kWritingHome:
    case CacheState::kInvalidToOperated:
    case CacheState::kCount: break;
    case CacheState::kOperated: known = sharer; break;
    case CacheState::kOperatedToInvalid: known = sharer || put_ack_under_way(node, line); break;
    case CacheState::kShared:
    case CacheState::kSharedToDirty:
    case CacheState::kInvalidToSharedData: known = owner || sharer; break;
    case CacheState::kInvalidToSharedGrant: known = owner || sharer || requester; break;
    case CacheState::kDirty:
    case CacheState::kInvalidToDirtyData: known = owner; break;
    case CacheState::kInvalidToDirtyGrant: known = owner || requester; break;
    case CacheState::kDirtyToShared: known = owner || sharer; break;
    case CacheState::kDirtyToInvalid:
      known = owner || put_ack_under_way(node, line) || return_under_way(node, line);
      break;
  }
  if (!known) fail(fmt::format("the directory does not know the copy of line {} at node {}", line, node));
}

void World::check_directory(unsigned line) {
  const coherence::DirEntry& entry = at(home_of(line), line).entry;
  if ((entry.sharers >> home_of(line) & 1U) != 0) fail("the home is its own sharer");
  if (entry.owner != kNoNode && entry.sharers != 0) fail("an owner and sharers at once");
  // Whoever can reach the home's memory may read it there, as long as the version says that the bytes are in it.
  const ModelLine& at_home = at(home_of(line), line);
  const bool whole = coherence::is_whole(at_home.line.version.load(std::memory_order_relaxed));
  const bool knows = options_.power ? is_open(home_of(line)) : is_alive(home_of(line));
  if (knows && whole && (!at_home.fresh || lacks_operands(line))) {
    fail(fmt::format("line {} passes for one that can be read at its home, and its bytes there are old", line));
  }
  if (is_stable(entry.state) && (entry.acks_left != 0 || entry.requester != kNoNode)) {
    fail("a stable entry waits for something");
  }
  for (unsigned node = 0; node < options_.nodes; ++node) {
    // A home that is back knows what it was told of.
    const bool told = is_alive(home_of(line)) && (awaits_[home_of(line)] >> node & 1U) == 0;
    if (node != home_of(line) && is_alive(node) && told) check_known(node, line);
  }
}

void World::check_access(unsigned node, unsigned line) {
  const ModelLine& model = at(node, line);
  const coherence::Cold& cold = model.cold;
  const std::uint8_t access = model.ref.hot.access() & kAnyAccess;
  const bool queued = model.has_cold && !cold.memory.empty();
  const std::uint8_t expected = queued ? std::uint8_t{0} : Protocol::permission(model.ref);
  if ((access & ~expected) != 0) {
    fail(
        fmt::format("the access byte of line {} at node {} allows {} where {} is right", line, node, access, expected));
  }
  const std::uint8_t use = model.line.use;
  if ((use == detail::Line::kUnused && model.lingering != 0) ||
      (use == detail::Line::kRead && (model.lingering & ~detail::kReadable) != 0)) {
    fail(fmt::format("line {} at node {} passes for less used than it may be", line, node));
  }
  const bool told = (model.line.lock.load(std::memory_order_relaxed) & detail::kLockWaiters) != 0;
  const bool needed = model.has_cold && (!cold.locks.empty() || cold.has_held || !cold.requests.empty());
  if (told != needed) {
    fail(fmt::format("the waiters bit of line {} at node {} is {} but {}", line, node, told ? "set" : "clear",
                     needed ? "something waits" : "nothing waits"));
  }
  if (model.has_cold && cold.idle()) fail(fmt::format("node {} keeps an idle record for line {}", node, line));
}

void World::check_locks(unsigned line) {
  unsigned all_readers = 0;
  unsigned all_writers = 0;
  for (unsigned node = 0; node < options_.nodes; ++node) {
    unsigned readers = 0;
    unsigned writers = 0;
    for (unsigned index = 0; index < options_.threads; ++index) {
      readers += thread(node, index).held[line] == Hold::kRead ? 1 : 0;
      writers += thread(node, index).held[line] == Hold::kWrite ? 1 : 0;
    }
    const ModelLine& model = at(node, line);
    if (!is_alive(node)) continue;
    const std::uint32_t word = model.line.lock.load(std::memory_order_relaxed);
    if ((word & detail::kLockReaders) != readers || ((word & detail::kLockWriter) != 0) != (writers != 0)) {
      fail(fmt::format("the lock word of line {} at node {} does not count its holders", line, node));
    }
    if (readers + writers != 0 && !may_read(node, line)) {
      fail(fmt::format("node {} holds a lock of line {} without a copy", node, line));
    }
    if (writers != 0 && (Protocol::permission(model.ref) & detail::kWritable) == 0) {
      fail(fmt::format("node {} holds the write lock of line {} without the permission", node, line));
    }
    all_readers += readers;
    all_writers += writers;
  }
  if (all_writers > 1 || (all_writers == 1 && all_readers > 0)) {
    fail(fmt::format("line {} is locked by a writer and by somebody else", line));
  }
}

bool World::at_rest() const noexcept {
  for (const auto* all : {&channels_, &late_}) {
    for (const auto& packets : *all) {
      if (!packets.empty()) return false;
    }
  }
  for (unsigned node = 0; node < options_.nodes; ++node) {
    if (!is_open(node)) return false;
  }
  for (const ModelLine& model : lines_) {
    if (model.unsettled) return false;
  }
  for (const ModelFile& file : files_) {
    if (file.loading || file.writing) return false;
  }
  return true;
}

bool World::is_quiet() const noexcept {
  if (!at_rest()) return false;
  for (const ModelThread& t : threads_) {
    if (t.blocking.pending || t.writes_pending() || t.locks_held() != 0 || t.is_telling()) return false;
  }
  for (const ModelLine& model : lines_) {
    if (!Protocol::is_quiet(model.ref) || model.has_cold) return false;
  }
  return true;
}

void World::check_network() {
  // A node has at most a request, a return and an answer per line on the way, the home one more to say.
  // Who is back is told of each line, and of the end of that; what is said before and after may be there too.
  const std::size_t channel_bound = std::size_t{4} * options_.lines + (options_.logged ? 2 + 2 * options_.lines : 0);
  for (const auto& packets : channels_) {
    if (packets.size() > channel_bound) fail("a channel grows beyond its bound");
  }
  for (const ModelLine& model : lines_) {
    if (model.cold.requests.size() > std::size_t{2} * options_.nodes)
      fail("a queue of requests grows beyond its bound");
  }
  if (!at_rest()) return;
  bool locked = false;
  for (const ModelThread& t : threads_) {
    locked = locked || t.locks_held() != 0 || t.is_telling();
    if (t.blocking.pending && is_try(t.blocking.kind)) fail("a try waits although no message is under way");
  }
  if (!locked && !is_quiet()) fail("no message is under way and no lock is held, but something waits");
}

}  // namespace atoll::explorer
