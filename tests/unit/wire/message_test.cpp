// The judge of messages: it finds every fault, and nothing that it lets through is out of range.
#include "wire/message.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "atoll/stats.hpp"
#include "base/random.hpp"
#include "support/seed.hpp"

namespace atoll::wire {
namespace {

using ::testing::HasSubstr;

constexpr NodeId kSelf = 1;
constexpr NodeId kFrom = 2;
constexpr std::uint32_t kEpoch = 7;
constexpr std::uint32_t kLine = 512;
constexpr std::array<std::uint32_t, 3> kSlots = {200, 150, 100};
constexpr std::array<std::uint64_t, 3> kMemory = {1 << 20, 2 << 20, 3 << 20};
constexpr std::array<std::uint32_t, 3> kEpochs = {kEpoch, kEpoch, kEpoch};
constexpr Limits kLimits{3, kSelf, kEpochs.data(), kLine, kSlots.data(), kMemory.data()};

/// A request of node 2 for two lines of node 1.
Message good() {
  Message m;
  m.epoch = kEpoch;
  m.kind = Kind::kGetShared;
  m.count = 2;
  m.from = kFrom;
  m.requester = kFrom;
  m.line = GlobalAddress::make(kSelf, 4096).bits();
  m.slots = {3, 4};
  return m;
}

std::string fault_of(const Message& message, NodeId from = kFrom) {
  const char* why = nullptr;
  const Verdict verdict = judge(message, from, kLimits, &why);
  EXPECT_EQ(verdict == Verdict::kMalformed, why != nullptr);
  return why == nullptr ? "" : why;
}

/// What is said of a good message with something changed.
template <typename Change>
std::string changed(Change change) {
  Message m = good();
  change(m);
  return fault_of(m);
}

TEST(Judge, TakesWhatIsGood) {
  const char* why = nullptr;
  EXPECT_EQ(judge(good(), kFrom, kLimits, &why), Verdict::kGood);
  Message other_epoch = good();
  other_epoch.epoch = kEpoch - 1;
  EXPECT_EQ(judge(other_epoch, kFrom, kLimits, &why), Verdict::kStale);
}

TEST(Judge, OfLocksOfElements) {
  Message lock = good();
  lock.kind = Kind::kElementLock;
  lock.line += 12;  // any address: an element need not begin a line
  lock.flags = kTry | kExclusive;
  lock.count = 0;
  EXPECT_EQ(fault_of(lock), "");
  const auto of_lock = [&](auto change) {
    Message m = lock;
    change(m);
    return fault_of(m);
  };
  EXPECT_EQ(of_lock([](Message& m) { m.flags = kRelease; }), "");
  EXPECT_THAT(of_lock([](Message& m) { m.flags = kRelease | kTry; }), HasSubstr("let go"));
  EXPECT_EQ(of_lock([](Message& m) { m.flags = kReinstate; }), "");
  EXPECT_EQ(of_lock([](Message& m) { m.flags = kReinstate | kExclusive; }), "");
  EXPECT_THAT(of_lock([](Message& m) { m.flags = kReinstate | kTry; }), HasSubstr("held and tried"));
  EXPECT_THAT(of_lock([](Message& m) { m.flags = kReinstate | kRelease; }), HasSubstr("let go"));
  EXPECT_THAT(of_lock([](Message& m) { m.requester = 0; }), HasSubstr("somebody else"));
  EXPECT_THAT(of_lock([](Message& m) { m.line = GlobalAddress::make(kFrom, 8).bits(); }), HasSubstr("elsewhere"));
  EXPECT_THAT(of_lock([](Message& m) { m.line = GlobalAddress::make(9, 8).bits(); }), HasSubstr("elsewhere"));
  EXPECT_THAT(of_lock([](Message& m) { m.line = GlobalAddress::make(kSelf, kMemory[kSelf]).bits(); }),
              HasSubstr("beyond"));
  EXPECT_THAT(of_lock([](Message& m) { m.line = GlobalAddress::make(kSelf, 8, GlobalAddress::Kind::kFile).bits(); }),
              HasSubstr("no such element"));
  Message answer = lock;
  answer.kind = Kind::kElementAnswer;
  answer.line = GlobalAddress::make(kFrom, 8).bits();
  answer.slots = {kElementAbandoned, 2};
  EXPECT_EQ(fault_of(answer), "");
  answer.slots = {kElementAbandoned, 3};
  EXPECT_THAT(fault_of(answer), HasSubstr("nobody"));
  answer.flags = kReinstate;
  EXPECT_THAT(fault_of(answer), HasSubstr("unknown flags"));
  answer.flags = 0;
  answer.slots = {kElementAnswers, 0};
  EXPECT_THAT(fault_of(answer), HasSubstr("no such answer"));
  answer.slots = {0, 0};
  answer.line = lock.line;
  EXPECT_THAT(fault_of(answer), HasSubstr("elsewhere"));
}

TEST(Judge, FindsEveryFault) {
  EXPECT_THAT(changed([](Message& m) { m.version = 9; }), HasSubstr("version"));
  EXPECT_THAT(changed([](Message& m) { m.kind = Kind::kNone; }), HasSubstr("kind"));
  EXPECT_THAT(changed([](Message& m) { m.kind = Kind::kCount; }), HasSubstr("kind"));
  EXPECT_THAT(changed([](Message& m) { m.kind = Kind(255); }), HasSubstr("kind"));
  EXPECT_THAT(changed([](Message& m) { m.from = 0; }), HasSubstr("from"));
  EXPECT_THAT(fault_of(good(), 0), HasSubstr("from"));
  EXPECT_THAT(changed([](Message& m) { m.requester = 3; }), HasSubstr("requester"));
  EXPECT_THAT(changed([](Message& m) { m.flags = 0x08; }), HasSubstr("flags"));
  EXPECT_THAT(changed([](Message& m) { m.count = 0; }), HasSubstr("run"));
  EXPECT_THAT(changed([](Message& m) { m.count = kMaxRun + 1; }), HasSubstr("run"));
  EXPECT_THAT(changed([](Message& m) { m.line = GlobalAddress::make(3, 4096).bits(); }), HasSubstr("home"));
  EXPECT_THAT(changed([](Message& m) { m.line = GlobalAddress::make(kSelf, 4096, GlobalAddress::Kind::kFile).bits(); }),
              HasSubstr("home"));
  EXPECT_THAT(changed([](Message& m) { m.line += 8; }), HasSubstr("start of a line"));
  EXPECT_THAT(changed([](Message& m) { m.line = GlobalAddress::make(kSelf, kMemory[kSelf]).bits(); }),
              HasSubstr("beyond"));
  EXPECT_THAT(changed([](Message& m) { m.line = GlobalAddress::make(kSelf, kMemory[kSelf] - kLine).bits(); }),
              HasSubstr("beyond"));  // a run of two
  EXPECT_THAT(changed([](Message& m) { m.line = GlobalAddress::make(0, 4096).bits(); }), HasSubstr("not the home"));
  EXPECT_THAT(changed([](Message& m) { m.slots[1] = kSlots[kFrom]; }), HasSubstr("slot"));  // others have it
  EXPECT_THAT(changed([](Message& m) {
                m.kind = Kind::kInvalidate;
                m.line = GlobalAddress::make(0, 4096).bits();
              }),
              HasSubstr("not the home"));
  EXPECT_THAT(changed([](Message& m) { m.kind = Kind::kOwnerData; }), HasSubstr("own line"));
  EXPECT_THAT(changed([](Message& m) { m.requester = 0; }), HasSubstr("somebody else"));
  EXPECT_THAT(changed([](Message& m) {
                m.kind = Kind::kForwardShared;
                m.line = GlobalAddress::make(kFrom, 4096).bits();
                m.requester = kSelf;
              }),
              HasSubstr("what is here"));
  EXPECT_EQ(changed([](Message& m) { m.slots[2] = kSlots[kFrom]; }), "");  // beyond the run: not looked at
}

TEST(Judge, LinesOfAnotherSize) {
  // Node 1's second grain has lines that are four times as large.
  static constexpr std::array<std::uint8_t, 48> kGrains = {0, 2, 2 | detail::kLargerClosed};
  static constexpr std::array<const std::uint8_t*, 3> kLarger = {kGrains.data(), kGrains.data(), kGrains.data()};
  Limits limits = kLimits;
  limits.larger = kLarger.data();
  const auto fault = [&](unsigned larger_by, std::uint64_t offset, std::uint32_t slot, std::uint8_t count = 1) {
    Message m = good();
    m.flags = std::uint8_t(larger_by << kLargerShift);
    m.line = GlobalAddress::make(kSelf, offset).bits();
    m.count = count;
    m.slots = {slot, slot};
    const char* why = nullptr;
    (void)judge(m, kFrom, limits, &why);
    return std::string(why == nullptr ? "" : why);
  };
  EXPECT_EQ(fault(0, 4096, 3), "");
  EXPECT_EQ(fault(2, 65536, 4), "");
  EXPECT_EQ(fault(2, 2 * 65536, 96), "");  // closed, but messages that are under way are still good
  EXPECT_THAT(fault(0, 65536, 4), HasSubstr("another size"));
  EXPECT_THAT(fault(2, 4096, 4), HasSubstr("another size"));
  EXPECT_THAT(fault(0, 65536 - 512, 4, 2), HasSubstr("another size"));  // the second of the run
  EXPECT_THAT(fault(2, 65536 + 512, 4), HasSubstr("start of a line"));
  EXPECT_THAT(fault(2, 65536, 6), HasSubstr("begin at"));
  EXPECT_THAT(fault(2, 65536, 100), HasSubstr("does not have"));
  EXPECT_THAT(fault(15, 65536, 0), HasSubstr("start of a line"));
  const char* why = nullptr;
  Message m = good();
  m.flags = 2 << kLargerShift;
  EXPECT_EQ(judge(m, kFrom, kLimits, &why), Verdict::kMalformed) << "all lines are the heap's";
}

TEST(Judge, OperatorsAndTheirOperands) {
  const auto asked = [](std::uint64_t operation, std::uint8_t flags) {
    return changed([&](Message& m) {
      m.kind = Kind::kGetOperated;
      m.argument = operation;
      m.flags = flags;
    });
  };
  EXPECT_EQ(asked(1, 0), "");
  EXPECT_EQ(asked(255, 0), "");
  EXPECT_THAT(asked(0, 0), HasSubstr("no such operator"));
  EXPECT_THAT(asked(256, 0), HasSubstr("no such operator"));
  EXPECT_THAT(asked(1, kTry), HasSubstr("not tried"));
  EXPECT_EQ(changed([](Message& m) { m.kind = Kind::kPutOperated; }), "");
  EXPECT_THAT(changed([](Message& m) {
                m.kind = Kind::kPutOperated;
                m.slots[0] = kSlots[kFrom];
              }),
              HasSubstr("slot"));
  EXPECT_THAT(changed([](Message& m) {
                m.kind = Kind::kPutOperated;
                m.requester = kSelf;
              }),
              HasSubstr("somebody else"));
}

TEST(Judge, ReportsAndWhatTheHomeFetches) {
  const auto sent = [](Kind kind, std::uint8_t flags, NodeId requester, std::uint32_t slot) {
    return changed([&](Message& m) {
      m.kind = kind;
      m.flags = flags;
      m.requester = requester;
      m.argument = 17;
      m.slots = {slot, slot};
    });
  };
  for (const Kind kind : {Kind::kReportShared, Kind::kReportDirty}) {
    EXPECT_EQ(sent(kind, 0, kFrom, 3), "");
    EXPECT_THAT(sent(kind, 0, kSelf, 3), HasSubstr("somebody else"));
    EXPECT_THAT(sent(kind, 0, kFrom, kSlots[kFrom]), HasSubstr("slot"));
    EXPECT_THAT(changed([&](Message& m) {
                  m.kind = kind;
                  m.line = GlobalAddress::make(0, 4096).bits();
                }),
                HasSubstr("not the home"));
  }
  for (const Kind kind : {Kind::kPutDirty, Kind::kWriteBack, Kind::kTransfer}) {
    EXPECT_EQ(sent(kind, kFetch, kFrom, 3), "");
    EXPECT_EQ(sent(kind, 0, kSelf, 3), "");
    EXPECT_THAT(sent(kind, kFetch, kSelf, 3), HasSubstr("somebody else"));
    EXPECT_THAT(sent(kind, kFetch, kFrom, kSlots[kFrom]), HasSubstr("slot"));
  }
  for (const Kind kind : {Kind::kReportEnd, Kind::kOpen}) {
    EXPECT_EQ(changed([&](Message& m) { m.kind = kind; }), "");
    EXPECT_EQ(sent(kind, 0, kFrom, 3), "");
    EXPECT_THAT(sent(kind, kTry, kFrom, 3), HasSubstr("more to it"));
    EXPECT_THAT(changed([&](Message& m) {
                  m.kind = kind;
                  m.requester = kSelf;
                }),
                HasSubstr("more to it"));
  }
}

TEST(Continues, LinesOfOneTenureOnly) {
  Message open;
  open.kind = Kind::kPutDirty;
  open.flags = kFetch;
  open.count = 1;
  open.argument = 5;
  Message next = open;
  next.line = open.line + kLine;
  EXPECT_TRUE(continues(open, next, kLine));
  next.argument = 6;
  EXPECT_FALSE(continues(open, next, kLine));
}

TEST(Kinds, ThatNameATenure) {
  for (const Kind kind :
       {Kind::kData, Kind::kGrant, Kind::kPutDirty, Kind::kWriteBack, Kind::kTransfer, Kind::kReportDirty}) {
    EXPECT_TRUE(has_tenure(kind)) << to_string(kind);
  }
  for (const Kind kind : {Kind::kGetExclusive, Kind::kPutAck, Kind::kReportShared, Kind::kOwnerData, Kind::kOpen}) {
    EXPECT_FALSE(has_tenure(kind)) << to_string(kind);
  }
}

TEST(Judge, SmallWritesAndTheirAnswers) {
  const auto write = [](SmallWrite what) {
    return changed([&](Message& m) {
      m.kind = Kind::kWriteHome;
      m.count = 1;
      m.argument = pack(what);
      m.slots.fill(UINT32_MAX);  // bytes, not slots
    });
  };
  EXPECT_EQ(write({0, 1}), "");
  EXPECT_EQ(write({kLine - 32, 32}), "");
  EXPECT_THAT(write({0, 0}), HasSubstr("bytes"));
  EXPECT_THAT(write({0, 33}), HasSubstr("bytes"));
  EXPECT_THAT(write({kLine - 31, 32}), HasSubstr("beyond its line"));
  EXPECT_THAT(write({UINT32_MAX, 8}), HasSubstr("beyond its line"));
  EXPECT_THAT(write({0, 8, 1}), HasSubstr("guard"));
  const auto guarded = [](SmallWrite what) {
    return changed([&](Message& m) {
      m.kind = Kind::kWriteHome;
      m.flags = kGuarded;
      m.count = 1;
      m.argument = pack(what);
    });
  };
  EXPECT_EQ(guarded({8, 16, 0}), "");
  EXPECT_EQ(guarded({0, 1, kLine / 8 - 1}), "");
  EXPECT_THAT(guarded({0, 17, 0}), HasSubstr("bytes"));
  EXPECT_THAT(guarded({0, 8, kLine / 8}), HasSubstr("guard"));
  EXPECT_THAT(guarded({0, 8, SmallWrite::kMaxGuard}), HasSubstr("guard"));
  EXPECT_THAT(changed([](Message& m) { m.kind = Kind::kWriteHome; }), HasSubstr("more than one"));
  const auto written = [](std::uint32_t first, std::uint32_t second) {
    return changed([&](Message& m) {
      m.kind = Kind::kWritten;
      m.line = GlobalAddress::make(kFrom, 4096).bits();
      m.requester = kSelf;
      m.slots[0] = first;
      m.slots[1] = second;
    });
  };
  const auto last = std::uint32_t(kMemory[kFrom] / kLine - 1);
  EXPECT_EQ(written(4096 / kLine, last), "");
  EXPECT_EQ(written(4096 / kLine, 0), "");
  EXPECT_THAT(written(4096 / kLine, last + 1), HasSubstr("beyond"));
  EXPECT_THAT(written(4096 / kLine + 1, last), HasSubstr("first"));
}

TEST(Continues, AnswersToSmallWritesWhateverTheirLinesAndTheWritesThemselvesNever) {
  Message open;
  open.kind = Kind::kWritten;
  open.count = 1;
  open.line = GlobalAddress::make(0, 4096).bits();
  Message next = open;
  next.line = GlobalAddress::make(0, 512).bits();
  EXPECT_TRUE(continues(open, next, kLine));
  next.flags = kInUse;
  EXPECT_FALSE(continues(open, next, kLine));
  open.kind = next.kind = Kind::kWriteHome;
  next.flags = 0;
  next.line = open.line + kLine;
  EXPECT_FALSE(continues(open, next, kLine));
}

TEST(Judge, NothingOutOfRangeIsEverLetThrough) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  base::Random random(seed);
  int taken = 0;
  for (int i = 0; i < test::scaled(1'000'000); ++i) {
    // Half of them nearly right, or hardly any would come far.
    Message m = good();
    std::array<std::uint64_t, sizeof(Message) / 8> words;
    std::memcpy(words.data(), &m, sizeof(m));
    const bool nearly = random.chance(0.5);
    for (auto& word : words) {
      if (!nearly) word = random.next();
      if (nearly && random.chance(0.2)) word ^= std::uint64_t{1} << random.below(64);
    }
    std::memcpy(static_cast<void*>(&m), words.data(), sizeof(m));
    const char* why = nullptr;
    if (judge(m, kFrom, kLimits, &why) != Verdict::kGood) continue;
    ++taken;
    ASSERT_EQ(m.from, kFrom);
    ASSERT_LT(m.requester, 3);
    ASSERT_TRUE(m.kind > Kind::kNone && m.kind < Kind::kCount);
    if (!is_line_kind(m.kind)) continue;
    const GlobalAddress line(m.line);
    ASSERT_TRUE(m.count >= 1 && m.count <= kMaxRun);
    ASSERT_EQ(line.kind(), GlobalAddress::Kind::kMemory);
    ASSERT_EQ(line.offset() % kLine, 0u);
    for (std::uint32_t k = 0; k < m.count; ++k) {
      ASSERT_LE(line_of(m, k, kLine).offset() + kLine, kMemory.at(line.node()));
      if (has_slots(m.kind)) {
        ASSERT_LT(m.slots[k], kSlots.at(m.requester));
      }
    }
    if (m.kind == Kind::kWriteHome) {
      ASSERT_LE(std::uint64_t{small_write(m).offset} + small_write(m).bytes, kLine);
    }
    (void)to_string(m);
  }
  EXPECT_GT(taken, 0);
}

TEST(Kinds, HaveNamesMeaningsAndDirections) {
  for (std::uint8_t k = 1; k < kKinds; ++k) {
    EXPECT_NE(to_string(Kind(k)), "unknown");
    EXPECT_NE(meaning(Kind(k)), "");
    EXPECT_NE(direction(Kind(k)), "");
    EXPECT_EQ(message_kind_name(k), to_string(Kind(k)));
  }
  EXPECT_EQ(message_kind_name(kKinds), "");
  EXPECT_EQ(message_kind_name(255), "");
  EXPECT_EQ(to_string(Kind(200)), "unknown");
}

TEST(Message, IsReadable) {
  Message m = good();
  m.flags = kTry;
  m.requester = 0;
  EXPECT_EQ(to_string(m), "GetShared 1:0x1000 from 2 (2 lines) for 0 try");
}

TEST(Kinds, WhatIsNoneHasAWordForTheLogAllTheSame) {
  EXPECT_EQ(to_string(Kind::kNone), "None");
  for (const Kind kind : {Kind::kCount, Kind(99), Kind(255)}) {
    EXPECT_EQ(to_string(kind), "unknown");
    EXPECT_EQ(meaning(kind), "");
    EXPECT_EQ(direction(kind), "");
  }
  EXPECT_EQ(meaning(Kind::kNone), "");
  EXPECT_EQ(direction(Kind::kNone), "");
}

}  // namespace
}  // namespace atoll::wire
