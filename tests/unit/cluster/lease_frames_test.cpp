// What nodes, masters and files say of leases: there and back, and what makes no sense.
#include "cluster/lease_frames.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atoll::cluster {
namespace {

using ::testing::HasSubstr;

const Epoch kEpoch{5, {11, 0, 13}, {1, 0, 4}};

TEST(LeaseFrames, AReportIsTheSameAfterwards) {
  const Report report{2, 13, 77, kEpoch, LeaseState::kSuspended, 123'456, {0}};
  std::string why;
  const auto again = report_of(to_json(report), 3, why);
  ASSERT_TRUE(again) << why;
  EXPECT_EQ(again->node, 2);
  EXPECT_EQ(again->incarnation, 13U);
  EXPECT_EQ(again->previous_term, 77U);
  EXPECT_EQ(again->epoch, kEpoch);
  EXPECT_EQ(again->state, LeaseState::kSuspended);
  EXPECT_EQ(again->sent, 123'456);
  EXPECT_EQ(again->unreachable, std::vector<NodeId>{0});
}

TEST(LeaseFrames, AnAnswerAndARecordAreTheSameAfterwards) {
  std::string why;
  const auto answer = answer_of(to_json(Answer{78, 99, Verdict::kOut, kEpoch}), 3, why);
  ASSERT_TRUE(answer) << why;
  EXPECT_EQ(answer->term, 78U);
  EXPECT_EQ(answer->echo, 99);
  EXPECT_EQ(answer->verdict, Verdict::kOut);
  EXPECT_EQ(answer->epoch, kEpoch);
  const LeaseRecord record{78, kEpoch};
  EXPECT_EQ(record_of(to_json(record), 3, why), record) << why;
}

TEST(LeaseFrames, ThoseOfTheLargestClusterFitAFrame) {
  Report report{kMaxNodes - 1, UINT32_MAX, UINT64_MAX, {}, LeaseState::kOrphaned, INT64_MAX / 2, {}};
  report.epoch = {UINT32_MAX - 1, std::vector<std::uint32_t>(kMaxNodes, UINT32_MAX),
                  std::vector<std::uint32_t>(kMaxNodes, UINT32_MAX - 1)};
  for (NodeId k = 0; k < kMaxNodes - 1; ++k) report.unreachable.push_back(k);
  EXPECT_LE(encode_frame(to_json(report)).size(), kMaxFrameBytes);
  std::string why;
  EXPECT_TRUE(report_of(to_json(report), kMaxNodes, why)) << why;
}

struct Nonsense {
  const char* key;
  Json value;
  const char* why;
};

TEST(LeaseFrames, WhatMakesNoSenseIsRefusedWithTheReason) {
  const Json good = to_json(Report{2, 13, 77, kEpoch, LeaseState::kActive, 1, {}});
  const Nonsense cases[] = {
      {"node", 3, "\"node\" is 3, more than 2"},
      {"node", -1, "\"node\" is not a whole number"},
      {"incarnation", 0, "\"incarnation\" is 0"},
      {"incarnation", std::uint64_t{1} << 32, "more than"},
      {"state", 5, "\"state\" is 5"},
      {"sent", UINT64_MAX, "\"sent\" is"},
      {"epoch", "5", "\"epoch\" is not a whole number"},
      {"epoch", UINT32_MAX, "\"epoch\" is"},
      {"members", 7, "\"members\" is no list"},
      {"members", Json::array({1, 2, 3, 4}), "\"members\" is no list"},
      {"members", Json::array({1}), "no member"},
      {"members", Json::array({{3, 1, 1}}), "no member"},
      {"members", Json::array({{0, 0, 1}}), "no member"},
      {"members", Json::array({{0, 1, 0}}), "no member"},
      {"members", Json::array({{0, 1, 6}}), "no member"},
      {"members", Json::array({{0, 1, "1"}}), "no member"},
      {"members", Json::array({{0, 1, 1}, {0, 2, 1}}), "one twice"},
      {"unreachable", 1, "\"unreachable\" is no list"},
      {"unreachable", Json::array({3}), "no node"},
      {"unreachable", Json::array({0, 1, 2, 0}), "\"unreachable\" is no list"},
  };
  std::string why;
  ASSERT_TRUE(report_of(good, 3, why)) << why;
  for (const Nonsense& nonsense : cases) {
    Json body = good;
    body[nonsense.key] = Json::parse(nonsense.value.dump());  // numbers as they come from bytes
    EXPECT_FALSE(report_of(body, 3, why)) << body;
    EXPECT_THAT(why, HasSubstr(nonsense.why)) << body;
  }
  for (const char* key : {"node", "incarnation", "previous_term", "state", "sent", "epoch", "members"}) {
    Json body = good;
    body.erase(key);
    EXPECT_FALSE(report_of(body, 3, why)) << key;
    EXPECT_THAT(why, HasSubstr(key));
  }
  EXPECT_FALSE(answer_of(good, 3, why));
  EXPECT_FALSE(record_of(good, 3, why));
}

}  // namespace
}  // namespace atoll::cluster
