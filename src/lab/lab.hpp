// The laboratory: this header is put before every source of a laboratory build (ATOLL_LAB), whose names stand in a
// namespace of their own, so that nothing of it can get into a real program.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "atoll/detail/namespace.hpp"

namespace atoll::lab {

// Mistakes in the code of the runtime. X(name, what is wrong). Those of log_ are for clusters with logs.
#define ATOLL_FAULTS(X)                                                                                 \
  X(barrier_forgotten, "no membarrier before the look at the hazard slots")                             \
  X(barrier_thought_needless, "no membarrier when some threads wait, instead of all")                   \
  X(hazard_cleared_early, "a writer leaves its hazard slot before it writes")                           \
  X(hazard_not_entered, "a writer does not enter its hazard slot")                                      \
  X(hazard_not_awaited, "who takes a line does not wait for its writers")                               \
  X(fenced_bit_ignored, "a writer of a fenced line does not fence")                                     \
  X(readers_not_told, "readers are not told that a line was taken")                                     \
  X(told_not_looked_at, "a reader does not look whether it was told")                                   \
  X(told_reset_late, "a reader forgets what it is told while it reads")                                 \
  X(run_taken_without_hiding, "lines of a run are given away while threads may still hit them")         \
  X(evicted_without_quiesce, "an evicted line is given back under its writers' hands")                  \
  X(wakeup_lost, "a thread whose operation is done is not woken")                                       \
  X(last_one_told, "of several threads whose operations are done one is woken")                         \
  X(slept_without_second_look, "a thread goes to sleep without a look at what came meanwhile")          \
  X(call_answer_not_told, "who asked another node for memory is not woken by the answer")               \
  X(unlock_not_told, "an unlock does not tell those who wait")                                          \
  X(failed_lock_not_told, "a lock that was taken in vain is given up without a word to those who wait") \
  X(lock_without_permission, "a lock is taken without a look whether the line is here")                 \
  X(slot_reused_early, "a slot is used again before the home has acknowledged the line that it held")   \
  X(slot_not_released, "a slot is lost when its line goes")                                             \
  X(starved_forgotten, "a line that waits for a slot is not asked for again")                           \
  X(request_dropped, "a request that must wait at the home is dropped")                                 \
  X(epoch_not_checked, "a message of an earlier membership is worked on")                               \
  X(run_in_first_slot, "all lines of a run go to the slot of the first")                                \
  X(larger_line_cut, "of a larger line no more is sent than a line of the heap has")                    \
  X(region_not_emptied, "the lines of a region change while this node has some of the old size")        \
  X(version_not_taken, "a large write does not take the line's version")                                \
  X(version_not_compared, "a large read does not look whether the version has changed")                 \
  X(owner_not_marked, "the home does not mark a line that another node owns")                           \
  X(in_place_not_compared, "what was read in place is believed, whatever its home did meanwhile")       \
  X(in_place_under_lock, "a line is read in place while a writer of its home holds the lock")           \
  X(in_place_beside_queue, "a line is read in place while a write of this node waits for it")           \
  X(refused_write_dropped, "a write that the home could not do is taken for done")                      \
  X(small_write_cut, "the home does the first bytes of another node's write and no more")               \
  X(guard_not_compared, "the home does a guarded write whatever the guard is")                          \
  X(operator_not_compared, "operands are combined by another operator than the line's")                 \
  X(operands_not_cleared, "operands are combined with what stood in the slot before")                   \
  X(operands_dropped, "the home does not take the operands that are returned to it")                    \
  X(wide_operand_torn, "wide operands are combined by several threads at once")                         \
  X(wide_merge_not_alone, "the home takes wide operands while its threads combine theirs")              \
  X(fence_does_not_wait, "a fence returns while writes are under way")                                  \
  X(atomic_before_writes, "an atomic does not wait for the thread's writes")                            \
  X(tso_does_not_wait, "a TSO write returns before it is done")                                         \
  X(function_not_alone, "threads may hit a line while a function for atomic() runs on it")              \
  X(memory_not_zeroed, "memory that was used before is given out as it is")                             \
  X(memory_given_twice, "a block that was given out is not marked as taken")                            \
  X(barrier_released_early, "the barrier opens when all but one have come")                             \
  X(death_not_noticed, "a wait does not end when a node has died")                                      \
  X(write_of_the_dead_leaks, "a write that cannot be done any more is never given up")                  \
  X(element_unlock_before_fence, "an element is unlocked while the thread's writes are under way")      \
  X(element_writer_taken_for_reader, "an element's home takes a writer for a reader")                   \
  X(element_death_frees, "an element is given out again when its writer's node dies")                   \
  X(element_answer_not_told, "who waits for an element is not woken by the answer")                     \
  X(log_image_forgotten, "the first write of an owner in a tenure is logged without the line")          \
  X(log_line_not_taken, "the home does not log a line that comes back")                                 \
  X(log_return_acked_early, "a return is acknowledged before the log of the home is on the disk")       \
  X(log_sync_not_awaited, "in mode power nobody waits for the disk")                                    \
  X(log_shown_unsettled, "in mode power others see a write before it is on the disk")                   \
  X(log_owner_not_reported, "a home that is back is not told which of its lines a node has written")    \
  X(log_holders_not_reported, "a home that is back is not told who has locked its elements")            \
  X(log_waiters_not_asked, "who waits for an element is not asked for again when its home is back")     \
  X(log_arrival_kept, "a node that crashed in a barrier counts as if it were there")

enum class Fault : std::uint8_t {
  none,
#define ATOLL_X(name, what) name,
  ATOLL_FAULTS(ATOLL_X)
#undef ATOLL_X
};

/// The fault that this process makes, chosen once at its start.
inline Fault chosen = Fault::none;
/// False: there is no such fault.
[[nodiscard]] bool choose(std::string_view name) noexcept;
[[nodiscard]] std::string_view name_of(Fault fault) noexcept;
void for_each_fault(const std::function<void(std::string_view name, std::string_view what)>& f);

/// What happens at the points; the simulator puts its own in.
struct Hooks {
  std::function<void()> point;          // another thread may run here
  std::function<void()> give_way;       // another thread must
  std::function<bool()> store_is_late;  // do the others see a plain store only after a while?
};
inline Hooks hooks;

void point();
void give_way();

/// A plain store to a hazard slot, as a processor does it: others may not see it until its thread fences, leaves the
/// slot, or a membarrier is issued.
void store_hazard(std::uint64_t& slot, std::uint64_t address);
void leave_hazard(std::uint64_t& slot);
void drain_stores();

}  // namespace atoll::lab

#define ATOLL_FAULT(name) (::atoll::lab::chosen == ::atoll::lab::Fault::name)
#define ATOLL_POINT() ::atoll::lab::point()
#define ATOLL_GIVE_WAY() ::atoll::lab::give_way()
