// The memory model as a machine: what docs/memory-model.md promises, small enough to walk all of its executions.
#pragma once

#include <set>

#include "litmus/case.hpp"

namespace atoll::litmus {

/// The outcomes that the test may have under `mode`: those of all executions of this machine.
///
/// There is one memory, the same for all (a write that becomes visible does so to everybody at once: no node may write
/// a line while another reads it). Each thread runs its instructions in order and has a list of writes that are under
/// way.
///   1. A write is added to the list. At any later moment it may be done: taken off the list, into the memory. PSO: if
///   no
///      earlier write of the thread to the same line is under way. TSO and SC: if no earlier write at all is.
///   2. Under SC every instruction waits until the list is empty.
///   3. A read returns the thread's last write to the variable that is under way (it may sit in the processor's store
///      buffer), else the memory. If only another variable of the line has writes under way, the read waits for them,
///      for a line is one queue; but not when all threads are of one node, where the processor's rules are all there
///      is.
///   4. A fence, an exchange, a lock and an unlock wait until the list is empty.
///   5. A lock excludes other locks of the line, and the accesses of other nodes: writes and exchanges if it is a
///      read lock, reads too if it is a write lock. Accesses of the same node's other threads ignore it.
[[nodiscard]] std::set<Outcome> allowed_outcomes(const Case& test, Consistency mode);

/// Is there an outcome among them that the shape asks for?
[[nodiscard]] bool allows_interesting(const Case& test, Consistency mode);

}  // namespace atoll::litmus
