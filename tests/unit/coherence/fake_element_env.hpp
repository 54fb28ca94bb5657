// One home's lock table for tests: what it answers is written down in words.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coherence/element_locks.hpp"

namespace atoll::coherence {

class FakeElementEnv final : public ElementEnv {
 public:
  std::vector<std::string> did, faults, breaks;
  bool logged = false;

  void answer(const Party& to, GlobalAddress, ElementAnswer answer, NodeId dead) override {
    switch (answer) {
      case ElementAnswer::kGranted: return note(to, "granted");
      case ElementAnswer::kRefused: return note(to, "refused");
      case ElementAnswer::kAbandoned: return note(to, fmt::format("abandoned by {}", dead));
      case ElementAnswer::kExcess: return note(to, "too many");
    }
  }
  [[nodiscard]] bool returns() const noexcept override { return logged; }
  void fault(const Party&, GlobalAddress, const char* why) override { faults.emplace_back(why); }
  void broken(GlobalAddress, const char* what) override { breaks.emplace_back(what); }

 private:
  void note(const Party& to, const std::string& what) {
    did.push_back(fmt::format("{}.{} {}", to.node, to.ticket, what));
  }
};

/// Parties are named by node and ticket.
class ElementTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kMost = 4;
  const GlobalAddress element = GlobalAddress::make(0, 8192);
  const GlobalAddress neighbour = element + 8;
  FakeElementEnv env;
  ElementLocks locks{env, kElementTable, nullptr, kMost};

  void TearDown() override { EXPECT_THAT(env.breaks, ::testing::IsEmpty()); }
  std::vector<std::string> read(const Party& who) {
    return after([&] { locks.request(who, element, false, false); });
  }
  std::vector<std::string> write(const Party& who) {
    return after([&] { locks.request(who, element, true, false); });
  }
  std::vector<std::string> try_read(const Party& who) {
    return after([&] { locks.request(who, element, false, true); });
  }
  std::vector<std::string> try_write(const Party& who) {
    return after([&] { locks.request(who, element, true, true); });
  }
  std::vector<std::string> release(const Party& who) {
    return after([&] { locks.release(who, element); });
  }
  std::vector<std::string> died(NodeId node) {
    return after([&] { locks.node_died(node); });
  }
  std::vector<std::string> returned(NodeId node) {
    return after([&] { locks.node_returned(node); });
  }
  std::vector<std::string> reinstate(const Party& who, bool exclusive) {
    return after([&] { locks.reinstate(who, element, exclusive); });
  }
  ElementState state() const {
    const auto found = locks.book().elements.find(element.bits());
    return found == locks.book().elements.end() ? ElementState::kFree : found->second.state;
  }
  bool nothing_is_left() const { return locks.book() == ElementBook{}; }

 private:
  template <typename F>
  std::vector<std::string> after(F&& f) {
    env.did.clear();
    f();
    return env.did;
  }
};

}  // namespace atoll::coherence
