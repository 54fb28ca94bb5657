// One node's world for tests of the core: what it does is written down in words.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "coherence/env.hpp"
#include "coherence/line_version.hpp"
#include "coherence/lock_word.hpp"
#include "coherence/protocol.hpp"

namespace atoll::coherence {

/// An operation that remembers what became of it.
struct TestOp : Op {
  using Op::Op;
  bool performed = false;
  std::optional<Errc> result;

  [[nodiscard]] bool done() const { return result == Errc::kOk; }
  [[nodiscard]] bool refused() const { return result == Errc::kRefused; }
};

/// One line at one node. Every effect is a line of text in `did`, in order.
class FakeEnv final : public Env {
 public:
  FakeEnv(NodeId self, NodeId nodes) : self_(self), nodes_(nodes) {}

  std::vector<std::string> did;
  std::vector<std::string> faults;
  std::vector<std::string> breaks;
  bool slots_left = true;
  bool logged = false;
  bool settled = true;
  std::uint64_t own_tenure = 0;
  NodeId nearest = kNoNode;  // the sharer to ask for its copy

  NodeId self() const noexcept override { return self_; }
  NodeId nodes() const noexcept override { return nodes_; }
  Cold& cold(const LineRef&) override {
    if (!cold_) cold_.emplace();
    return *cold_;
  }
  Cold* find_cold(const LineRef&) noexcept override { return cold_ ? &*cold_ : nullptr; }
  void drop_cold(const LineRef&) noexcept override { cold_.reset(); }

  void send(const LineRef&, NodeId to, const Message& message) override { note(message, to, ""); }
  void send_line(const LineRef&, NodeId to, std::uint32_t slot, const Message& message) override {
    note(message, to, fmt::format(" with data for slot {}", slot));
  }
  void send_home(const LineRef&, const Message& message) override { note(message, 0, " with data"); }
  void send_write(const LineRef&, const Op&, const Message& message) override { note(message, 0, " with the bytes"); }
  void quiesce(const LineRef&) override { did.emplace_back("quiesce"); }
  bool take_slot(const LineRef& ref) override {
    if (!slots_left) return false;
    ref.line->slot = 1 + kSlot;
    return true;
  }
  void release_slot(const LineRef& ref) noexcept override {
    ref.line->slot = 0;
    ref.line->operation.store(0, std::memory_order_relaxed);
  }
  void log_transfer(const LineRef&, NodeId owner) override { did.push_back(fmt::format("log owner {}", owner)); }
  void perform(const LineRef&, Op& op) override { static_cast<TestOp&>(op).performed = true; }
  void perform_for(const LineRef&, const Message& message) override {
    did.push_back(fmt::format("write for {}", message.from));
  }
  void clear_operands(const LineRef& ref) override {
    did.push_back(fmt::format("clear for {}", ref.line->operation.load(std::memory_order_relaxed)));
  }
  void merge(const LineRef&, const Message& message) override {
    did.push_back(fmt::format("merge from {} slot {}", message.from, message.slot));
  }
  void load(const LineRef&) override { did.emplace_back("load"); }
  NodeId sharer_to_ask(const LineRef&) override { return nearest; }
  void note_held(const LineRef&, bool held) override { did.emplace_back(held ? "held" : "not held"); }
  bool is_logged() const noexcept override { return logged; }
  std::uint64_t& tenure(const LineRef&) override { return own_tenure; }
  void take_home(const LineRef&, const Message& message) override {
    did.push_back(fmt::format("take from {} slot {}", message.from, message.slot));
  }
  void send_settled(const LineRef&, NodeId to, const Message& message) override { note(message, to, " when durable"); }
  bool is_settled(const LineRef&) override { return settled; }
  void complete(const LineRef&, Op& op, Errc result) override { static_cast<TestOp&>(op).result = result; }
  void fault(const LineRef&, const Message&, const char* why) override { faults.emplace_back(why); }
  void broken(const LineRef&, const char* what) override { breaks.emplace_back(what); }

  static constexpr std::uint32_t kSlot = 5;

 private:
  void note(const Message& message, NodeId to, const std::string& data) {
    const std::string tenure = message.tenure == 0 ? "" : fmt::format(" of {}", message.tenure);
    did.push_back(
        fmt::format("{}{}{} to {}{}", wire::to_string(message.kind), message.is_try ? " (try)" : "", tenure, to, data));
  }

  NodeId self_;
  NodeId nodes_;
  std::optional<Cold> cold_;
};

/// A line, its node and its protocol. The home is node 0 always.
class LineTest : public ::testing::Test {
 protected:
  LineTest(NodeId self, NodeId nodes) : env(self, nodes), protocol(env) {
    ref.address = GlobalAddress::make(0, 512);
    ref.line = &line;
    ref.hot = {line, nullptr, nullptr, 0};
    if (self == 0) ref.directory = &entry;
  }
  void TearDown() override {
    EXPECT_THAT(env.breaks, ::testing::IsEmpty());
    EXPECT_THAT(env.faults, ::testing::IsEmpty());
  }

  struct With {
    bool is_try = false;
    NodeId requester = kNoNode;  // the sender when not given
    std::uint32_t slot = 3;
    std::uint8_t operation = 0;
    std::uint64_t tenure = 0;
  };
  void receive(Kind kind, NodeId from) { receive(kind, from, With{}); }
  void receive(Kind kind, NodeId from, const With& with) {
    env.did.clear();
    const NodeId requester = with.requester == kNoNode ? from : with.requester;
    protocol.receive(ref, {kind, with.is_try, from, requester, with.slot, with.operation, with.tenure});
  }
  void submit(TestOp& op) {
    env.did.clear();
    protocol.submit(ref, op);
  }
  void unlock(bool exclusive) {
    env.did.clear();
    if (drop_lock(line.lock, exclusive)) protocol.unlocked(ref);
  }
  /// A message that no correct node sends: dropped, reported, nothing changed.
  void expect_fault(Kind kind, NodeId from) {
    receive(kind, from);
    EXPECT_EQ(env.faults.size(), 1U) << wire::to_string(kind);
    EXPECT_THAT(env.did, ::testing::IsEmpty());
    env.faults.clear();
  }
  [[nodiscard]] std::uint8_t access() const { return ref.hot.access(); }

  FakeEnv env;
  Line line;
  DirEntry entry;
  LineRef ref;
  Protocol protocol;
};

/// Node 0 of four, the home.
class HomeTest : public LineTest {
 protected:
  explicit HomeTest(NodeId nodes = 4) : LineTest(0, nodes) {}

  void shared_by(std::initializer_list<NodeId> nodes) {
    for (NodeId node : nodes) receive(Kind::kGetShared, node);
    EXPECT_EQ(entry.state, DirState::kShared);
  }
  void owned_by(NodeId node) {
    receive(Kind::kGetExclusive, node);
    EXPECT_EQ(entry.state, DirState::kDirty);
    EXPECT_EQ(entry.owner, node);
  }
};

/// Node 1 of four; the home is node 0.
class CacheTest : public LineTest {
 protected:
  CacheTest() : LineTest(1, 4) {}

  [[nodiscard]] CacheState state() const { return ref.state(); }
  void ask_shared() { submit(read); }
  void ask_exclusive() { submit(write); }
  void become_shared() {
    ask_shared();
    receive(Kind::kData, 0);
    EXPECT_EQ(state(), CacheState::kShared);
  }
  void become_dirty() {
    ask_exclusive();
    receive(Kind::kData, 0);
    EXPECT_EQ(state(), CacheState::kDirty);
  }

  TestOp read{OpKind::kRead};
  TestOp write{OpKind::kWrite};
};

/// The home of a line that has a file, which alone has it in the beginning.
class FileHomeTest : public HomeTest {
 protected:
  explicit FileHomeTest(NodeId nodes = 4) : HomeTest(nodes) {
    ref.has_file = true;
    entry.state = DirState::kStored;
    entry.flags = kAsFiled;
    mark_away(line);
  }
  void loaded(bool ok) {
    env.did.clear();
    protocol.loaded(ref, ok);
  }
  [[nodiscard]] bool filed() const { return Protocol::is_filed(ref); }
  /// The home has it, as its file does.
  void become_filed() {
    EXPECT_TRUE(protocol.fetch_home(ref));
    loaded(true);
    EXPECT_EQ(entry.state, DirState::kUnshared);
    EXPECT_TRUE(filed());
  }
  /// Those nodes have copies, and the home has none.
  void parked_at(std::initializer_list<NodeId> nodes) {
    become_filed();
    shared_by(nodes);
    EXPECT_TRUE(protocol.drop(ref));
    EXPECT_EQ(entry.state, DirState::kParked);
  }
};

/// The same two where what is written is logged.
class LoggedHomeTest : public HomeTest {
 protected:
  LoggedHomeTest() { env.logged = true; }
  void died(NodeId node) {
    env.did.clear();
    protocol.peer_died(ref, node);
  }
  void owner_back(NodeId node) {
    env.did.clear();
    protocol.owner_back(ref, node);
  }
};
class LoggedCacheTest : public CacheTest {
 protected:
  LoggedCacheTest() { env.logged = true; }
  void become_dirty_in(std::uint64_t tenure) {
    ask_exclusive();
    receive(Kind::kData, 0, {.tenure = tenure});
    EXPECT_EQ(state(), CacheState::kDirty);
  }
  void home_back() {
    env.did.clear();
    protocol.home_back(ref);
  }
  void home_open() {
    env.did.clear();
    protocol.home_open(ref);
  }
};

using ::testing::ElementsAre;
using ::testing::IsEmpty;

}  // namespace atoll::coherence
