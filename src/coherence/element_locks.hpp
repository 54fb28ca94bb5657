// The locks of a home's elements: who holds them and who waits. They know nothing of lines.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>

#include "atoll/address.hpp"
#include "atoll/status.hpp"
#include "coherence/element_table.hpp"
#include "wire/message.hpp"

namespace atoll::coherence {

/// One request of one thread, from the question to the unlock. The ticket is unique among those of its node.
struct Party {
  NodeId node = kNoNode;
  std::uint64_t ticket = 0;
  friend auto operator<=>(const Party&, const Party&) = default;
};

enum class ElementAnswer : std::uint8_t {
  kGranted,    // until the party lets go
  kRefused,    // a try, and somebody is in the way
  kAbandoned,  // the writer's node has died
  kExcess,     // the node has as many requests here as it may
};
static_assert(std::uint32_t(ElementAnswer::kExcess) + 1 == wire::kElementAnswers);
static_assert(std::uint32_t(ElementAnswer::kAbandoned) == wire::kElementAbandoned);

/// What the lock table asks of the world around it.
class ElementEnv {
 public:
  virtual ~ElementEnv() = default;
  /// Tells a party what became of its request. `dead`: whose death, with kAbandoned. REQUIRES: does not call back.
  virtual void answer(const Party& to, GlobalAddress element, ElementAnswer answer, NodeId dead) = 0;
  /// Logged: will a node that has died be back? The same for all, and for ever.
  [[nodiscard]] virtual bool returns() const noexcept { return false; }
  /// A peer sent what cannot be; nothing has changed, and nothing of the table is in use.
  virtual void fault(const Party& from, GlobalAddress element, const char* why) = 0;
  /// An invariant does not hold: a bug of ours.
  virtual void broken(GlobalAddress element, const char* what) = 0;
};

/// What the table knows of one request.
struct ElementRequest {
  GlobalAddress element;
  bool exclusive = false;
  bool holds = false;      // or waits
  std::uint64_t turn = 0;  // its key among those who wait

  friend bool operator==(const ElementRequest&, const ElementRequest&) = default;
};

/// One element that somebody holds, waits for, or has left behind.
struct ElementEntry {
  ElementState state = ElementState::kFree;
  std::uint32_t holders = 0;
  bool exclusive = false;                  // the holder writes
  NodeId dead = kNoNode;                   // whose death has left it locked
  std::map<std::uint64_t, Party> waiting;  // in the order in which they came

  friend bool operator==(const ElementEntry&, const ElementEntry&) = default;
};

/// All that there is to know; a copy of it is a copy of the table. Ordered maps: a peer chooses addresses and tickets,
/// and could make a hash table as slow as a list.
struct ElementBook {
  std::map<std::uint64_t, ElementEntry> elements;  // by address
  std::map<Party, ElementRequest> requests;        // so that a node's stand together
  std::map<NodeId, std::uint32_t> requests_of;     // how many each node has
  bool closed = false;                             // this home is back, and does not know yet what others hold

  friend bool operator==(const ElementBook&, const ElementBook&) = default;
};

/// The lock table of one home. First come, first served; readers share.
///
/// Thread-safety: none; the caller holds the node's engine lock.
/// Invariants:
///   1. An element has an entry while somebody holds it or waits for it, or its writer has died (and is not back); else
///      none.
///   2. A writer that holds an element is its only holder.
///   3. Somebody waits only while somebody holds, or its writer is away; when readers hold, the first who waits is a
///      writer.
///   4. A node has at most kMostRequests requests here.
///   5. A home that is back answers nobody until it is open. Before that, and only then, locks are reinstated.
class ElementLocks {
 public:
  static constexpr std::uint32_t kMostRequests = 1U << 16;
  using Coverage = std::array<std::array<std::uint64_t, ElementTable::kEvents>, ElementTable::kStates>;

  explicit ElementLocks(ElementEnv& env, const ElementTable& table = kElementTable, Coverage* coverage = nullptr,
                        std::uint32_t most_requests = kMostRequests) noexcept
      : env_(env), table_(table), coverage_(coverage), most_requests_(most_requests) {}

  /// Somebody wants the lock. Answered through the environment, at once or later; a try always at once.
  void request(const Party& party, GlobalAddress element, bool exclusive, bool is_try);
  /// An unlock, or the withdrawal of a request; which of the two it is, and whether there is anything to take back, may
  /// have been decided while it was under way. Nothing of the request is left, and it is not answered any more.
  void release(const Party& party, GlobalAddress element);
  /// Its read locks and its requests go; elements that it has locked to write are abandoned, or wait for its return.
  void node_died(NodeId node);
  /// Logged: a node that has died is back, and its program decides what its half-done updates mean. What it had locked
  /// to write goes to the next ones.
  void node_returned(NodeId node);

  /// Logged: this home has died and is back. REQUIRES: nothing was asked of it yet.
  void close() noexcept { book_.closed = true; }
  /// Somebody held the lock when this home died, and still does. It is not answered.
  void reinstate(const Party& party, GlobalAddress element, bool exclusive);
  /// All others have reinstated what they hold: from now on requests are taken.
  void open() noexcept { book_.closed = false; }

  [[nodiscard]] const ElementBook& book() const noexcept { return book_; }
  /// For the explorer, which goes back to states that it has seen.
  void restore(ElementBook book) { book_ = std::move(book); }

 private:
  struct Step {  // what the actions of one event work on
    GlobalAddress element;
    ElementEntry& entry;
    Party party;  // who asks or lets go
    bool exclusive = false;
  };
  /// The event, and then the turns that follow from it.
  void run(GlobalAddress element, const Party& party, bool exclusive, ElementEvent event);
  [[nodiscard]] bool apply(Step& step, ElementEvent event);
  void act(Step& step, ElementAction action, bool& turn);
  void hold(Step& step, const Party& party);
  void grant(Step& step, const Party& party);
  void drop(Step& step);
  void refuse_waiting(Step& step);
  void remember(const Step& step, std::uint64_t turn);
  void forget(const Party& party);
  [[nodiscard]] ElementEvent classify_release(const Party& party, const ElementEntry& entry) const;
  [[nodiscard]] ElementEvent classify_turn(const ElementEntry& entry) const;
  void set_state(Step& step, ElementState state);

  ElementEnv& env_;
  const ElementTable& table_;
  Coverage* coverage_;
  std::uint32_t most_requests_;
  ElementBook book_;
};

}  // namespace atoll::coherence
