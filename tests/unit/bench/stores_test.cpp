// What Atoll's map is compared with must be right too: a table that loses pairs is quick.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "bench/bucket_locks.hpp"
#include "bench/line_locks.hpp"
#include "bench/store.hpp"
#include "bench/ycsb_worker.hpp"
#include "support/local_cluster.hpp"

namespace atoll::bench {
namespace {

using ycsb::Key;
using ycsb::Worker;

Options options() {
  Options options = test::LocalCluster::small_options();
  options.memory_bytes = 32u << 20;
  options.cache_bytes = 8u << 20;
  return options;
}

/// A store on two nodes of this process.
class Stores : public testing::TestWithParam<StoreKind> {
 protected:
  void make(const StoreSize& size) {
    stores_.resize(cluster_.count());
    cluster_.in_parallel([&](NodeId id) { stores_[id] = make_store(GetParam(), cluster_[id], size); });
  }
  void TearDown() override {
    cluster_.in_parallel([&](NodeId id) {
      if (id < stores_.size()) stores_[id].reset();
    });
  }
  Store& on(NodeId id) { return GetParam() == StoreKind::kStd ? *stores_[0] : *stores_[id]; }

  test::LocalCluster cluster_{2, options()};
  std::vector<std::unique_ptr<Store>> stores_;
};

TEST_P(Stores, WhatOneNodePutsTheOtherGets) {
  make({1000, 116});
  std::string value;
  EXPECT_FALSE(on(0).get("one", value));
  EXPECT_TRUE(on(0).put("one", "1"));
  EXPECT_TRUE(on(1).get("one", value));
  EXPECT_EQ(value, "1");
  EXPECT_FALSE(on(1).put("one", "2"));
  EXPECT_TRUE(on(0).get("one", value));
  EXPECT_EQ(value, "2");
  EXPECT_FALSE(on(1).put("one", std::string(3000, 'x')));  // of another size
  EXPECT_TRUE(on(0).get("one", value));
  EXPECT_EQ(value, std::string(3000, 'x'));
}

TEST_P(Stores, ManyMoreThanItWasMadeFor) {
  make({200, 116});  // buckets overflow
  std::string value(100, '\0');
  constexpr std::uint64_t kRecords = 600;
  for (std::uint64_t record = 0; record < kRecords; ++record) {
    ycsb::fill_value(record, 0, value);
    ASSERT_TRUE(on(NodeId(record % 2)).put(Key(record).view(), value));
  }
  for (NodeId node = 0; node < 2; ++node) {
    EXPECT_EQ(ycsb::verify(on(node), kRecords, [](std::uint64_t) { return 0; }).right, kRecords);
  }
  EXPECT_FALSE(on(0).get(Key(kRecords).view(), value));
}

TEST_P(Stores, ModifyIsOneStep) {
  make({100, 116});
  constexpr int kTimes = 500;
  EXPECT_FALSE(on(0).modify("counter", [](std::string&) { FAIL(); }));
  on(0).put("counter", std::string(8, '\0'));
  cluster_.in_parallel([&](NodeId id) {
    for (int i = 0; i < kTimes; ++i) {
      on(id).modify("counter", [](std::string& value) {
        std::uint64_t count = 0;
        std::memcpy(&count, value.data(), sizeof(count));
        ++count;
        std::memcpy(value.data(), &count, sizeof(count));
      });
    }
  });
  std::string value;
  ASSERT_TRUE(on(1).get("counter", value));
  std::uint64_t count = 0;
  std::memcpy(&count, value.data(), sizeof(count));
  EXPECT_EQ(count, 2u * kTimes);
}

TEST_P(Stores, GetsManyInOrder) {
  make({100, 116});
  on(0).put("a", "1");
  on(1).put("c", "3");
  const std::vector<std::string_view> keys = {"a", "b", "c", "a"};
  std::vector<std::string> found;
  on(1).get_many(keys, [&](std::size_t i, std::optional<std::string_view> value) {
    EXPECT_EQ(i, found.size());
    found.emplace_back(value.value_or("-"));
  });
  EXPECT_THAT(found, testing::ElementsAre("1", "-", "3", "1"));
}

/// Every workload by both nodes at once; a Worker throws when it reads what it should not.
TEST_P(Stores, RunEveryWorkload) {
  constexpr std::uint64_t kRecords = 500;
  make({8 * kRecords, 116});
  std::vector<std::unique_ptr<ycsb::Inserted>> inserted(2);
  cluster_.in_parallel([&](NodeId id) {
    inserted[id] = std::make_unique<ycsb::Inserted>(cluster_[id], "inserted", kRecords, 2u);
    ycsb::load(on(id), {id, 2}, kRecords, 100, [](int) {});
  });
  for (const char workload : {'A', 'B', 'C', 'D', 'E', 'F'}) {
    std::atomic<std::uint64_t> done{0};
    std::array<ycsb::Histograms, 2> times;
    cluster_.in_parallel([&](NodeId id) {
      Worker worker(on(id), *inserted[id], {id, 2}, *ycsb::standard_mix(workload), 100, 7);
      EXPECT_NO_THROW(done += worker.run({0, 800}, &times[id])) << workload;
    });
    EXPECT_EQ(done, 1600u) << workload;
    std::uint64_t timed = 0;
    for (const ycsb::Histograms& one : times) {
      for (std::size_t i = 0; i < ycsb::kOperations; ++i) {
        const bool has = ycsb::standard_mix(workload)->parts[i] > 0;
        EXPECT_EQ(one[i].count() > 0, has) << workload << ' ' << i;
        timed += one[i].count();
      }
    }
    EXPECT_EQ(timed, done) << workload;
  }
}

std::string test_name(const testing::TestParamInfo<StoreKind>& info) {
  switch (info.param) {
    case StoreKind::kAtoll: return "Atoll";
    case StoreKind::kBucketLocks: return "BucketLocks";
    case StoreKind::kLineLocks: return "LineLocks";
    case StoreKind::kStd: return "Std";
  }
  return "";
}
INSTANTIATE_TEST_SUITE_P(Each, Stores,
                         testing::Values(StoreKind::kAtoll, StoreKind::kBucketLocks, StoreKind::kLineLocks,
                                         StoreKind::kStd),
                         test_name);

/// A store that errs as it is told.
class Faulty final : public Store {
 public:
  bool get(std::string_view key, std::string& value) override {
    if (key == missing || !pairs_.contains(std::string(key))) return false;
    value = pairs_[std::string(key)];
    if (key == torn) value.back() = char(value.back() + 1);
    return true;
  }
  bool put(std::string_view key, std::string_view value) override {
    std::string& place = pairs_[std::string(key)];
    const bool is_new = place.empty();
    if (is_new || key != deaf) place = value;
    return is_new;
  }
  bool modify(std::string_view, const Modify&) override { return false; }

  std::string missing, torn, deaf;

 private:
  std::map<std::string, std::string, std::less<>> pairs_;
};

class Checks : public testing::Test {
 protected:
  Checks() {
    ycsb::load(store, {0, 1}, 100, 100, [](int) {});
  }
  ycsb::Verdict verdict(std::uint64_t stamp = 0) {
    return ycsb::verify(store, 100, [stamp](std::uint64_t) { return stamp; });
  }
  Faulty store;
};

TEST_F(Checks, FindNothingWhereNothingIsWrong) {
  EXPECT_TRUE(verdict().ok());
  EXPECT_EQ(verdict().right, 100u);
}

TEST_F(Checks, FindWhatIsMissing) {
  store.missing = Key(17).view();
  EXPECT_EQ(verdict().missing, 1u);
  EXPECT_FALSE(verdict().ok());
}

TEST_F(Checks, FindWhatIsTorn) {
  store.torn = Key(17).view();
  EXPECT_EQ(verdict().wrong, 1u);
  EXPECT_FALSE(verdict().ok());
}

TEST_F(Checks, FindAPutThatWasLost) {
  store.deaf = Key(17).view();
  std::string value(100, '\0');
  for (std::uint64_t record = 0; record < 100; ++record) {
    ycsb::fill_value(record, 1, value);
    store.put(Key(record).view(), value);
  }
  EXPECT_EQ(verdict(1).stale, 1u);
  EXPECT_FALSE(verdict(1).ok());
}

TEST_F(Checks, AWorkerThrowsAtWhatIsWrong) {
  test::LocalCluster cluster(1, options());
  ycsb::Inserted inserted(cluster[0], "inserted", 100, 1);
  const auto run = [&] {
    Worker worker(store, inserted, {0, 1}, ycsb::get_put_mix(0.5), 100, 1);
    return worker.run({0, 2000}, nullptr);
  };
  EXPECT_EQ(run(), 2000u);
  store.torn = Key(17).view();
  EXPECT_THROW(run(), Error);
  store.torn.clear();
  store.missing = Key(17).view();
  EXPECT_THROW(run(), Error);
}

TEST(Inserted, TheLastOnesOfAllWorkersComeFirst) {
  test::LocalCluster cluster(1, options());
  ycsb::Inserted inserted(cluster[0], "inserted", 100, 2);
  std::vector<std::uint64_t> counts;
  inserted.look(counts);
  EXPECT_EQ(inserted.latest(counts, 0), 99u);
  EXPECT_EQ(inserted.latest(counts, 99), 0u);
  EXPECT_EQ(inserted.latest(counts, 100), 99u);  // there is no more
  inserted.tell(0, 2);
  inserted.tell(1, 1);
  inserted.look(counts);
  EXPECT_EQ(inserted.latest(counts, 0), inserted.record(0, 1));
  EXPECT_EQ(inserted.latest(counts, 1), inserted.record(1, 0));
  EXPECT_EQ(inserted.latest(counts, 2), inserted.record(0, 0));
  EXPECT_EQ(inserted.latest(counts, 3), 99u);
  for (std::uint64_t behind = 0; behind < 1000; ++behind) {
    const std::uint64_t record = inserted.latest(counts, behind);
    EXPECT_TRUE(record < 100 || record == 100 || record == 101 || record == 102) << record;
  }
}

}  // namespace
}  // namespace atoll::bench
