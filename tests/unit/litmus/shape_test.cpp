// The shapes as data, and the parser that makes them.
#include "litmus/shape.hpp"

#include <gmock/gmock.h>

#include <set>

#include "litmus/case.hpp"

namespace atoll::litmus {
namespace {

Shape parsed(std::string_view text, std::string_view asks) {
  return make_shape("test", text, asks, "?");
}

TEST(LitmusShape, TheTextBecomesThreadsOfAccesses) {
  const Shape shape = parsed("Wx1 Ry | Wy2 Rx | Rx", "r0=0 r2=1 y=2");
  EXPECT_EQ(shape.thread_count, 3u);
  EXPECT_EQ(shape.registers, 3u);
  EXPECT_EQ(shape.variables, 2u);
  EXPECT_THAT(shape.threads[1].all(),
              testing::ElementsAre(Instruction{Op::kWrite, Variable::kY, 2}, Instruction{Op::kRead, Variable::kX, 1}));
  const Outcome asked = in_register(2, 1) | at_the_end(Variable::kY, 2);
  EXPECT_TRUE(shape.interesting.holds(asked));
  EXPECT_TRUE(shape.interesting.holds(asked | in_register(1, 3))) << "r1 is not asked for";
  EXPECT_FALSE(shape.interesting.holds(asked | in_register(0, 1)));
}

TEST(LitmusShape, WhatIsNotWellFormedIsRefused) {
  for (const char* text : {"", "|", "Wx1 |", "| Rx", "Wx1 || Rx", "Wz1", "Wx", "Wx0", "Rx1", "x=1", "Wx1 Wx2 Wx3",
                           "Rx | Rx | Rx | Rx | Rx", "Rx Rx | Rx Rx | Rx"}) {
    EXPECT_THROW((void)parsed(text, "x=1"), std::invalid_argument) << '"' << text << '"';
  }
  for (const char* asks : {"", "r1=0", "r0", "z=1", "x=", "r0=x", "r0=1,x=1"}) {
    EXPECT_THROW((void)parsed("Wx1 | Rx", asks), std::invalid_argument) << '"' << asks << '"';
  }
}

TEST(LitmusShape, OutcomesArePrintedAsTheyAreAskedFor) {
  const Shape& shape = *find_shape("S");
  EXPECT_EQ(to_text(shape, in_register(0, 1) | at_the_end(Variable::kX, 2)), "r0=1 x=2 y=0");
  EXPECT_EQ(find_shape("no such shape"), nullptr);
}

TEST(LitmusShape, AllClassicShapesAreThere) {
  std::set<std::string_view> names;
  for (const Shape& shape : kShapes) names.insert(shape.name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("SB", "MP", "LB", "S", "R", "2+2W", "IRIW", "WRC", "RWC", "CoRR",
                                                   "CoRW", "CoWR", "CoWW"));
}

/// Locks are released in the thread that took them, and never two at a time: then nothing can deadlock.
TEST(LitmusShape, EveryTestIsWellFormed) {
  std::set<std::string> names;
  for (const Case& test : all_cases()) {
    SCOPED_TRACE(test.name());
    EXPECT_TRUE(names.insert(test.name()).second) << "twice";
    const Program program = test.program();
    ASSERT_EQ(program.size(), test.shape->thread_count);
    unsigned accesses = 0;
    for (const auto& thread : program) {
      const Instruction* held = nullptr;
      for (const Instruction& instruction : thread) {
        const bool locks = instruction.op == Op::kReadLock || instruction.op == Op::kWriteLock;
        const bool unlocks = instruction.op == Op::kUnlock;
        accesses += locks || unlocks || instruction.op == Op::kFence ? 0 : 1;
        if (locks || unlocks) {
          ASSERT_EQ(held == nullptr, locks);
          if (unlocks) {
            EXPECT_EQ(held->variable, instruction.variable);
          }
          held = locks ? &instruction : nullptr;
        }
      }
      EXPECT_EQ(held, nullptr) << "never unlocked";
    }
    unsigned expected = 0;
    for (unsigned t = 0; t < test.shape->thread_count; ++t) expected += test.shape->threads[t].count;
    EXPECT_EQ(accesses, expected);
  }
}

}  // namespace
}  // namespace atoll::litmus
