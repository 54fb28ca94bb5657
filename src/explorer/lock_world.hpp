// A small cluster around the real lock tables, for element locks: its threads, its messages, and what must hold.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "coherence/element_locks.hpp"

namespace atoll::explorer {

inline constexpr unsigned kMaxLockNodes = 3;
inline constexpr unsigned kMaxLockThreads = 2;
inline constexpr unsigned kMaxElements = 2;

enum LockOps : std::uint8_t {
  kLockOpsRead = 1,
  kLockOpsWrite = 2,
  kLockOpsTry = 4,
  kLockOpsCancel = 8,  // a thread stops waiting
  kLockOpsDeath = 16,  // a node dies, and each of the others learns of it some time later
  kLockOpsAll = 31,
  kLockOpsReturn = 32,  // logged: nodes that have died come back
  kLockOpsLogged = 63,
};

/// Mistakes that are not in the table, but in what nodes do around it when one of them is back.
enum class LockSlip : std::uint8_t {
  kNone,
  kOpensEarly,        // a home opens when the first of the others has reported
  kNothingReported,   // what a node holds is not reported to the home that is back
  kReportedToWrite,   // it is reported as if it were held to write
  kAsksEarly,         // a home is asked before it is open
  kNotAskedAgain,     // those who wait do not ask again when the home is open
  kUnlockNotTold,     // what is unlocked between report and opening is not told
  kOldGrantBelieved,  // an answer of the home that died is taken after that
};

struct LockWorldOptions {
  unsigned nodes = 3;
  unsigned elements = 1;  // element e has its home at node e mod nodes
  unsigned threads = 1;   // per node
  std::uint8_t ops = kLockOpsAll;
  unsigned most_deaths = 1;  // in all
  LockSlip slip = LockSlip::kNone;
  std::uint32_t most_requests = coherence::ElementLocks::kMostRequests;  // of one node at one home
  const coherence::ElementTable* table = &coherence::kElementTable;
  coherence::ElementLocks::Coverage* coverage = nullptr;
};

enum class LockStepKind : std::uint8_t { kAsk, kUnlock, kCancel, kDeliver, kDie, kNotice, kReturn, kReport };

/// One thing that may happen next.
struct LockStep {
  LockStepKind kind = LockStepKind::kAsk;
  std::uint8_t node = 0;  // whose thread; who receives, dies, notices, returns or reports
  std::uint8_t peer = 0;  // from whom; who has died; to whom
  std::uint8_t thread = 0;
  std::uint8_t element = 0;
  bool exclusive = false;
  bool is_try = false;

  [[nodiscard]] std::uint16_t pack() const noexcept;
  [[nodiscard]] static LockStep unpack(std::uint16_t bits) noexcept;
};

/// Threads ask for each element independently of the others: there is one actor for each (thread, element). Messages
/// between two nodes stay in order. A ticket is used again when nothing in the world has it any more, so that there are
/// finitely many states; an actor has at most kGenerations tickets under way.
///
/// In a logged world a node that has died comes back when all who live know of its death. Who is back reports (it holds
/// nothing), and is reported to by each of the others: first what they hold of its elements, then that this was all.
/// When it has that of all, it is open, and says so; its own threads begin, and others ask for what they wait for.
///
/// Thread-safety: none.
class LockWorld final {
 public:
  explicit LockWorld(const LockWorldOptions& options);

  void enumerate(std::vector<LockStep>& steps) const;
  void apply(const LockStep& step);
  /// Looks at everything; sets `violation` when something is wrong.
  void check();
  [[nodiscard]] bool violated() const noexcept { return !violation_.empty(); }
  [[nodiscard]] const std::string& violation() const noexcept { return violation_; }

  void encode(std::vector<std::uint8_t>& bytes) const;
  void decode(std::span<const std::uint8_t> bytes);
  [[nodiscard]] std::string describe(const LockStep& step) const;
  [[nodiscard]] std::string summary() const;

 private:
  using Party = coherence::Party;
  static constexpr unsigned kGenerations = 2;
  enum class Phase : std::uint8_t { kIdle, kWaiting, kHolding };
  struct Actor {
    Phase phase = Phase::kIdle;
    bool exclusive = false;
    bool is_try = false;
    std::uint8_t generation = 0;
  };
  /// What a node knows of another.
  enum class Peer : std::uint8_t {
    kOpen,      // it may be asked
    kDead,      // nothing is sent to it
    kReported,  // it is back, and knows what is held here of its elements; it is not open yet
  };
  enum class Kind : std::uint8_t { kRequest, kRelease, kAnswer, kReinstate, kReportEnd, kOpen };
  struct Message {
    Kind kind = Kind::kRequest;
    std::uint8_t ticket = 0;
    std::uint8_t element = 0;
    bool exclusive = false;
    bool is_try = false;
    coherence::ElementAnswer answer = coherence::ElementAnswer::kGranted;
  };
  /// One node's lock table, which speaks to the world.
  struct Home final : coherence::ElementEnv {
    Home(LockWorld& around, unsigned id, const LockWorldOptions& options)
        : world(around), node(id), locks(*this, *options.table, options.coverage, options.most_requests) {}
    void answer(const Party& to, GlobalAddress element, coherence::ElementAnswer answer, NodeId dead) override;
    [[nodiscard]] bool returns() const noexcept override { return world.is_logged(); }
    void fault(const Party& from, GlobalAddress element, const char* why) override;
    void broken(GlobalAddress element, const char* what) override;

    LockWorld& world;
    unsigned node;
    coherence::ElementLocks locks;
  };
  /// What the home has said and was told, as somebody outside it sees it.
  struct Seen {
    struct One {
      Party party;
      bool exclusive;
    };
    std::vector<One> holding;
    std::vector<One> waiting;  // in the order in which they came
    NodeId lost = kNoNode;     // whose death has left it locked

    [[nodiscard]] bool is_written() const noexcept;
    void hold(const Party& party, bool exclusive);
  };

  [[nodiscard]] unsigned home_of(unsigned element) const noexcept { return element % options_.nodes; }
  [[nodiscard]] static GlobalAddress address_of(unsigned element) noexcept;
  [[nodiscard]] static unsigned element_of(GlobalAddress address) noexcept;
  [[nodiscard]] static std::uint8_t ticket_of(unsigned thread, unsigned element, unsigned generation) noexcept;
  [[nodiscard]] Actor& actor_of(unsigned node, unsigned ticket) noexcept;
  [[nodiscard]] Party party_of(unsigned node, unsigned thread, unsigned element) const noexcept;
  [[nodiscard]] bool is_used(unsigned node, unsigned ticket, unsigned element) const;
  [[nodiscard]] int free_generation(unsigned node, unsigned thread, unsigned element) const;
  [[nodiscard]] bool is_logged() const noexcept { return (options_.ops & kLockOpsReturn) != 0; }
  [[nodiscard]] bool is_gone_for(unsigned node, unsigned other) const noexcept {
    return knows_[node][other] == Peer::kDead;
  }

  void enumerate_thread(unsigned node, unsigned thread, std::vector<LockStep>& steps) const;
  void enumerate_deaths(unsigned node, std::vector<LockStep>& steps) const;
  void ask(const LockStep& step);
  void send_request(unsigned node, unsigned thread, unsigned element);
  void let_go(unsigned node, unsigned thread, unsigned element);
  void send(unsigned from, unsigned to, const Message& message);
  void receive(unsigned at, unsigned from, const Message& message);
  void request_at(unsigned home, const Party& party, unsigned element, bool exclusive, bool is_try);
  void release_at(unsigned home, const Party& party, unsigned element);
  void answered(unsigned node, unsigned ticket, coherence::ElementAnswer answer);
  void die(unsigned node);
  void notice(unsigned node, unsigned dead);
  [[nodiscard]] bool may_return(unsigned node) const;
  void come_back(unsigned node);
  void report(unsigned node, unsigned home);
  void reinstate_at(unsigned home, const Party& party, unsigned element, bool exclusive);
  void reported(unsigned home, unsigned from);
  void opened(unsigned node, unsigned home);
  void judge_answer(const Party& to, unsigned element, coherence::ElementAnswer answer, NodeId dead);
  void judge_grant(const Party& to, unsigned element);
  void check_book(unsigned element);
  void check_actors(unsigned element);
  void check_actor(unsigned node, unsigned thread, unsigned element);
  void check_rest();
  [[nodiscard]] bool nothing_moves() const;
  [[nodiscard]] bool is_quiet(unsigned home) const;
  void violate(std::string what);

  LockWorldOptions options_;
  std::deque<Home> homes_;
  std::array<std::array<std::array<Actor, kMaxElements>, kMaxLockThreads>, kMaxLockNodes> actors_{};
  std::array<std::array<std::deque<Message>, kMaxLockNodes>, kMaxLockNodes> channels_;  // from, to
  std::array<Seen, kMaxElements> seen_;
  template <typename T>
  using OfEach = std::array<T, kMaxLockNodes>;
  unsigned deaths_ = 0;
  OfEach<bool> down_{};                                           // who is dead
  OfEach<bool> closed_{};                                         // who is back, and not open
  OfEach<OfEach<Peer>> knows_{};                                  // by whom, of whom
  OfEach<OfEach<bool>> unaware_{};                                // who does not know yet of whose death
  OfEach<OfEach<bool>> heard_{};                                  // of a home that is back: who has reported to it
  std::array<NodeId, kMaxElements> half_done_{kNoNode, kNoNode};  // who died while it held it to write, and is not back
  bool asks_exclusive_ = false, asks_try_ = false, was_answered_ = false;  // the request that a home works on
  std::string violation_;
};

}  // namespace atoll::explorer
