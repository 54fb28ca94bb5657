#include "storage/two_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <vector>

#include "base/random.hpp"
#include "support/seed.hpp"

namespace atoll::storage {
namespace {

/// The same, written down as plainly as can be. Oldest first.
class Model {
 public:
  using Ids = std::deque<std::uint64_t>;

  void set_capacity(std::uint64_t resident) {
    capacity_ = resident;
    trim();
  }
  void admit(std::uint64_t id) { (erase(ghosts_, id) ? lru_ : fifo_).push_back(id); }
  void touch(std::uint64_t id) {
    if (erase(lru_, id)) lru_.push_back(id);
  }
  void remove(std::uint64_t id, bool remember) {
    if (erase(fifo_, id) && remember) ghosts_.push_back(id);
    erase(lru_, id);
    trim();
  }
  void forget(std::uint64_t id) {
    erase(fifo_, id);
    erase(lru_, id);
    erase(ghosts_, id);
  }
  [[nodiscard]] bool is_resident(std::uint64_t id) const { return has(fifo_, id) || has(lru_, id); }
  [[nodiscard]] std::uint64_t resident() const { return fifo_.size() + lru_.size(); }
  /// In which order they should go.
  [[nodiscard]] std::vector<std::uint64_t> order() const {
    const std::size_t most = capacity_ / 4;
    const std::size_t over = fifo_.size() > most ? fifo_.size() - most : 0;
    std::vector<std::uint64_t> ids(fifo_.begin(), fifo_.begin() + long(over));
    ids.insert(ids.end(), lru_.begin(), lru_.end());
    ids.insert(ids.end(), fifo_.begin() + long(over), fifo_.end());
    return ids;
  }

 private:
  static bool has(const Ids& ids, std::uint64_t id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); }
  static bool erase(Ids& ids, std::uint64_t id) { return std::erase(ids, id) > 0; }
  void trim() {
    while (ghosts_.size() > capacity_ / 2) ghosts_.pop_front();
  }

  std::uint64_t capacity_ = 0;
  Ids fifo_, lru_, ghosts_;
};

std::vector<std::uint64_t> order_of(TwoQueue& queue) {
  std::vector<std::uint64_t> ids;
  const auto none = queue.choose(
      [&ids](std::uint64_t id) {
        ids.push_back(id);
        return false;
      },
      1u << 30);
  EXPECT_EQ(none, TwoQueue::kNone);
  return ids;
}

TEST(TwoQueue, DoesWhatItsModelDoes) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  base::Random random(seed);
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t frames = 1 + random.below(60);
    TwoQueue queue(frames);
    Model model;
    model.set_capacity(frames);
    for (int step = 0; step < test::scaled(3000); ++step) {
      const std::uint64_t id = random.below(frames);
      ASSERT_EQ(queue.is_resident(id), model.is_resident(id));
      const std::uint64_t what = random.below(100);
      if (what < 1) {
        const std::uint64_t capacity = random.below(frames + 1);
        queue.set_capacity(capacity);
        model.set_capacity(capacity);
      } else if (what < 5) {
        queue.forget(id);
        model.forget(id);
      } else if (what < 50) {
        queue.touch(id);
        model.touch(id);
      } else if (model.is_resident(id)) {
        const bool remember = random.below(4) > 0;
        queue.remove(id, remember);
        model.remove(id, remember);
      } else {
        queue.admit(id);
        model.admit(id);
      }
      ASSERT_EQ(queue.resident(), model.resident());
      ASSERT_EQ(order_of(queue), model.order());
    }
  }
}

TEST(TwoQueue, AsksInOrderAndNotTooMany) {
  TwoQueue queue(100);
  queue.set_capacity(8);  // a FIFO of 2
  for (std::uint64_t id = 0; id < 5; ++id) queue.admit(id);
  int asked = 0;
  const auto third = [&asked](std::uint64_t) { return ++asked == 3; };
  EXPECT_EQ(queue.choose(third, 2), TwoQueue::kNone);
  EXPECT_EQ(asked, 2);
  asked = 0;
  EXPECT_EQ(queue.choose(third, 3), 2u);
  EXPECT_EQ(queue.choose([](std::uint64_t id) { return id == 4; }, 100), 4u);  // the rest of the FIFO, at last
  EXPECT_EQ(queue.choose([](std::uint64_t) { return true; }, 0), TwoQueue::kNone);
}

TEST(TwoQueue, WhatComesBackSoonIsKept) {
  TwoQueue queue(100);
  queue.set_capacity(8);
  queue.admit(1);
  queue.remove(1, true);
  queue.admit(1);  // into the LRU
  queue.admit(2);
  queue.remove(2, false);
  queue.admit(2);  // not remembered: into the FIFO
  queue.admit(3);
  queue.admit(4);
  EXPECT_EQ(order_of(queue), (std::vector<std::uint64_t>{2, 1, 3, 4}));
  queue.remove(1, true);  // of the LRU there are no ghosts
  queue.admit(1);
  EXPECT_EQ(order_of(queue), (std::vector<std::uint64_t>{2, 3, 4, 1}));
}

/// A cache with this replacement: how many of these uses find their page.
class Cache {
 public:
  Cache(std::uint64_t pages, std::uint64_t capacity) : queue_(pages), capacity_(capacity) {
    queue_.set_capacity(capacity);
  }
  bool use(std::uint64_t page) {
    if (queue_.is_resident(page)) {
      queue_.touch(page);
      return true;
    }
    if (queue_.resident() == capacity_) {
      queue_.remove(queue_.choose([](std::uint64_t) { return true; }, 1), true);
    }
    queue_.admit(page);
    return false;
  }

 private:
  TwoQueue queue_;
  std::uint64_t capacity_;
};

TEST(TwoQueue, AScanDoesNotWashOutWhatIsUsed) {
  constexpr std::uint64_t kHot = 60, kCapacity = 100, kPages = 100'000;
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  base::Random random(seed);
  Cache cache(kPages, kCapacity);
  std::uint64_t cold = kHot;
  const auto use_hot = [&](int uses) {
    int hits = 0;
    for (int k = 0; k < uses; ++k) hits += cache.use(random.below(kHot)) ? 1 : 0;
    return hits;
  };
  for (int k = 0; k < 2000; ++k) {  // hot pages among others that are used once
    (void)use_hot(1);
    (void)cache.use(cold++);
  }
  for (int k = 0; k < 50'000; ++k) EXPECT_FALSE(cache.use(cold++));  // nothing but a scan: an LRU has nothing else then
  int kept = 0;
  for (std::uint64_t page = 0; page < kHot; ++page) kept += cache.use(page) ? 1 : 0;
  EXPECT_GE(kept, int(kHot * 9 / 10));
}

#if !defined(ATOLL_TSAN) && !defined(ATOLL_ASAN)  // which have memory of their own for all that is allocated
std::uint64_t resident_pages() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident;
}

TEST(TwoQueue, CostsNothingForIdsThatAreNotUsed) {
  constexpr std::uint64_t kFrames = 1ull << 26;  // 768 MiB, if they were touched
  const std::uint64_t before = resident_pages();
  TwoQueue queue(kFrames);
  queue.admit(kFrames - 1);
  queue.admit(0);
  EXPECT_EQ(queue.resident(), 2u);
  EXPECT_EQ(queue.choose([](std::uint64_t) { return true; }, 1), kFrames - 1);
  EXPECT_LT(resident_pages() - before, 8192u);  // 32 MiB
}
#endif

}  // namespace
}  // namespace atoll::storage
