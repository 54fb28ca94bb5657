// Files of a node that are missing, empty or too old: a recovery says so, and never takes them for an empty memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/logged_cluster.hpp"

namespace atoll {
namespace {

using storage::OpenMode;
using test::LoggedCluster;
using testing::AllOf;
using testing::HasSubstr;

/// One node that has written a word and died, `lives` times.
class MissingFiles : public testing::Test {
 protected:
  explicit MissingFiles(int lives = 2) : cluster_(1) {
    cluster_.on(0, [&](Node& node) {
      word_ = node.allocate<std::uint64_t>().value();
      node.write(word_, 7).or_throw();
    });
    cluster_.crash(0);
    for (int life = 1; life < lives; ++life) {
      cluster_.restart(0);
      cluster_.crash(0);
    }
  }

  storage::FaultyDisk& disk() { return cluster_.disk(); }

  void remove(const std::string& prefix) {
    const std::vector<std::string> names = disk().list().value();
    for (const std::string& name : names) {
      if (name.starts_with(prefix)) disk().remove(name).or_throw();
    }
  }
  void cut(const std::string& name, std::uint64_t bytes) {
    disk().open(name, OpenMode::kWrite)->resize(bytes).or_throw();
  }
  /// What the next process says of it; "" when it takes what is there, which must be all then.
  std::string refusal() {
    try {
      cluster_.restart(0);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::kStorage);
      return error.what();
    }
    cluster_.on(0, [&](Node& node) { EXPECT_EQ(node.read(word_).value(), 7u); });
    return "";
  }

  LoggedCluster cluster_;
  global_ptr<std::uint64_t> word_;
};

class MissingInTheFirstLife : public MissingFiles {
 protected:
  MissingInTheFirstLife() : MissingFiles(1) {}
};

TEST_F(MissingFiles, NoneIsMissing) {
  EXPECT_EQ(refusal(), "");
}

TEST_F(MissingFiles, All) {
  remove("");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("both are missing"), HasSubstr("put it back")));
}

TEST_F(MissingFiles, TheLogs) {
  remove("log.");
  EXPECT_THAT(refusal(), HasSubstr("the log that goes with it (log.N) is missing"));
}

TEST_F(MissingFiles, TheCheckpoint) {
  remove("checkpoint");
  EXPECT_THAT(refusal(), HasSubstr("the checkpoint, which has what was before, is missing or empty"));
}

TEST_F(MissingFiles, TheCheckpointsHeader) {
  cut("checkpoint", 0);
  EXPECT_THAT(refusal(), HasSubstr("the checkpoint, which has what was before, is missing or empty"));
}

TEST_F(MissingFiles, TheCheckpointsMemory) {
  cut("checkpoint.memory", 0);
  EXPECT_THAT(refusal(), HasSubstr("checkpoint.memory, a part of the checkpoint, has 0 bytes instead of 2097152"));
  remove("checkpoint.memory");
  EXPECT_THAT(refusal(), HasSubstr("checkpoint.memory, a part of the checkpoint, is missing"));
}

TEST_F(MissingFiles, TheEndOfTheCheckpointsMemory) {
  cut("checkpoint.memory", (2 << 20) - 1);
  EXPECT_THAT(refusal(), HasSubstr("has 2097151 bytes instead of 2097152"));
}

TEST_F(MissingFiles, TheCheckpointsLines) {
  cut("checkpoint.lines", 0);
  EXPECT_THAT(refusal(), HasSubstr("checkpoint.lines, a part of the checkpoint, has 0 bytes instead of 65536"));
}

/// The header that counts is lost, and the one before is not: its log is gone.
TEST_F(MissingFiles, TheNewerHeader) {
  cluster_.restart(0);
  cluster_.crash(0);
  const auto header = disk().open("checkpoint", OpenMode::kWrite);
  const std::vector<std::byte> nothing(64);
  header->write(0, nothing).or_throw();  // that of the second
  EXPECT_THAT(refusal(), HasSubstr("there was a newer checkpoint, or an older log"));
}

/// A log says that its beginning is in the checkpoint.
TEST_F(MissingInTheFirstLife, TheCheckpointOfALongLife) {
  cluster_.restart(0);
  cluster_.on(0, [&](Node& node) {
    const GlobalAddress at = node.allocate(1 << 20).value();
    const std::vector<std::byte> from(100'000, std::byte{1});
    while (node.stats().checkpoints < 3) node.write(at, from).or_throw();
  });
  cluster_.crash(0);
  remove("checkpoint");
  EXPECT_THAT(refusal(), HasSubstr("is missing or empty"));
}

TEST_F(MissingInTheFirstLife, NoneIsMissing) {
  EXPECT_EQ(refusal(), "");
}

TEST_F(MissingInTheFirstLife, TheLog) {
  remove("log.");
  EXPECT_THAT(refusal(), HasSubstr("checkpoint is there, but no log"));
}

TEST_F(MissingInTheFirstLife, All) {
  remove("");
  EXPECT_THAT(refusal(), HasSubstr("both are missing"));
}

/// No checkpoint was finished yet, so that none is missed.
TEST_F(MissingInTheFirstLife, TheCheckpointThatIsNone) {
  remove("checkpoint");
  EXPECT_EQ(refusal(), "");
}

/// A node that has never come as far as having a log has nothing to lose.
TEST(MissingNothing, ANodeThatNeverBegan) {
  LoggedCluster cluster(1);
  cluster.crash(0);
  storage::FaultyDisk fresh;
  Options options = cluster.options();
  options.recover = true;
  const runtime::Runtime runtime(
      options, std::make_unique<test::ReturningMembership>(std::make_shared<test::ReturningHub>(NodeId(1)), NodeId(0)),
      runtime::make_transport(options), base::Host::real(), std::make_unique<test::BorrowedDisk>(fresh));
  EXPECT_TRUE(fresh.has_begun());
}

}  // namespace
}  // namespace atoll
