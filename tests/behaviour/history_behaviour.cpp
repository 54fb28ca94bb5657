// Real clusters whose nodes note what they see, while lines are evicted all the time and nodes are killed; and what
// they saw, judged as a whole. Longer runs by hand: docs/histories.md.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <regex>
#include <string>

#include "behaviour/history_files.hpp"
#include "support/seed.hpp"

namespace atoll::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using verify::Verdict;

struct Setting {
  const char* name;
  const char* run;   // options of `atoll run`
  const char* node;  // options of history_node
};
void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.name;
}
std::string name_of(const testing::TestParamInfo<Setting>& info) {
  return info.param.name;
}

/// A cluster, run to its end, and what it left. The directory is kept when the test fails.
class Played {
 public:
  explicit Played(const Setting& setting) {
    // In memory where there is such a place: a thread that touches a mapped file on a busy disk may wait for seconds.
    const std::filesystem::path shm = "/dev/shm";
    const auto base = std::filesystem::is_directory(shm) ? shm : std::filesystem::temp_directory_path();
    std::string pattern = (base / "atoll-history-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw Error("cannot make " + pattern);
    directory_ = pattern;
    command_ = fmt::format("{} run --memory 8M {} -- {} {} --seed {} {}", ATOLL_COMMAND, setting.run,
                           ATOLL_HISTORY_NODE, directory_, fresh_seed(), setting.node);
    std::FILE* pipe = ::popen((command_ + " 2>&1").c_str(), "r");
    if (pipe == nullptr) throw Error("cannot run " + command_);
    char buffer[4096];
    for (std::size_t got; (got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) output_.append(buffer, got);
    const int status = ::pclose(pipe);
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    histories_ = load_histories(directory_);
  }
  ~Played() {
    if (!testing::Test::HasFailure()) std::filesystem::remove_all(directory_);
  }
  Played(const Played&) = delete;
  Played& operator=(const Played&) = delete;

  [[nodiscard]] int exit_code() const { return exit_code_; }
  [[nodiscard]] const std::string& output() const { return output_; }
  [[nodiscard]] const Histories& histories() const { return histories_; }
  /// How to see it again: the choices come from the seed, who meets whom does not.
  [[nodiscard]] std::string repeat() const {
    return fmt::format("run again (into an empty directory):\n  {}\nlook at this one:\n  {} {}\n{}", command_,
                       ATOLL_HISTORY_CHECK, directory_, output_);
  }
  /// The sum of a number that each node prints.
  [[nodiscard]] std::uint64_t counted(const std::string& name) const {
    const std::regex regex(name + " ([0-9]+)");
    std::uint64_t sum = 0;
    for (std::sregex_iterator at(output_.begin(), output_.end(), regex), none; at != none; ++at) {
      sum += std::stoull((*at)[1]);
    }
    return sum;
  }

 private:
  std::string directory_, command_, output_;
  int exit_code_ = -1;
  Histories histories_;
};

std::size_t completed_by(const Histories& histories, std::uint16_t process, std::int64_t after) {
  return std::size_t(std::count_if(histories.operations.begin(), histories.operations.end(), [&](const auto& one) {
    return one.process == process && !one.pending() && one.invoked > after;
  }));
}

// ---- words and locks ----

class Words : public testing::TestWithParam<Setting> {};

TEST_P(Words, AreLinearizable) {
  const Played run(GetParam());
  SCOPED_TRACE(run.repeat());
  ASSERT_EQ(run.exit_code(), 0);
  const auto report = verify::check_linearizable(run.histories().operations);
  EXPECT_EQ(report.verdict, Verdict::kAccepted) << report.explanation;
  // Or nothing was tried.
  EXPECT_GT(report.operations, 200u);
  EXPECT_GT(run.counted("misses"), 50u);
  if (std::string_view(GetParam().run).find("--read-in-place off") != std::string_view::npos) {
    EXPECT_GT(run.counted("evictions"), 0u);  // who reads in place fetches too little to throw anything out
  } else {
    EXPECT_GT(run.counted("reads_in_place"), 50u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Histories, Words,
    testing::Values(
        Setting{"Pso", "-n 3 --cache 32K --read-in-place off", "--at-least 40 --threads 3"},
        Setting{"Tso", "-n 2 --cache 32K --consistency tso", "--at-least 40 --threads 4"},
        Setting{"Sc", "-n 4 --cache 32K --consistency sc --read-in-place off", "--at-least 40 --threads 2"},
        Setting{"InPlace", "-n 3 --cache 32K", "--at-least 40 --threads 3"},
        Setting{"InPlaceSc", "-n 4 --cache 32K --consistency sc", "--at-least 40 --threads 2"},
        Setting{"SmallLines", "-n 3 --cache 4K --line 64 --read-in-place off", "--at-least 40 --threads 3"},
        Setting{"LargeLines", "-n 2 --cache 256K --line 4096 --consistency tso", "--at-least 40 --threads 3 --lines 3"},
        Setting{"OverTcp", "-n 3 --cache 32K --transport tcp --read-in-place off", "--at-least 40 --threads 3"},
        Setting{"OverTcpSc", "-n 4 --cache 32K --consistency sc --transport tcp --read-in-place off",
                "--at-least 40 --threads 2"}),
    name_of);

class WordsOfAKilledNode : public testing::TestWithParam<Setting> {};

TEST_P(WordsOfAKilledNode, AreLinearizable) {
  const Played run(GetParam());
  SCOPED_TRACE(run.repeat());
  ASSERT_EQ(run.exit_code(), 128 + SIGKILL);
  const auto report = verify::check_linearizable(run.histories().operations);
  EXPECT_EQ(report.verdict, Verdict::kAccepted) << report.explanation;
  std::int64_t death = 0;
  for (const auto& one : run.histories().operations) {
    if (one.process == 1) death = std::max(death, one.invoked);
  }
  EXPECT_GT(completed_by(run.histories(), 1, 0), 400u) << "the victim did nothing before it died";
  EXPECT_GT(completed_by(run.histories(), 0, death) + completed_by(run.histories(), 2, death), 10u)
      << "the survivors did nothing after the death";
}

INSTANTIATE_TEST_SUITE_P(Histories, WordsOfAKilledNode,
                         testing::Values(Setting{"Pso", "-n 3 --cache 32K --keep-going",
                                                 "--lines 12 --kill-after 500 --operations 200000"},
                                         Setting{"Sc", "-n 3 --cache 32K --keep-going --consistency sc",
                                                 "--lines 12 --kill-after 500 --operations 200000"},
                                         Setting{"OverTcp", "-n 3 --cache 32K --keep-going --transport tcp",
                                                 "--lines 12 --kill-after 500 --operations 200000"}),
                         name_of);

// ---- transactions ----

class Accounts : public testing::TestWithParam<Setting> {};

TEST_P(Accounts, AreStrictlySerializable) {
  const Played run(GetParam());
  SCOPED_TRACE(run.repeat());
  ASSERT_EQ(run.exit_code(), 0);
  EXPECT_THAT(run.output(), Not(HasSubstr("wrong totals")));
  const auto report = verify::check_serializable(run.histories().transactions);
  EXPECT_EQ(report.verdict, Verdict::kAccepted) << report.explanation;
  EXPECT_GT(report.counted, 50u);
  EXPECT_EQ(report.counted, run.histories().transactions.size());
  EXPECT_EQ(report.blind_writes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Histories, Accounts,
                         testing::Values(Setting{"Pso", "-n 3 --cache 32K", "--at-least 10 --accounts --lines 6"},
                                         Setting{"Tso", "-n 4 --cache 4K --line 64 --consistency tso",
                                                 "--at-least 10 --accounts --lines 8 --threads 2"},
                                         Setting{"OverTcp", "-n 3 --cache 32K --transport tcp",
                                                 "--at-least 10 --accounts --lines 6"}),
                         name_of);

TEST(Histories, AccountsOfAKilledNodeAreStrictlySerializable) {
  const Played run({"", "-n 3 --cache 32K --keep-going", "--accounts --lines 8 --kill-after 200"});
  SCOPED_TRACE(run.repeat());
  ASSERT_EQ(run.exit_code(), 128 + SIGKILL);
  EXPECT_THAT(run.output(), Not(HasSubstr("wrong totals")));
  const auto report = verify::check_serializable(run.histories().transactions);
  EXPECT_EQ(report.verdict, Verdict::kAccepted) << report.explanation;
  EXPECT_GT(report.counted, 150u);
}

// ---- hash maps ----

class Maps : public testing::TestWithParam<Setting> {};

TEST_P(Maps, AreLinearizable) {
  const Played run(GetParam());
  SCOPED_TRACE(run.repeat());
  ASSERT_EQ(run.exit_code(), 0);
  const auto report = verify::check_linearizable(run.histories().operations);
  EXPECT_EQ(report.verdict, Verdict::kAccepted) << report.explanation;
  const auto steps = verify::check_serializable(run.histories().transactions);
  EXPECT_EQ(steps.verdict, Verdict::kAccepted) << steps.explanation;
  EXPECT_EQ(steps.counted, run.histories().transactions.size());
  // Or nothing was tried.
  EXPECT_GT(report.operations + steps.counted, 300u);
  EXPECT_GT(run.counted("misses"), 50u);
  EXPECT_GT(run.counted("splits"), 0u) << "the table did not grow";
}

INSTANTIATE_TEST_SUITE_P(
    Histories, Maps,
    testing::Values(
        Setting{"Asking", "-n 4 --cache 32K --read-in-place off", "--map --at-least 60 --threads 8 --operations 2000"},
        Setting{"InPlace", "-n 4 --cache 32K", "--map --at-least 60 --threads 8 --operations 2000"},
        Setting{"Tso", "-n 3 --cache 32K --consistency tso", "--map --at-least 60 --threads 4"},
        Setting{"SmallLines", "-n 3 --cache 8K --line 64", "--map --at-least 60 --threads 4"},
        Setting{"LargeLines", "-n 2 --cache 256K --line 4096", "--map --at-least 60 --threads 4"},
        Setting{"Steps", "-n 4 --cache 32K", "--map --accounts --at-least 40 --threads 4"},
        Setting{"StepsAsking", "-n 3 --cache 32K --read-in-place off", "--map --accounts --at-least 40 --threads 4"},
        Setting{"OverTcp", "-n 3 --cache 32K --transport tcp", "--map --at-least 60 --threads 4"},
        Setting{"StepsOverTcp", "-n 3 --cache 32K --transport tcp", "--map --accounts --at-least 40 --threads 4"}),
    name_of);

// ---- clients that do it wrong ----

class WrongClients : public testing::TestWithParam<Setting> {};

TEST_P(WrongClients, AreFoundOut) {
  const Played run(GetParam());
  SCOPED_TRACE(run.repeat());
  ASSERT_EQ(run.exit_code(), 0);
  const auto words = verify::check_linearizable(run.histories().operations);
  const auto accounts = verify::check_serializable(run.histories().transactions);
  EXPECT_TRUE(words.verdict == Verdict::kRejected || accounts.verdict == Verdict::kRejected);
  EXPECT_NE(words.explanation + accounts.explanation, "");
}

INSTANTIATE_TEST_SUITE_P(
    Histories, WrongClients,
    testing::Values(Setting{"SplitAdd", "-n 2 --cache 32K",
                            "--at-least 300 --seconds 0.5 --operations 3000 --lines 3 --mistake split_add"},
                    Setting{"OldRead", "-n 2 --cache 32K",
                            "--at-least 300 --seconds 0.5 --operations 3000 --lines 3 --mistake old_read"},
                    Setting{"EarlyUnlock", "-n 2 --cache 32K",
                            "--at-least 300 --seconds 0.5 --operations 5000 --lines 3 --mistake early_unlock"},
                    Setting{"NoLocks", "-n 2 --cache 32K",
                            "--at-least 100 --seconds 0.5 --operations 1000 --lines 3 --accounts --mistake no_locks"}),
    name_of);

}  // namespace
}  // namespace atoll::test
