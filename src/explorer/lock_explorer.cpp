#include "explorer/lock_explorer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "explorer/visited.hpp"

namespace atoll::explorer {
namespace {

/// One walk, breadth first: the first violation found has the shortest chart. That nobody is forgotten needs no look
/// along the way to rest: in every state the first of those who wait has a holder in its way, whose unlock is a step.
///
/// Thread-safety: none.
class LockWalk {
 public:
  explicit LockWalk(const LockExploreOptions& options) : options_(options), world_(counted()) {}

  LockExploreResult run() {
    world_.encode(bytes_);
    next_.emplace_back(visited_.insert(bytes_, Visited::kNone, 0).first, bytes_);
    while (!next_.empty() && !result_.violation && visited_.size() < options_.max_states) {
      std::swap(current_, next_);
      next_.clear();
      for (; !current_.empty() && visited_.size() < options_.max_states; current_.pop_front()) {
        if (!expand(current_.front().first, current_.front().second)) break;
      }
      ++result_.depth;
    }
    result_.states = visited_.size();
    result_.complete = !result_.violation && next_.empty() && current_.empty();
    return std::move(result_);
  }

 private:
  using State = std::pair<std::uint32_t, std::vector<std::uint8_t>>;

  LockWorldOptions counted() {
    LockWorldOptions world = options_.world;
    world.coverage = &result_.coverage;
    return world;
  }

  bool expand(std::uint32_t number, const std::vector<std::uint8_t>& state) {
    world_.decode(state);
    world_.enumerate(steps_);
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (i != 0) world_.decode(state);
      world_.apply(steps_[i]);
      ++result_.transitions;
      world_.check();
      if (world_.violated()) return report(number, steps_[i]);
      world_.encode(bytes_);
      const auto [target, is_new] = visited_.insert(bytes_, number, steps_[i].pack());
      if (is_new) next_.emplace_back(target, bytes_);
    }
    return true;
  }

  /// Always false, so that the caller can stop with it.
  bool report(std::uint32_t number, const LockStep& last) {
    std::vector<LockStep> path = {last};
    for (; visited_[number].parent != Visited::kNone; number = visited_[number].parent) {
      path.push_back(LockStep::unpack(visited_[number].step));
    }
    std::reverse(path.begin(), path.end());
    result_.violated = world_.violation();
    LockWorld world(options_.world);
    std::string text;
    for (std::size_t i = 0; i < path.size(); ++i) {
      const std::string what = world.describe(path[i]);
      world.apply(path[i]);
      text += fmt::format("{:3}  {:<52} {}\n", i + 1, what, world.summary());
    }
    result_.violation = text + "     violated: " + result_.violated + "\n";
    return false;
  }

  const LockExploreOptions& options_;
  LockExploreResult result_;
  LockWorld world_;
  Visited visited_;
  std::deque<State> current_;
  std::deque<State> next_;
  std::vector<LockStep> steps_;
  std::vector<std::uint8_t> bytes_;
};

using coherence::ElementAction;
using coherence::ElementEvent;
using coherence::ElementState;
using coherence::ElementTable;

void put(ElementTable& table, ElementState state, ElementEvent event, ElementState next,
         std::initializer_list<ElementAction> actions) {
  auto& cell = table.at(state, event);
  cell.next = next;
  cell.actions = {};
  cell.action_count = 0;
  for (const ElementAction action : actions) cell.actions[cell.action_count++] = action;
}

constexpr std::uint8_t kReturns = kLockOpsRead | kLockOpsWrite | kLockOpsDeath | kLockOpsReturn;

// clang-format off
#define S ElementState
#define E ElementEvent
#define A ElementAction
constexpr LockMutant kLockMutants[] = {
  {"writer-beside-readers", "A writer is let in while readers are.", 1,
   [](ElementTable& t) { put(t, S::kReading, E::kWrite, S::kReading, {A::kGrant}); }},
  {"try-beside-readers", "A writer that tries is let in while readers are.", 1,
   [](ElementTable& t) { put(t, S::kReading, E::kTryWrite, S::kReading, {A::kGrant}); }},
  {"reader-beside-writer", "A reader is let in while a writer is.", 1,
   [](ElementTable& t) { put(t, S::kWriting, E::kRead, S::kWriting, {A::kGrant}); }},
  {"reader-overtakes", "A reader does not wait behind a writer that waits.", 1,
   [](ElementTable& t) { put(t, S::kReadingQueued, E::kRead, S::kReadingQueued, {A::kGrant}); }},
  {"try-overtakes", "A reader that tries is let in before a writer that waits.", 1,
   [](ElementTable& t) { put(t, S::kReadingQueued, E::kTryRead, S::kReadingQueued, {A::kGrant}); }},
  {"try-refused-needlessly", "A reader that tries is refused because others read.", 1,
   [](ElementTable& t) { put(t, S::kReading, E::kTryRead, S::kReading, {A::kRefuse}); }},
  {"try-waits", "A try that meets a writer is queued.", 1,
   [](ElementTable& t) { put(t, S::kWriting, E::kTryWrite, S::kWritingQueued, {A::kQueue}); }},
  {"request-dropped", "A request that must wait is forgotten.", 1,
   [](ElementTable& t) { put(t, S::kWritingQueued, E::kRead, S::kWritingQueued, {}); }},
  {"waiting-refused", "A request that must wait is refused.", 1,
   [](ElementTable& t) { put(t, S::kWriting, E::kRead, S::kWriting, {A::kRefuse}); }},
  {"unlock-wakes-nobody", "The last reader goes, and nobody looks who waits.", 1,
   [](ElementTable& t) { put(t, S::kReadingQueued, E::kReleaseLast, S::kPassing, {A::kDrop}); }},
  {"writer-wakes-nobody", "The writer goes, and nobody looks who waits.", 1,
   [](ElementTable& t) { put(t, S::kWritingQueued, E::kReleaseLast, S::kPassing, {A::kDrop}); }},
  {"unlock-forgets-those-who-wait", "The writer's unlock frees the element although others wait.", 1,
   [](ElementTable& t) { put(t, S::kWritingQueued, E::kReleaseLast, S::kFree, {A::kDrop}); }},
  {"one-reader-at-a-time", "Of several readers whose turn it is one is let in.", 1,
   [](ElementTable& t) { put(t, S::kPassing, E::kTurnRead, S::kReadingQueued, {A::kAdmit}); }},
  {"readers-behind-a-withdrawn-writer", "A writer gives up waiting, and the readers behind it are forgotten.", 1,
   [](ElementTable& t) { put(t, S::kReadingQueued, E::kWithdraw, S::kReadingQueued, {A::kDrop}); }},
  {"admitted-with-the-readers", "The writer behind readers is let in with them.", 2,
   [](ElementTable& t) { put(t, S::kReadingQueued, E::kTurnWriteLast, S::kReading, {A::kAdmit}); }},
  {"withdrawal-ignored", "Who gives up waiting stays in the queue.", 1,
   [](ElementTable& t) { put(t, S::kWritingQueued, E::kWithdrawLast, S::kWritingQueued, {}); }},
  {"unlock-ignored", "The unlock of one of several readers is not written down.", 1,
   [](ElementTable& t) { put(t, S::kReading, E::kRelease, S::kReading, {}); }},
  {"first-unlock-taken-for-the-last", "One of several readers goes, and the next writer is let in.", 1,
   [](ElementTable& t) { put(t, S::kReadingQueued, E::kRelease, S::kReadingQueued, {A::kDrop, A::kAdmit}); }},
  {"death-taken-for-unlock", "A writer's node dies, and the next one sees its update half done.", 1,
   [](ElementTable& t) { put(t, S::kWritingQueued, E::kHolderDied, S::kPassing, {A::kDrop, A::kTurn}); }},
  {"death-frees", "A writer's node dies, and the element is free.", 1,
   [](ElementTable& t) { put(t, S::kWriting, E::kHolderDied, S::kFree, {A::kDrop}); }},
  {"death-not-told", "A writer's node dies, and those who wait are not told.", 1,
   [](ElementTable& t) { put(t, S::kWritingQueued, E::kHolderDied, S::kAbandoned, {A::kMourn, A::kDrop}); }},
  {"abandoned-given-out", "An element whose writer has died is given to the next who tries.", 1,
   [](ElementTable& t) { put(t, S::kAbandoned, E::kTryWrite, S::kWriting, {A::kGrant}); }},
  {"abandoned-waited-for", "Who wants an element whose writer has died waits for ever.", 1,
   [](ElementTable& t) { put(t, S::kAbandoned, E::kWrite, S::kAbandoned, {A::kQueue}); }},
  {"wrong-death", "Who wants an element whose writer has died is told of something else.", 1,
   [](ElementTable& t) { put(t, S::kAbandoned, E::kRead, S::kAbandoned, {A::kRefuse}); }},
  {"stranger-unlocks", "A withdrawal that crossed its refusal lets the next one in.", 1,
   [](ElementTable& t) { put(t, S::kWritingQueued, E::kStranger, S::kWritingQueued, {A::kAdmit}); }},
  // ---- where nodes come back ----
  {"returning-death-frees", "A writer's node dies, and the element is free before it is back.", 1,
   [](ElementTable& t) { put(t, S::kWriting, E::kHolderAway, S::kFree, {A::kDrop}); }, kReturns},
  {"returning-death-taken-for-unlock", "A writer's node dies, and the next one does not wait for its return.", 1,
   [](ElementTable& t) { put(t, S::kWritingQueued, E::kHolderAway, S::kPassing, {A::kDrop, A::kTurn}); }, kReturns},
  {"returning-death-told", "A writer's node dies, and those who wait are refused although it will be back.", 1,
   [](ElementTable& t) { put(t, S::kWritingQueued, E::kHolderAway, S::kAway, {A::kMourn, A::kDrop, A::kRefuseWaiting}); }, kReturns},
  {"away-given-out", "An element whose writer is away is given to the next who wants it.", 1,
   [](ElementTable& t) { put(t, S::kAway, E::kWrite, S::kWriting, {A::kGrant}); }, kReturns},
  {"away-refused", "Who wants an element whose writer is away is refused.", 1,
   [](ElementTable& t) { put(t, S::kAway, E::kRead, S::kAway, {A::kRefuse}); }, kReturns},
  {"away-tried-and-waited-for", "A try waits for the return of a writer's node.", 1,
   [](ElementTable& t) { put(t, S::kAway, E::kTryWrite, S::kAwayQueued, {A::kQueue}); }, kReturns | kLockOpsTry},
  {"away-waiter-lost", "Who wants an element whose writer is away, and for which others wait, is forgotten.", 1,
   [](ElementTable& t) { put(t, S::kAwayQueued, E::kWrite, S::kAwayQueued, {}); }, kReturns},
  {"away-withdrawal-ignored", "Who gives up waiting for a return stays in the queue.", 1,
   [](ElementTable& t) { put(t, S::kAwayQueued, E::kWithdrawLast, S::kAwayQueued, {}); }, kReturns | kLockOpsCancel},
  {"away-never-freed", "A writer's node is back, and its element stays locked.", 1,
   [](ElementTable& t) { put(t, S::kAway, E::kHolderBack, S::kAway, {}); }, kReturns},
  {"return-not-noticed", "A writer's node is back, and those who wait for that wait on.", 1,
   [](ElementTable& t) { put(t, S::kAwayQueued, E::kHolderBack, S::kAwayQueued, {}); }, kReturns},
  {"return-wakes-nobody", "A writer's node is back, and nobody looks who waits.", 1,
   [](ElementTable& t) { put(t, S::kAwayQueued, E::kHolderBack, S::kPassing, {A::kForgetDeath}); }, kReturns},
  {"reinstated-as-waiting", "Who holds an element of a home that is back is queued there.", 1,
   [](ElementTable& t) { put(t, S::kFree, E::kReinstateWrite, S::kPassing, {A::kQueue}); }, kReturns},
  {"reinstated-and-granted", "Who holds an element of a home that is back is granted it again.", 1,
   [](ElementTable& t) { put(t, S::kFree, E::kReinstateWrite, S::kWriting, {A::kGrant}); }, kReturns},
  {"reinstatement-ignored", "Who holds an element of a home that is back is not written down.", 1,
   [](ElementTable& t) { put(t, S::kFree, E::kReinstateWrite, S::kFree, {}); }, kReturns},
  {"second-reader-not-reinstated", "Of several readers of an element of a home that is back one is written down.", 1,
   [](ElementTable& t) { put(t, S::kReading, E::kReinstateRead, S::kReading, {}); }, kReturns},
  {"home-opens-early", "A home that is back grants before all have said what they hold.", 1,
   [](ElementTable&) {}, kReturns, LockSlip::kOpensEarly},
  {"held-not-reported", "A home that is back is not told what is held.", 1,
   [](ElementTable&) {}, kReturns, LockSlip::kNothingReported},
  {"reader-reported-as-writer", "A lock to read is reported as one to write.", 1,
   [](ElementTable&) {}, kReturns, LockSlip::kReportedToWrite},
  {"home-asked-early", "A home that is back is asked before it is open.", 1,
   [](ElementTable&) {}, kReturns, LockSlip::kAsksEarly},
  {"not-asked-again", "Who waits when the home dies does not ask again when it is open.", 1,
   [](ElementTable&) {}, kReturns, LockSlip::kNotAskedAgain},
  {"unlock-after-report-not-told", "What is unlocked after it was reported, and before the home is open, stays locked.", 1,
   [](ElementTable&) {}, kReturns, LockSlip::kUnlockNotTold},
  {"old-grant-believed", "A grant is taken that was under way when its home died.", 1,
   [](ElementTable&) {}, kReturns, LockSlip::kOldGrantBelieved},
};
#undef S
#undef E
#undef A
// clang-format on

}  // namespace

std::vector<std::string> LockExploreResult::unused_rows(const ElementTable& table) const {
  std::vector<std::string> out;
  for (std::size_t s = 0; s < ElementTable::kStates; ++s) {
    for (std::size_t e = 0; e < ElementTable::kEvents; ++e) {
      if (table.cells[s][e].never || coverage[s][e] != 0) continue;
      out.push_back(fmt::format("{} + {}", to_string(ElementState(s)), to_string(ElementEvent(e))));
    }
  }
  return out;
}

LockExploreResult explore_locks(const LockExploreOptions& options) {
  return LockWalk(options).run();
}

void make_mistake(const LockMutant& mutant, ElementTable& table, LockWorldOptions& world) {
  mutant.apply(table);
  world.table = &table;
  world.threads = std::max(world.threads, mutant.threads);
  world.slip = mutant.slip;
  world.ops = mutant.ops;
}

std::span<const LockMutant> lock_mutants() noexcept {
  return kLockMutants;
}

const LockMutant* find_lock_mutant(std::string_view name) noexcept {
  const auto* const found = std::find_if(std::begin(kLockMutants), std::end(kLockMutants),
                                         [&](const LockMutant& mutant) { return mutant.name == name; });
  return found == std::end(kLockMutants) ? nullptr : found;
}

}  // namespace atoll::explorer
