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
  kLockOpsDeath = 16,  // one node dies, and each of the others learns of it some time later
  kLockOpsAll = 31,
};

struct LockWorldOptions {
  unsigned nodes = 3;
  unsigned elements = 1;  // element e has its home at node e mod nodes
  unsigned threads = 1;   // per node
  std::uint8_t ops = kLockOpsAll;
  std::uint32_t most_requests = coherence::ElementLocks::kMostRequests;  // of one node at one home
  const coherence::ElementTable* table = &coherence::kElementTable;
  coherence::ElementLocks::Coverage* coverage = nullptr;
};

enum class LockStepKind : std::uint8_t { kAsk, kUnlock, kCancel, kDeliver, kDie, kNotice };

/// One thing that may happen next.
struct LockStep {
  LockStepKind kind = LockStepKind::kAsk;
  std::uint8_t node = 0;  // whose thread; who receives, dies or notices
  std::uint8_t peer = 0;  // from whom; who has died
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
  enum class Kind : std::uint8_t { kRequest, kRelease, kAnswer };
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
  };

  [[nodiscard]] unsigned home_of(unsigned element) const noexcept { return element % options_.nodes; }
  [[nodiscard]] static GlobalAddress address_of(unsigned element) noexcept;
  [[nodiscard]] static unsigned element_of(GlobalAddress address) noexcept;
  [[nodiscard]] static std::uint8_t ticket_of(unsigned thread, unsigned element, unsigned generation) noexcept;
  [[nodiscard]] Actor& actor_of(unsigned node, unsigned ticket) noexcept;
  [[nodiscard]] Party party_of(unsigned node, unsigned thread, unsigned element) const noexcept;
  [[nodiscard]] bool is_used(unsigned node, unsigned ticket, unsigned element) const;
  [[nodiscard]] int free_generation(unsigned node, unsigned thread, unsigned element) const;
  [[nodiscard]] bool is_gone_for(unsigned node, unsigned other) const noexcept;

  void ask(const LockStep& step);
  void let_go(unsigned node, unsigned thread, unsigned element);
  void send(unsigned from, unsigned to, const Message& message);
  void receive(unsigned at, unsigned from, const Message& message);
  void request_at(unsigned home, const Party& party, unsigned element, bool exclusive, bool is_try);
  void release_at(unsigned home, const Party& party, unsigned element);
  void answered(unsigned node, unsigned ticket, coherence::ElementAnswer answer);
  void die(unsigned node);
  void notice(unsigned node);
  void judge_answer(const Party& to, unsigned element, coherence::ElementAnswer answer, NodeId dead);
  void judge_grant(const Party& to, unsigned element);
  void check_book(unsigned element);
  void check_actors(unsigned element);
  [[nodiscard]] bool is_quiet() const;
  void violate(std::string what);

  LockWorldOptions options_;
  std::deque<Home> homes_;
  std::array<std::array<std::array<Actor, kMaxElements>, kMaxLockThreads>, kMaxLockNodes> actors_{};
  std::array<std::array<std::deque<Message>, kMaxLockNodes>, kMaxLockNodes> channels_;  // from, to
  std::array<Seen, kMaxElements> seen_;
  unsigned dead_ = kMaxLockNodes;                                          // who, if anybody
  std::array<bool, kMaxLockNodes> noticed_{};                              // by each of the others
  bool asks_exclusive_ = false, asks_try_ = false, was_answered_ = false;  // the request that a home works on
  std::string violation_;
};

}  // namespace atoll::explorer
