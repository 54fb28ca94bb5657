// What a map promises to one thread, and to several nodes that take turns.
#include "atoll/hash_map.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "support/local_cluster.hpp"

namespace atoll {
namespace {

Options roomy() {
  Options options = test::LocalCluster::small_options();
  options.memory_bytes = 32 << 20;
  options.cache_bytes = 1024 * 512;
  return options;
}

std::string key_of(std::size_t i) {
  return "key:" + std::to_string(i);
}

TEST(HashMap, PutsGetsAndErases) {
  test::LocalCluster cluster(1, roomy());
  HashMap map(cluster[0]);
  EXPECT_FALSE(map.get("a").value());
  EXPECT_TRUE(map.put("a", "1").value());
  EXPECT_FALSE(map.put("a", "22").value());
  EXPECT_EQ(map.get("a").value(), "22");
  EXPECT_TRUE(map.contains("a").value());
  EXPECT_EQ(map.size().value(), 1);
  EXPECT_TRUE(map.erase("a").value());
  EXPECT_FALSE(map.erase("a").value());
  EXPECT_FALSE(map.contains("a").value());
  EXPECT_EQ(map.size().value(), 0);
}

TEST(HashMap, TakesKeysAndValuesOfAnySizeUpToTheLimits) {
  test::LocalCluster cluster(2, roomy());
  HashMap map(cluster[0]);
  HashMap other(cluster[1], map.address());
  for (const std::size_t key_bytes : {std::size_t(0), std::size_t(1), std::size_t(600), HashMap::kMaxKeyBytes}) {
    for (const std::size_t value_bytes : {std::size_t(0), std::size_t(1), std::size_t(5000), HashMap::kMaxValueBytes}) {
      const std::string key(key_bytes, 'k'), value(value_bytes, 'v');
      map.put(key, value).status().or_throw();
      EXPECT_EQ(other.get(key).value(), value) << key_bytes << ' ' << value_bytes;
      EXPECT_EQ(map.get(key).value(), value);
    }
  }
  EXPECT_EQ(map.put(std::string(HashMap::kMaxKeyBytes + 1, 'k'), "").status().code(), Errc::kInvalidArgument);
  EXPECT_EQ(map.get(std::string(HashMap::kMaxKeyBytes + 1, 'k')).status().code(), Errc::kInvalidArgument);
  EXPECT_EQ(map.put("k", std::string(HashMap::kMaxValueBytes + 1, 'k')).status().code(), Errc::kInvalidArgument);
  EXPECT_FALSE(map.contains("k").value() && map.get("k").value()->size() > HashMap::kMaxValueBytes);
  EXPECT_EQ(map.size().value(), 4);
}

TEST(HashMap, ReplacesValuesOfOtherSizesFromOtherNodes) {
  test::LocalCluster cluster(3, roomy());
  HashMap first(cluster[0], {.max_buckets = 0, .seed = 1});
  std::vector<HashMap> maps;
  maps.push_back(std::move(first));
  for (NodeId node = 1; node < 3; ++node) maps.emplace_back(cluster[node], maps[0].address());
  for (std::size_t i = 0; i < 300; ++i) {
    const std::string value(i % 7 * 40, char('a' + i % 26));
    maps[i % 3].put("x", value).status().or_throw();
    for (const HashMap& map : maps) EXPECT_EQ(map.get("x").value(), value) << i;
  }
  EXPECT_EQ(maps[1].size().value(), 1);
}

TEST(HashMap, ConditionsAreCheckedWithTheChange) {
  test::LocalCluster cluster(1, roomy());
  HashMap map(cluster[0]);
  EXPECT_FALSE(map.compare_and_swap("a", "", "1").value());
  EXPECT_TRUE(map.put_if_absent("a", "1").value());
  EXPECT_FALSE(map.put_if_absent("a", "2").value());
  EXPECT_FALSE(map.compare_and_swap("a", "2", "3").value());
  EXPECT_TRUE(map.compare_and_swap("a", "1", "3").value());
  EXPECT_EQ(map.get("a").value(), "3");
  EXPECT_EQ(map.increment("a", 4).value(), 7);
  EXPECT_EQ(map.increment("n").value(), 1);
  EXPECT_EQ(map.get("n").value(), "1");
  EXPECT_EQ(map.increment("n", INT64_MAX).status().code(), Errc::kInvalidArgument);
  for (const char* no_number : {"", "1x", " 1", "+1", "01", "-", "-0", "9223372036854775808"}) {
    map.put("s", no_number).status().or_throw();
    EXPECT_EQ(map.increment("s").status().code(), Errc::kInvalidArgument) << no_number;
    EXPECT_EQ(map.get("s").value(), no_number);
  }
}

TEST(HashMap, UpdateSeesTheValueAndDecides) {
  test::LocalCluster cluster(1, roomy());
  HashMap map(cluster[0]);
  const auto append = [](std::optional<std::string_view> current, std::string& next) {
    next = std::string(current.value_or("")) + "x";
    return next.size() > 3 ? Change::kErase : Change::kPut;
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(map.update("a", append).value(), Change::kPut);
  EXPECT_EQ(map.get("a").value(), "xxx");
  EXPECT_EQ(map.update("a", append).value(), Change::kErase);
  EXPECT_FALSE(map.contains("a").value());
  EXPECT_EQ(map.update("a", [](auto, std::string&) { return Change::kErase; }).value(), Change::kErase);
  EXPECT_EQ(map.size().value(), 0);
}

class HashMapSizes : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Growing, HashMapSizes, testing::Values(0, 1),
                         [](const auto& param) { return param.param == 0 ? "grows" : "overflows"; });

TEST_P(HashMapSizes, HoldsManyPairs) {
  test::LocalCluster cluster(2, roomy());
  HashMap map(cluster[0], {.max_buckets = GetParam()});
  HashMap other(cluster[1], map.address());
  constexpr std::size_t kPairs = 6000;
  for (std::size_t i = 0; i < kPairs; ++i) ASSERT_TRUE((i % 2 ? map : other).put(key_of(i), key_of(i * 7)).value());
  EXPECT_EQ(map.size().value(), std::int64_t(kPairs));
  for (std::size_t i = 0; i < kPairs; ++i) ASSERT_EQ((i % 3 ? map : other).get(key_of(i)).value(), key_of(i * 7)) << i;
  EXPECT_FALSE(map.contains(key_of(kPairs)).value());
  const HashMapStats stats = map.stats().value();
  EXPECT_EQ(stats.pairs, kPairs);
  EXPECT_EQ(stats.overflow_buckets > 50, GetParam() == 1);
  EXPECT_GT(stats.buckets, GetParam() == 1 ? 1 : kPairs / 29);

  std::map<std::string, std::string, std::less<>> seen;
  ASSERT_TRUE(other.for_each([&](std::string_view key, std::string_view value) {
    EXPECT_TRUE(seen.emplace(key, value).second) << key;
    return true;
  }));
  EXPECT_EQ(seen.size(), kPairs);

  for (std::size_t i = 0; i < kPairs; i += 2) ASSERT_TRUE(map.erase(key_of(i)).value());
  for (std::size_t i = 0; i < kPairs; ++i) ASSERT_EQ(other.contains(key_of(i)).value(), i % 2 == 1) << i;
  EXPECT_EQ(other.size().value(), std::int64_t(kPairs / 2));
  ASSERT_TRUE(other.clear());
  EXPECT_EQ(map.size().value(), 0);
  EXPECT_EQ(map.stats().value().pairs, 0u);
  EXPECT_EQ(map.stats().value().overflow_buckets, 0u);
}

TEST(HashMap, GivesAllMemoryBack) {
  test::LocalCluster cluster(2, roomy());
  const auto used = [&] {
    std::uint64_t bytes = 0;
    for (NodeId node = 0; node < 2; ++node)
      bytes += cluster[node].stats().memory_bytes - cluster[node].stats().memory_free_bytes;
    return bytes;
  };
  const std::uint64_t before = used();
  HashMap map(cluster[0]);
  HashMap other(cluster[1], map.address());
  for (std::size_t i = 0; i < 3000; ++i)
    (i % 2 ? map : other).put(key_of(i), std::string(i % 900, 'x')).status().or_throw();
  const std::uint64_t full = used();
  for (std::size_t round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < 3000; ++i)
      ((i + round) % 2 ? map : other).put(key_of(i), std::string(i % 900, 'y')).status().or_throw();
  }
  EXPECT_LT(used(), full + (full - before) / 4);
  ASSERT_TRUE(map.destroy());
  // What one node frees of another's that one hears of later: with the next call there at the latest.
  for (NodeId node = 0; node < 2; ++node) {
    const auto block = cluster[node].allocate(64, Placement::on(NodeId(1 - node)));
    ASSERT_TRUE(cluster[node].free(block.value()));
  }
  for (int i = 0; i < 5000 && used() != before; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(used(), before);
}

TEST(HashMap, ScanSeesAllWhileTheTableGrows) {
  test::LocalCluster cluster(1, roomy());
  HashMap map(cluster[0]);
  for (std::size_t i = 0; i < 1000; ++i) map.put(key_of(i), "there").status().or_throw();
  std::set<std::string, std::less<>> seen;
  std::size_t more = 0;
  std::uint64_t cursor = 0;
  do {
    cursor = map.scan(cursor,
                      [&](std::string_view key, std::string_view value) {
                        EXPECT_TRUE(value != "there" || seen.emplace(key).second) << key;
                        return true;
                      })
                 .value();
    for (int i = 0; i < 50 && more < 20000; ++i) map.put("more" + std::to_string(more++), "more").status().or_throw();
  } while (cursor != 0);
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(HashMap, ManyAtOnce) {
  test::LocalCluster cluster(2, roomy());
  HashMap map(cluster[0]);
  HashMap other(cluster[1], map.address());
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < 500; ++i) keys.push_back(key_of(i));
  std::vector<HashMap::KeyValue> pairs;
  for (const std::string& key : keys) pairs.emplace_back(key, key);
  pairs.emplace_back(keys[0], "last");
  EXPECT_EQ(map.put_many(pairs).value(), 500u);
  EXPECT_EQ(map.put_many({}).value(), 0u);
  const std::vector<HashMap::KeyValue> same{
      {"same", "1"}, {"same", "22"}, {"other", "3"}, {"same", "4"}, {"same", "55"}};
  EXPECT_EQ(map.put_many(same).value(), 2u);
  EXPECT_EQ(other.get("same").value(), "55");
  EXPECT_TRUE(map.erase("same").value() && map.erase("other").value());
  std::vector<std::string_view> asked(keys.begin(), keys.end());
  asked.push_back("nobody");
  std::size_t next = 0;
  ASSERT_TRUE(other.get_many(asked, [&](std::size_t index, std::optional<std::string_view> value) {
    EXPECT_EQ(index, next++);
    if (index == 0) {
      EXPECT_EQ(value, "last");
    } else if (index < keys.size()) {
      EXPECT_EQ(value, keys[index]);
    } else {
      EXPECT_FALSE(value);
    }
  }));
  EXPECT_EQ(next, 501u);
}

TEST(HashMap, AStepChangesSeveralKeys) {
  test::LocalCluster cluster(2, roomy());
  HashMap map(cluster[0], {.seed = 1});  // the key that is not asked for is in another bucket
  map.put("a", "1").status().or_throw();
  const std::vector<std::string_view> keys{"a", "b", "c", "a"};
  ASSERT_TRUE(map.together(keys, [](HashMap::Step& step) -> Status {
    EXPECT_EQ(step.get("a").value(), "1");
    EXPECT_TRUE(step.put("b", "2").value());
    EXPECT_EQ(step.get("b").value(), "2");
    EXPECT_FALSE(step.put("b", "longer").value());
    EXPECT_EQ(step.get("b").value(), "longer");
    EXPECT_TRUE(step.erase("a").value());
    EXPECT_FALSE(step.erase("c").value());
    EXPECT_EQ(step.get("d-is-not-asked-for").status().code(), Errc::kInvalidArgument);
    return {};
  }));
  EXPECT_EQ(HashMap(cluster[1], map.address()).get("b").value(), "longer");
  EXPECT_FALSE(map.contains("a").value());
  EXPECT_EQ(map.size().value(), 1);
  const Status refused = map.together(keys, [](HashMap::Step&) { return Status(Errc::kRefused, "no"); });
  EXPECT_EQ(refused.code(), Errc::kRefused);
  EXPECT_TRUE(map.together({}, [](HashMap::Step&) { return Status(); }));
  map.put("a", "still works").status().or_throw();
}

TEST(HashMap, StepsMakeTheTableGrowToo) {
  test::LocalCluster cluster(2, roomy());
  HashMap map(cluster[0]);
  constexpr std::size_t kPairs = 20'000, kEach = 10;
  for (std::size_t first = 0; first < kPairs; first += kEach) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kEach; ++i) names.push_back(key_of(first + i));
    const std::vector<std::string_view> keys(names.begin(), names.end());
    const Status status = map.together(keys, [&](HashMap::Step& step) -> Status {
      for (const std::string_view key : keys) {
        if (const auto put = step.put(key, key); !put.ok()) return put.status();
      }
      return {};
    });
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  const HashMapStats stats = map.stats().value();
  EXPECT_EQ(stats.pairs, kPairs);
  EXPECT_GT(stats.buckets, kPairs / 31);
  EXPECT_LT(stats.overflow_buckets, stats.buckets / 20);
  for (std::size_t i = 0; i < kPairs; ++i) ASSERT_EQ(map.get(key_of(i)).value(), key_of(i));
}

TEST(HashMap, TypedKeysAndValues) {
  test::LocalCluster cluster(1, roomy());
  struct Point {
    double x, y;
  };
  HashMapOf<std::uint64_t, Point> points(cluster[0]);
  EXPECT_FALSE(points.get(7).value());
  EXPECT_TRUE(points.put(7, {1, 2}).value());
  EXPECT_EQ(points.get(7).value()->y, 2);
  HashMapOf<std::uint32_t, std::int32_t> counts(cluster[0]);
  EXPECT_EQ(counts.increment(1).value(), 1);
  EXPECT_EQ(counts.increment(1, -5).value(), -4);
  EXPECT_TRUE(counts.compare_and_swap(1, -4, 10).value());
  std::int64_t sum = 0;
  ASSERT_TRUE(counts.for_each([&](std::uint32_t key, std::int32_t value) { return sum += key + value, true; }));
  EXPECT_EQ(sum, 11);
  EXPECT_TRUE(counts.erase(1).value());
  EXPECT_EQ(counts.size().value(), 0);
}

TEST(HashMap, OneNameIsOneMap) {
  test::LocalCluster cluster(3, roomy());
  cluster.in_parallel([&](NodeId node) {
    HashMap map(cluster[node], "shared");
    map.increment("visits").status().or_throw();
    HashMap again(cluster[node], "shared");
    EXPECT_EQ(again.address(), map.address());
    cluster[node].barrier().or_throw();
    EXPECT_EQ(again.get("visits").value(), "3");
  });
}

TEST(HashMap, NoMapAtAnAddressIsAnError) {
  test::LocalCluster cluster(1, roomy());
  const GlobalAddress nothing = cluster[0].allocate(4096).value();
  EXPECT_THROW(HashMap(cluster[0], nothing), Error);
  EXPECT_THROW(HashMap(cluster[0], GlobalAddress()), Error);
}

TEST(HashMap, FullMemoryIsAnErrorAndNothingIsLost) {
  Options options = roomy();
  options.memory_bytes = 1 << 20;
  test::LocalCluster cluster(2, options);
  HashMap map(cluster[0]);
  std::size_t put = 0;
  Status status;
  for (; status.ok(); put += status.ok()) status = map.put(key_of(put), std::string(400, 'x')).status();
  EXPECT_EQ(status.code(), Errc::kOutOfMemory);
  EXPECT_GT(put, 1000u);
  for (std::size_t i = 0; i < put; ++i) ASSERT_EQ(map.get(key_of(i)).value()->size(), 400u) << i;
  EXPECT_EQ(map.size().value(), std::int64_t(put));
  // What is as long as before, and here, needs no memory.
  std::size_t replaced = 0;
  for (std::size_t i = 0; i < put; ++i) replaced += map.put(key_of(i), std::string(400, 'z')).ok();
  EXPECT_GT(replaced * 5, put * 2) << replaced << " of " << put;
  for (std::size_t i = 0; i < put; i += 2) EXPECT_TRUE(map.erase(key_of(i)).value());
  EXPECT_TRUE(map.put(key_of(0), std::string(400, 'y')).ok());
}

/// Against the rules, and an error wherever the bucket is: what is changed under the lock is not changed beside it.
TEST(HashMap, WhoCallsTheMapFromAnUpdateIsTold) {
  test::LocalCluster cluster(2, roomy());
  HashMap map(cluster[0]);
  std::thread([&] {
    HashMap mine(cluster[1], map.address());
    for (std::size_t i = 0; i < 100; ++i) {
      ASSERT_TRUE(mine.put(key_of(i), "old").ok());
      const auto done = mine.update(key_of(i), [&](auto, std::string& next) {
        EXPECT_EQ(mine.put(key_of(i), "inner").status().code(), Errc::kWouldDeadlock);
        next = "new";
        return Change::kPut;
      });
      ASSERT_EQ(done.value(), Change::kPut);
      ASSERT_EQ(mine.get(key_of(i)).value(), "new");
    }
  }).join();
}

/// The bucket can still be read here, and no put gets as far as its home.
TEST(HashMap, PutsThatADeadHomeMakesFailLoseNoMemory) {
  Options options = roomy();
  options.memory_bytes = 4 << 20;
  options.read_in_place = false;  // copies of buckets are here
  test::LocalCluster cluster(2, options);
  HashMap map(cluster[1]);
  for (std::size_t i = 0; i < 20; ++i) ASSERT_TRUE(map.put(key_of(i), "v").ok());
  std::thread([&] {
    HashMap other(cluster[0], map.address());
    for (std::size_t i = 0; i < 20; ++i) ASSERT_TRUE(other.put(key_of(i), "w").ok());
  }).join();
  for (std::size_t i = 0; i < 20; ++i) ASSERT_TRUE(map.get(key_of(i)).ok());
  cluster.hub().kill(0);
  std::vector<std::size_t> failing;
  for (std::size_t i = 0; i < 20 && failing.size() < 2; ++i) {  // each of them takes its time
    if (!map.put(key_of(i), std::string(1000, 'x')).ok()) failing.push_back(i);
  }
  ASSERT_FALSE(failing.empty());
  const std::uint64_t before = cluster[1].stats().memory_free_bytes;
  for (int round = 0; round < 2; ++round) {
    for (const std::size_t i : failing) {
      EXPECT_EQ(map.put(key_of(i), std::string(1000, 'x')).status().code(), Errc::kNodeDied);
    }
  }
  EXPECT_EQ(cluster[1].stats().memory_free_bytes, before);
}

}  // namespace
}  // namespace atoll
