// Histories of transactions that could have run one after the other, and such that could not.
#include "verify/serializability.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/random.hpp"
#include "support/seed.hpp"

namespace atoll::verify {
namespace {

using testing::HasSubstr;

std::vector<Transaction> parse(const std::string& text) {
  const auto parsed = parse_transactions(text);
  EXPECT_EQ(parsed.error, "");
  return parsed.all;
}
SerializabilityReport check(const std::string& text, bool strict = true) {
  return check_serializable(parse(text), {.strict = strict});
}

TEST(Serializability, OneAfterTheOther) {
  const auto report = check(
      "0.0 1 2 committed r1=0 w1=11 r2=0 w2=12\n"
      "0.1 3 4 committed r1=11 w1=21 r2=12 w2=22\n"
      "0.2 5 6 committed r1=21 r2=22\n");
  EXPECT_EQ(report.verdict, Verdict::kAccepted) << report.explanation;
  EXPECT_EQ(report.counted, 3u);
  EXPECT_EQ(report.blind_writes, 0u);
}

TEST(Serializability, BesideEachOther) {
  // The reader comes between the two by what it saw, whenever it returned.
  EXPECT_EQ(check("0.0 1 9 committed r1=0 w1=11\n0.1 1 9 committed r1=11 w1=21\n0.2 1 9 committed r1=11\n").verdict,
            Verdict::kAccepted);
}

TEST(Serializability, DirtyWrite) {
  const auto report = check("0.0 1 9 committed r1=0 w1=11 r2=22 w2=12\n0.1 1 9 committed r1=11 w1=21 r2=0 w2=22\n");
  EXPECT_EQ(report.verdict, Verdict::kRejected);
  EXPECT_EQ(report.anomaly, Anomaly::kG0) << report.explanation;
  EXPECT_THAT(report.explanation, HasSubstr("-ww key"));
}

TEST(Serializability, DirtyRead) {
  const auto report = check("0.0 1 5 aborted r1=0 w1=11\n0.1 2 6 committed r1=11\n");
  EXPECT_EQ(report.anomaly, Anomaly::kG1a) << report.explanation;
  // An aborted transaction itself may have seen anything.
  EXPECT_EQ(check("0.0 1 5 aborted r1=77 w1=11\n0.1 2 6 committed r1=0\n").verdict, Verdict::kAccepted);
}

TEST(Serializability, IntermediateRead) {
  const auto report = check("0.0 1 9 committed r1=0 w1=11 w1=12\n0.1 1 9 committed r1=11\n");
  EXPECT_EQ(report.anomaly, Anomaly::kG1b) << report.explanation;
}

TEST(Serializability, CircularInformationFlow) {
  const auto report = check("0.0 1 9 committed r1=0 w1=11 r2=22\n0.1 1 9 committed r2=0 w2=22 r1=11\n");
  EXPECT_EQ(report.anomaly, Anomaly::kG1c) << report.explanation;
  EXPECT_EQ(report.cycle.size(), 2u);
}

TEST(Serializability, LostUpdate) {
  const auto report = check("0.0 1 9 committed r1=0 w1=11\n0.1 1 9 committed r1=0 w1=21\n");
  EXPECT_EQ(report.anomaly, Anomaly::kG2) << report.explanation;
  EXPECT_FALSE(report.real_time);
}

TEST(Serializability, WriteSkew) {
  const auto report =
      check("0.0 1 9 committed r1=0 r2=0 w1=11\n0.1 1 9 committed r1=0 r2=0 w2=22\n0.2 20 21 committed r1=11 r2=22\n");
  EXPECT_EQ(report.anomaly, Anomaly::kG2) << report.explanation;
  EXPECT_THAT(report.explanation, HasSubstr("-rw key"));
}

TEST(Serializability, AReaderThatSeesHalfOfATransfer) {
  const auto report = check("0.0 1 9 committed r1=0 w1=11 r2=0 w2=12\n0.1 1 9 committed r1=11 r2=0\n");
  EXPECT_EQ(report.anomaly, Anomaly::kG2) << report.explanation;
}

TEST(Serializability, AReadThatIsNotRepeatable) {
  EXPECT_EQ(check("0.0 1 9 committed r1=0 w1=11\n0.1 1 9 committed r1=0 r1=11\n").anomaly, Anomaly::kG2);
}

TEST(Serializability, OutOfThinAirAndNotOnesOwn) {
  EXPECT_EQ(check("0.0 1 2 committed r1=5\n").anomaly, Anomaly::kThinAir);
  EXPECT_EQ(check("0.0 1 2 committed r1=0 w1=5 r1=0\n").anomaly, Anomaly::kInternal);
  EXPECT_EQ(check("0.0 1 2 committed r1=5 w1=5\n").anomaly, Anomaly::kInternal);
  EXPECT_EQ(check("0.0 1 2 committed r1=0 w1=5 r1=5 w1=6 r1=6\n").verdict, Verdict::kAccepted);
}

TEST(Serializability, RealTimeCountsOnlyWhenStrict) {
  const char* const stale = "0.0 1 2 committed r1=0 w1=11\n0.1 3 4 committed r1=0\n";
  EXPECT_EQ(check(stale, false).verdict, Verdict::kAccepted);
  const auto report = check(stale, true);
  EXPECT_EQ(report.anomaly, Anomaly::kG2) << report.explanation;
  EXPECT_TRUE(report.real_time);
  EXPECT_THAT(report.explanation, HasSubstr("ended before"));
  // A return and a call at the same tick are not in order.
  EXPECT_EQ(check("0.0 1 3 committed r1=0 w1=11\n0.1 3 4 committed r1=0\n").verdict, Verdict::kAccepted);
}

TEST(Serializability, UnknownFate) {
  // Seen: it happened, and its other writes count too.
  EXPECT_EQ(check("0.0 1 ? unknown r1=0 w1=11 r2=0 w2=12\n0.1 2 3 committed r1=11 r2=12\n").verdict,
            Verdict::kAccepted);
  EXPECT_EQ(check("0.0 1 ? unknown r1=0 w1=11 r2=0 w2=12\n0.1 2 3 committed r1=11 r2=0\n").anomaly, Anomaly::kG2);
  // Not seen: it did not happen, whatever it read.
  const auto report = check("0.0 1 ? unknown r1=0 w1=11\n0.1 20 30 committed r1=0 w1=21\n0.1 40 50 committed r1=21\n");
  EXPECT_EQ(report.verdict, Verdict::kAccepted) << report.explanation;
  EXPECT_EQ(report.counted, 2u);
  // Seen by one that was seen.
  EXPECT_EQ(check("0.0 1 ? unknown r1=0 w1=11\n0.1 2 ? unknown r1=11 w2=22\n0.2 3 4 committed r2=22 r1=0\n").anomaly,
            Anomaly::kG2);
}

TEST(Serializability, BlindWritesComeAfterTheFirstValue) {
  const auto report = check("0.0 1 2 committed w1=11\n0.1 3 4 committed r1=0\n");
  EXPECT_EQ(report.anomaly, Anomaly::kG2);
  EXPECT_EQ(check("0.0 1 2 committed w1=11\n0.1 3 4 committed w1=12\n").blind_writes, 2u);
}

TEST(Serializability, ValuesMustBeUnique) {
  EXPECT_EQ(check("0.0 1 2 committed w1=11\n0.1 3 4 committed w1=11\n").verdict, Verdict::kUnknown);
  EXPECT_EQ(check("0.0 1 2 committed w1=0\n").verdict, Verdict::kUnknown);
  EXPECT_EQ(check("0.0 1 2 committed w1=11\n0.1 3 4 committed w2=11\n").verdict, Verdict::kAccepted);
}

// ---- against all orders ----

/// Whether some order of the committed transactions, run one by one, gives what they read.
bool some_order_explains(const std::vector<Transaction>& history, bool strict) {
  std::vector<std::size_t> order(history.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    bool fits = true;
    std::map<std::uint64_t, std::uint64_t> memory;
    for (std::size_t i = 0; fits && i < order.size(); ++i) {
      for (std::size_t k = i + 1; strict && k < order.size(); ++k) {
        fits = fits && history[order[k]].responded >= history[order[i]].invoked;
      }
      for (const Access& access : history[order[i]].accesses) {
        if (access.is_write) {
          memory[access.key] = access.value;
        } else {
          fits = fits && memory[access.key] == access.value;
        }
      }
    }
    if (fits) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

/// Transactions that read all that they write, each run at one moment between its begin and its end.
std::vector<Transaction> random_history(base::Random& random) {
  const std::size_t number = 2 + random.below(4);
  std::vector<Transaction> history(number);
  std::map<std::uint64_t, std::uint64_t> memory;
  std::uint64_t unique = 0;
  for (std::size_t i = 0; i < number; ++i) {
    const auto moment = std::int64_t(i * 10 + 100);
    history[i].thread = std::uint16_t(i);
    history[i].outcome = Outcome::kCommitted;
    history[i].invoked = moment - 1 - std::int64_t(random.below(25));
    history[i].responded = moment + 1 + std::int64_t(random.below(25));
    for (std::uint64_t k = 1 + random.below(3); k > 0; --k) {
      const std::uint64_t key = random.below(3);
      history[i].accesses.push_back({key, memory[key], false});
      if (random.chance(0.6)) history[i].accesses.push_back({key, memory[key] = ++unique, true});
    }
  }
  std::shuffle(history.begin(), history.end(), random);
  return history;
}

TEST(Serializability, AgreesWithTryingAllOrders) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  base::Random random(seed);
  int rejected = 0;
  for (int round = 0; round < test::scaled(20000); ++round) {
    auto history = random_history(random);
    const bool strict = random.chance(0.5);
    std::string text;
    for (const auto& one : history) text += to_string(one) + "\n";
    const auto good = check_serializable(history, {.strict = strict});
    ASSERT_EQ(good.verdict, Verdict::kAccepted) << text << good.explanation;
    // One read is made to have seen something else of its key.
    auto& broken = history[random.below(history.size())];
    auto& access = broken.accesses[random.below(broken.accesses.size())];
    if (access.is_write) continue;
    access.value = random.below(8);
    const auto report = check_serializable(history, {.strict = strict});
    ASSERT_EQ(report.verdict == Verdict::kAccepted, some_order_explains(history, strict))
        << text << "with a read changed to\n"
        << to_string(broken) << "\n"
        << report.explanation;
    rejected += report.verdict == Verdict::kRejected;
  }
  EXPECT_GT(rejected, 0);
}

}  // namespace
}  // namespace atoll::verify
