// Questions of scale: that the figures mean what they say.
#include "sim/scale.hpp"

#include <gtest/gtest.h>

namespace atoll::sim {
namespace {

ScaleOptions small(NodeId nodes) {
  ScaleOptions options;
  options.nodes = nodes;
  options.ops = 500;
  options.lines = 16;
  return options;
}

TEST(Scale, EveryCaseDoesWhatItSays) {
  for (const ScaleCase what : kScaleCases) {
    const ScaleOptions options = small(4);
    const ScaleResult result = run_scale(what, options);
    const bool random = what == ScaleCase::kPrivate || what == ScaleCase::kShared;
    EXPECT_EQ(result.operations, random ? 4u * 500 : 4u * (4 * 16) * 64) << to_string(what);
    EXPECT_GT(result.mops, 0) << to_string(what);
    EXPECT_LE(result.median_us, result.p99_us) << to_string(what);
  }
}

/// With nothing to share the sum is what each node does by itself: a nanosecond for each access.
TEST(Scale, WhatIsPrivateScalesLinearly) {
  EXPECT_NEAR(run_scale(ScaleCase::kPrivate, small(2)).mops, 2'000, 200);
  EXPECT_NEAR(run_scale(ScaleCase::kPrivate, small(8)).mops, 8'000, 800);
}

TEST(Scale, ASlowNetworkIsSlow) {
  ScaleOptions options = small(3);
  const double quick = run_scale(ScaleCase::kAdd, options).mops;
  options.latency_ns *= 10;
  EXPECT_LT(run_scale(ScaleCase::kAdd, options).mops, quick / 3);
}

TEST(Scale, TheSameSeedGivesTheSameFigures) {
  const ScaleResult a = run_scale(ScaleCase::kShared, small(5));
  const ScaleResult b = run_scale(ScaleCase::kShared, small(5));
  EXPECT_EQ(a.mops, b.mops);
  EXPECT_EQ(a.p99_us, b.p99_us);
}

}  // namespace
}  // namespace atoll::sim
