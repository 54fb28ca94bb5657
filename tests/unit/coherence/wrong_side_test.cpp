// Receive what is meant for the other side, or for nobody / Expect a fault, and nothing changed.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

constexpr Kind kForHomes[] = {Kind::kGetShared,    Kind::kGetExclusive,      Kind::kUpgrade,    Kind::kPutShared,
                              Kind::kPutDirty,     Kind::kInvalidateAck,     Kind::kWriteBack,  Kind::kTransfer,
                              Kind::kOwnerRefused, Kind::kInvalidateRefused, Kind::kWriteHome,  Kind::kGetOperated,
                              Kind::kPutOperated,  Kind::kReportShared,      Kind::kReportDirty};
constexpr Kind kForCaches[] = {Kind::kInvalidate, Kind::kForwardShared, Kind::kForwardExclusive,
                               Kind::kData,       Kind::kGrant,         Kind::kRefused,
                               Kind::kPutAck,     Kind::kOwnerData,     Kind::kWritten};
constexpr Kind kForNeither[] = {Kind::kNone,      Kind::kAllocate,      Kind::kAllocateReply,  Kind::kFree,
                                Kind::kFreeReply, Kind::kBarrierArrive, Kind::kBarrierRelease, Kind::kLeaving,
                                Kind::kProbe,     Kind::kProbeAnswer,   Kind::kReportEnd,      Kind::kOpen,
                                Kind::kCount};

class HomeHears : public HomeTest {};
class CacheHears : public CacheTest {};

TEST_F(HomeHears, WhatIsForCachesExpectFault) {
  owned_by(1);
  for (const Kind kind : kForCaches) expect_fault(kind, 1);
  for (const Kind kind : kForNeither) expect_fault(kind, 1);
  EXPECT_EQ(entry.state, DirState::kDirty);
  EXPECT_EQ(entry.owner, 1);
}

TEST_F(CacheHears, WhatIsForHomesExpectFault) {
  become_dirty();
  for (const Kind kind : kForHomes) expect_fault(kind, 0);
  for (const Kind kind : kForNeither) expect_fault(kind, 0);
  EXPECT_EQ(state(), CacheState::kDirty);
}

/// A request that made sense when it came, and none when its turn came: node 2 owns the line by then.
TEST_F(HomeHears, ARequestThatMakesNoSenseAnyMoreExpectFaultAndTheNextGoesOn) {
  owned_by(1);
  receive(Kind::kGetExclusive, 2);
  receive(Kind::kGetShared, 2);
  receive(Kind::kGetShared, 3);
  receive(Kind::kTransfer, 1, {.requester = 2});
  EXPECT_EQ(env.faults.size(), 1U);
  env.faults.clear();
  EXPECT_THAT(env.did, ElementsAre("log owner 2", "Grant to 2", "ForwardShared to 2"));
  EXPECT_EQ(entry.requester, 3);
}

}  // namespace
}  // namespace atoll::coherence
