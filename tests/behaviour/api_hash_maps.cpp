// Hash maps that all nodes use at once.
#include <map>
#include <thread>
#include <vector>

#include "behaviour/together.hpp"

namespace atoll::test {
namespace {

class HashMaps : public Together {
 protected:
  /// A map that all nodes have, made by node 0.
  static HashMap shared_map() {
    return HashMap(node(), shared(0, [] { return HashMap(node()).address(); }));
  }
  static std::string key_of(std::uint64_t number) { return "key:" + std::to_string(number); }
};

TEST_F(HashMaps, WhatOneNodePutsAllOthersGet) {
  HashMap map = shared_map();
  constexpr std::uint64_t kPairs = 400;
  for (std::uint64_t i = 0; i < kPairs; ++i) {
    if (i % count() != id()) continue;
    EXPECT_TRUE(map.put(key_of(i), std::string(i % 300, char('a' + i % 26))).value());
  }
  meet();
  EXPECT_EQ(map.size().value(), std::int64_t(kPairs));
  for (std::uint64_t i = 0; i < kPairs; ++i) {
    EXPECT_EQ(map.get(key_of(i)).value(), std::string(i % 300, char('a' + i % 26))) << i;
  }
  std::map<std::string, std::string, std::less<>> seen;
  ASSERT_TRUE(
      map.for_each([&](std::string_view key, std::string_view value) { return seen.emplace(key, value).second; }));
  EXPECT_EQ(seen.size(), kPairs);
  meet();
  // Each node erases what the one before it has put.
  for (std::uint64_t i = 0; i < kPairs; ++i) {
    if (i % count() != next()) continue;
    EXPECT_TRUE(map.erase(key_of(i)).value()) << i;
  }
  meet();
  EXPECT_EQ(map.size().value(), 0);
  EXPECT_FALSE(map.get(key_of(0)).value());
}

TEST_F(HashMaps, CountExactly) {
  HashMap map = shared_map();
  constexpr int kThreads = 3, kRounds = 60;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) map.increment(key_of(std::uint64_t(i + t) % 3)).status().or_throw();
    });
  }
  for (auto& thread : threads) thread.join();
  meet();
  std::int64_t sum = 0;
  for (std::uint64_t i = 0; i < 3; ++i) sum += std::stoll(map.get(key_of(i)).value().value());
  EXPECT_EQ(sum, std::int64_t(count()) * kThreads * kRounds);
}

TEST_F(HashMaps, OneNodeWinsAKey) {
  HashMap map = shared_map();
  int won = 0;
  for (std::uint64_t i = 0; i < 50; ++i) won += map.put_if_absent(key_of(i), std::to_string(id())).value() ? 1 : 0;
  map.increment("won", won).status().or_throw();
  meet();
  EXPECT_EQ(map.get("won").value(), "50");
}

TEST_F(HashMaps, AStepIsSeenWholeByAll) {
  HashMap map = shared_map();
  const std::vector<std::string_view> keys{"left", "right"};
  for (int i = 0; i < 40; ++i) {
    map.together(keys,
                 [&](HashMap::Step& step) -> Status {
                   const auto left = step.get("left");
                   if (!left.ok()) return left.status();
                   const std::string next = std::to_string((*left ? std::stoi(std::string(**left)) : 0) + 1);
                   for (const std::string_view key : keys) {
                     if (const auto put = step.put(key, next); !put.ok()) return put.status();
                   }
                   return {};
                 })
        .or_throw();
    std::string seen[2];
    map.get_together(keys, [&](std::size_t k, auto value) { seen[k] = value.value_or("none"); }).or_throw();
    EXPECT_EQ(seen[0], seen[1]);
  }
  meet();
  EXPECT_EQ(map.get("right").value(), std::to_string(40 * count()));
}

TEST_F(HashMaps, ManyKeysAtOnce) {
  HashMap map = shared_map();
  std::vector<std::string> own;
  for (std::uint64_t i = 0; i < 300; ++i) own.push_back(key_of(i * count() + id()));
  std::vector<HashMap::KeyValue> pairs;
  for (const std::string& key : own) pairs.emplace_back(key, key);
  EXPECT_EQ(map.put_many(pairs).value(), own.size());
  meet();
  std::vector<std::string> others;
  for (std::uint64_t i = 0; i < 300; ++i) others.push_back(key_of(i * count() + next()));
  const std::vector<std::string_view> keys(others.begin(), others.end());
  std::size_t found = 0;
  ASSERT_TRUE(map.get_many(keys, [&](std::size_t i, auto value) { found += value == keys[i] ? 1 : 0; }));
  EXPECT_EQ(found, others.size());
}

}  // namespace
}  // namespace atoll::test
