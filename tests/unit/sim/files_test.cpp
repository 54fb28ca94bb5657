// Files in virtual time: nodes that share pages of a file which does not fit, on disks that are slow, tear and fail.
#include <gtest/gtest.h>

#include <map>

#include "sim/cluster.hpp"
#include "support/seed.hpp"

namespace atoll::sim {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kPages = 96;  // of which 32 have room at home

struct Case {
  NodeId nodes = 2;
  std::uint32_t page_bytes = 4096;
  storage::PageFaults faults;
  int operations = 150;
};

ClusterOptions options_of(const Case& c, std::uint64_t seed) {
  ClusterOptions options;
  options.seed = seed;
  options.nodes = c.nodes;
  options.node.memory_bytes = 1 << 20;
  options.node.cache_bytes = 512 << 10;
  options.node.file_space_bytes = 2 << 20;
  options.node.file_memory_bytes = 32 * kPage;
  options.page_faults = c.faults;
  return options;
}

/// Threads of all nodes count in words of a file, flush now and then, and look at what they have counted.
class Play {
 public:
  Play(const Case& c, std::uint64_t seed) : case_(c), seed_(seed), cluster_(options_of(c, seed)) {}

  void run() {
    base::Random seeds(seed_);
    for (NodeId id = 0; id < case_.nodes; ++id) {
      for (int thread = 0; thread < 2; ++thread) {
        const std::uint64_t seed = seeds.next();
        cluster_.spawn(id, [this, id, thread, seed](Node& node) { work(node, id, thread, seed); });
      }
    }
    cluster_.run();
    cluster_.settle();
    cluster_.audit(true);
  }

  [[nodiscard]] std::uint64_t failures() const { return failures_; }

 private:
  void work(Node& node, NodeId id, int thread, std::uint64_t seed) {
    base::Random random(seed);
    FileOptions how;
    how.node = 0;
    how.create = true;
    how.page_bytes = case_.page_bytes;
    how.reserve_bytes = kPages * kPage;
    Result<File> opened = node.open_file("data", how);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    File file = std::move(opened).value();
    if (id == 0 && thread == 0) {
      while (!file.resize(kPages * kPage).ok()) ++failures_;
      is_there_ = true;
    }
    while (!is_there_) cluster_.machine().sleep_for(std::chrono::microseconds(20));
    std::map<std::uint64_t, std::uint64_t> seen;
    for (int i = 0; i < case_.operations; ++i) {
      const std::uint64_t word = random.below(kPages) * kPage / 8 + random.below(3) * 64;
      const global_ptr<std::uint64_t> counter(file.address() + std::int64_t(word * 8));
      if (random.below(12) == 0) {
        while (!file.refresh().ok()) ++failures_;
        failures_ += !file.flush(word * 8, 8).ok();
        continue;
      }
      const bool adds = random.below(2) == 0;
      if (adds) ++begun_[word];
      const Result<std::uint64_t> found = adds ? node.fetch_add(counter, 1) : node.read(counter);
      if (!found.ok()) {
        ASSERT_EQ(found.status().code(), Errc::kStorage) << found.status().to_string();
        ++failures_;
        if (adds) --begun_[word];
        continue;
      }
      ASSERT_GE(*found, seen[word]) << "a counter went back";
      ASSERT_LE(*found, begun_[word]) << "a count that nobody made";
      seen[word] = *found;
      if (adds) ++counted_[word];
      if (random.below(4) == 0) cluster_.machine().sleep_ns(random.below(100'000));
    }
    finish(node, file);
  }

  /// The last thread looks at all of it.
  void finish(Node& node, File& file) {
    if (++finished_ == case_.nodes * 2) {
      cluster_.pages(0).set_faults({});
      for (const auto& [word, count] : counted_) {
        const auto value = node.read(global_ptr<std::uint64_t>(file.address() + std::int64_t(word * 8)));
        ASSERT_TRUE(value.ok()) << value.status().to_string();
        ASSERT_EQ(*value, count) << "word " << word;
      }
    }
    const Status closed = file.close();
    if (!closed.ok()) ++failures_;
  }

  const Case case_;
  const std::uint64_t seed_;
  Cluster cluster_;
  bool is_there_ = false;
  int finished_ = 0;
  std::uint64_t failures_ = 0;
  std::map<std::uint64_t, std::uint64_t> begun_;    // of each word: additions that were not refused
  std::map<std::uint64_t, std::uint64_t> counted_;  // and that were done
};

class SimFiles : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Pages, SimFiles, ::testing::Values(512, 4096, 16384));

TEST_P(SimFiles, CountTogetherOnASlowDisk) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  for (std::uint64_t round = 0; round < 6; ++round) {
    Case c;
    c.nodes = NodeId(1 + round % 3);
    c.page_bytes = GetParam();
    c.faults = {.least_nanos = 10'000, .most_nanos = round % 2 == 0 ? 100'000 : 3'000'000};
    Play play(c, seed + round);
    play.run();
    EXPECT_EQ(play.failures(), 0u);
  }
}

TEST_P(SimFiles, CountTogetherOnADiskThatFails) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  std::uint64_t failures = 0;
  for (std::uint64_t round = 0; round < 6; ++round) {
    Case c;
    c.nodes = NodeId(1 + round % 3);
    c.page_bytes = GetParam();
    c.faults = {.failure = 0.01, .short_transfer = 0.05, .least_nanos = 10'000, .most_nanos = 200'000};
    Play play(c, seed + round);
    play.run();
    failures += play.failures();
  }
  EXPECT_GT(failures, 0u);
}

}  // namespace
}  // namespace atoll::sim
