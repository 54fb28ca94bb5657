// What a program can do wrong with the API: every mistake is an error value with a reason, and damages nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "support/local_cluster.hpp"

namespace atoll::test {
namespace {

using namespace std::chrono_literals;
using Word = std::uint64_t;

/// Every call that takes an address, on this address; what each answers.
std::vector<std::pair<const char*, Status>> everything_on(Node& node, GlobalAddress at, std::uint64_t bytes = 8) {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(bytes, 4096));
  const global_ptr<Word> word(at);
  std::vector<std::pair<const char*, Status>> answers;
  answers.emplace_back("read<T>", node.read(word).status());
  answers.emplace_back("write<T>", node.write(word, 1));
  answers.emplace_back("read", node.read(at, buffer));
  answers.emplace_back("write", node.write(at, buffer));
  answers.emplace_back("fetch_add", node.fetch_add(word, 1).status());
  answers.emplace_back("exchange", node.exchange(word, 1).status());
  answers.emplace_back("compare_exchange", node.compare_exchange(word, 0, 1).status());
  answers.emplace_back("atomic", node.atomic(at, 8, "nothing", {}));
  answers.emplace_back("read_lock", node.read_lock(at, bytes));
  answers.emplace_back("write_lock", node.write_lock(at, bytes));
  answers.emplace_back("try_read_lock", node.try_read_lock(at, bytes));
  answers.emplace_back("try_write_lock", node.try_write_lock(at, bytes));
  answers.emplace_back("publish", node.publish("name", at));
  answers.emplace_back("free", node.free(at));
  return answers;
}

TEST(BadInput, NullIsRefusedByEveryCall) {
  LocalCluster cluster(2);
  for (NodeId id = 0; id < 2; ++id) {
    for (const auto& [call, status] : everything_on(cluster[id], GlobalAddress())) {
      if (std::string_view(call) == "read<T>" || std::string_view(call) == "write<T>") {
        EXPECT_FALSE(status.ok()) << call;  // whatever the reason, null is never a value
      } else {
        EXPECT_EQ(status.code(), Errc::kNullAddress) << call << ": " << status.to_string();
      }
    }
    EXPECT_EQ(cluster[id].unlock(GlobalAddress(), 8).code(), Errc::kNotHeld);
  }
}

TEST(BadInput, AddressesThatNoNodeHasAreRefusedByEveryCall) {
  LocalCluster cluster(2);
  const std::uint64_t memory = cluster[0].stats().memory_bytes;
  const GlobalAddress bad[] = {
      GlobalAddress::make(2, 4096),                              // no such node
      GlobalAddress::make(kNoNode, 4096),                        //
      GlobalAddress::make(0, memory),                            // beyond the memory of a node
      GlobalAddress::make(1, memory),                            //
      GlobalAddress::make(1, GlobalAddress::kOffsetMask),        //
      GlobalAddress::make(1, 4096, GlobalAddress::Kind::kFile),  // not memory
      GlobalAddress(GlobalAddress::make(0, 4096).bits() | std::uint64_t{3} << GlobalAddress::kKindShift),
      GlobalAddress(~std::uint64_t{0}),
  };
  for (NodeId id = 0; id < 2; ++id) {
    for (const GlobalAddress address : bad) {
      for (const auto& [call, status] : everything_on(cluster[id], address)) {
        EXPECT_EQ(status.code(), Errc::kBadAddress) << call << " of " << address.to_string();
      }
      EXPECT_EQ(cluster[id].unlock(address, 8).code(), Errc::kNotHeld);
    }
  }
}

TEST(BadInput, RangesThatLeaveTheMemoryAreRefused) {
  LocalCluster cluster(2);
  const std::uint64_t memory = cluster[0].stats().memory_bytes;
  std::vector<std::byte> buffer(128);
  for (const NodeId home : {NodeId(0), NodeId(1)}) {
    Node& node = cluster[0];
    const GlobalAddress end = GlobalAddress::make(home, memory - 64);
    EXPECT_TRUE(node.read(end, {buffer.data(), 64}).ok());
    EXPECT_EQ(node.read(end, {buffer.data(), 65}).code(), Errc::kBadAddress);
    EXPECT_EQ(node.write(end, {buffer.data(), 65}).code(), Errc::kBadAddress);
    EXPECT_EQ(node.read(global_ptr<Word>(end + 60)).status().code(), Errc::kBadAddress);
    EXPECT_EQ(node.write(global_ptr<Word>(end + 60), 1).code(), Errc::kBadAddress);
    for (const std::uint64_t bytes : {std::uint64_t{65}, memory, UINT64_MAX, UINT64_MAX - end.offset() + 1}) {
      EXPECT_EQ(node.read_lock(end, bytes).code(), Errc::kBadAddress) << bytes;
      EXPECT_EQ(node.write_lock(end, bytes).code(), Errc::kBadAddress) << bytes;
      EXPECT_EQ(node.try_read_lock(end, bytes).code(), Errc::kBadAddress) << bytes;
      EXPECT_EQ(node.try_write_lock(end, bytes).code(), Errc::kBadAddress) << bytes;
      EXPECT_EQ(node.unlock(end, bytes).code(), Errc::kNotHeld) << bytes;
    }
  }
}

TEST(BadInput, EmptyRanges) {
  LocalCluster cluster(2);
  const GlobalAddress at = cluster[0].allocate(64, Placement::on(1)).value();
  EXPECT_TRUE(cluster[0].read(at, std::span<std::byte>()).ok());
  EXPECT_TRUE(cluster[0].write(at, std::span<const std::byte>()).ok());
  EXPECT_EQ(cluster[0].read_lock(at, 0).code(), Errc::kInvalidArgument);
  EXPECT_EQ(cluster[0].write_lock(at, 0).code(), Errc::kInvalidArgument);
  EXPECT_EQ(cluster[0].try_read_lock(at, 0).code(), Errc::kInvalidArgument);
  EXPECT_EQ(cluster[0].try_write_lock(at, 0).code(), Errc::kInvalidArgument);
  EXPECT_EQ(cluster[0].unlock(at, 0).code(), Errc::kNotHeld);
  EXPECT_EQ(cluster[0].atomic(at, 0, "nothing", {}).code(), Errc::kInvalidArgument);
}

// ---- allocation ----

TEST(BadInput, SizesThatMakeNoSense) {
  LocalCluster cluster(2);
  const Placement places[] = {Placement::any(), Placement::local(), Placement::remote(), Placement::on(1),
                              Placement::near(GlobalAddress::make(1, 4096))};
  const std::uint64_t memory = cluster[0].stats().memory_bytes;
  const std::uint64_t free_before = cluster[1].stats().memory_free_bytes;
  for (const Placement& place : places) {
    EXPECT_EQ(cluster[0].allocate(0, place).status().code(), Errc::kInvalidArgument);
    for (const std::uint64_t bytes : {memory, memory + 1, std::uint64_t{1} << 46, UINT64_MAX - 4095, UINT64_MAX}) {
      EXPECT_EQ(cluster[0].allocate(bytes, place).status().code(), Errc::kOutOfMemory) << bytes;
    }
    EXPECT_EQ(cluster[0].allocate<Word>(0, place).status().code(), Errc::kInvalidArgument);
    EXPECT_EQ(cluster[0].allocate<Word>(UINT64_MAX / 8 + 2, place).status().code(), Errc::kOutOfMemory);
  }
  EXPECT_EQ(cluster[1].stats().memory_free_bytes, free_before);
  EXPECT_TRUE(cluster[0].allocate(1).ok());
}

TEST(BadInput, PlacesThatDoNotExist) {
  LocalCluster cluster(2);
  EXPECT_EQ(cluster[0].allocate(8, Placement::on(2)).status().code(), Errc::kInvalidArgument);
  EXPECT_EQ(cluster[0].allocate(8, Placement::on(kNoNode)).status().code(), Errc::kInvalidArgument);
  EXPECT_EQ(cluster[0].allocate(8, Placement::near(GlobalAddress::make(9, 64))).status().code(),
            Errc::kInvalidArgument);
  LocalCluster alone(1);
  EXPECT_EQ(alone[0].allocate(8, Placement::remote()).status().code(), Errc::kInvalidArgument);
}

TEST(BadInput, FreeOfWhatIsNotAnAllocation) {
  LocalCluster cluster(3);
  for (const std::uint64_t bytes : {16, 3000, 200'000}) {
    for (NodeId home = 0; home < 3; ++home) {
      const GlobalAddress block = cluster[home].allocate(bytes, Placement::local()).value();
      const GlobalAddress neighbour = cluster[home].allocate(bytes, Placement::local()).value();
      ASSERT_TRUE(cluster[0].write(global_ptr<Word>(neighbour), 4711).ok());
      ASSERT_TRUE(cluster[0].fence().ok());
      for (const std::int64_t inside : {1, 8, int(bytes) - 1}) {
        EXPECT_EQ(cluster[2].free(block + inside).code(), Errc::kNotAllocated) << bytes << "+" << inside;
      }
      EXPECT_TRUE(cluster[2].free(block).ok());  // a third node may
      for (NodeId id = 0; id < 3; ++id) EXPECT_EQ(cluster[id].free(block).code(), Errc::kNotAllocated);
      EXPECT_EQ(cluster[1].read(global_ptr<Word>(neighbour)).value(), 4711u);
      EXPECT_TRUE(cluster[1].free(neighbour).ok());
    }
  }
  EXPECT_EQ(cluster[0].free(GlobalAddress::make(1, 64)).code(), Errc::kNotAllocated);  // the page that is never given
  EXPECT_EQ(cluster[0].free(GlobalAddress::make(1, 1 << 20)).code(), Errc::kNotAllocated);
}

TEST(BadInput, FreedMemoryIsNobodysButDoesNoHarm) {
  LocalCluster cluster(2);
  const auto block = cluster[0].allocate<Word>(8, Placement::on(1)).value();
  ASSERT_TRUE(cluster[0].write(block, 5).ok());
  ASSERT_TRUE(cluster[0].fence().ok());
  ASSERT_TRUE(cluster[0].free(block).ok());
  // A program that goes on using it gets bytes, not a crash; the next owner gets zeroes.
  EXPECT_TRUE(cluster[0].read(block).ok());
  EXPECT_TRUE(cluster[0].write(block, 6).ok());
  EXPECT_TRUE(cluster[0].fence().ok());
  for (int i = 0; i < 2000; ++i) {
    const auto next = cluster[1].allocate<Word>(8, Placement::local()).value();
    ASSERT_EQ(cluster[1].read(next).value(), 0u);
    if (next == block) return;
  }
  FAIL() << "the freed block was never given out again";
}

TEST(BadInput, NoMemoryLeftAnywhere) {
  LocalCluster cluster(2);
  std::vector<GlobalAddress> blocks;
  constexpr std::uint64_t kBytes = 60'000;
  Status last;
  while (true) {
    const auto got = cluster[0].allocate(kBytes);
    last = got.status();
    if (!got.ok()) break;
    blocks.push_back(*got);
  }
  EXPECT_EQ(last.code(), Errc::kOutOfMemory) << last.to_string();
  EXPECT_NE(std::string_view(last.what()), "");
  for (NodeId id = 0; id < 2; ++id) {
    const auto on_id = [&](GlobalAddress block) { return block.node() == id; };
    EXPECT_GT(std::count_if(blocks.begin(), blocks.end(), on_id), 40) << "node " << id << " was not filled";
  }
  EXPECT_EQ(cluster[1].allocate(kBytes, Placement::remote()).status().code(), Errc::kOutOfMemory);
  // One back, one again, from the other side.
  ASSERT_TRUE(cluster[1].free(blocks.back()).ok());
  const auto again = cluster[1].allocate(kBytes);
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(cluster[1].read(global_ptr<Word>(*again)).value(), 0u);
  blocks.back() = *again;
  for (const GlobalAddress block : blocks) EXPECT_TRUE(cluster[1].free(block).ok());
  EXPECT_TRUE(cluster[0].allocate(3 << 20).ok());
}

// ---- locks ----

TEST(BadInput, UnlockOfWhatIsNotHeld) {
  LocalCluster cluster(2);
  Node& node = cluster[0];
  const std::uint64_t line = node.line_bytes();
  const GlobalAddress at = node.allocate(4 * line, Placement::on(1)).value();
  EXPECT_EQ(node.unlock(at, 8).code(), Errc::kNotHeld);
  ASSERT_TRUE(node.write_lock(at, 3 * line).ok());
  EXPECT_EQ(node.unlock(at, line).code(), Errc::kNotHeld);  // a part of it
  EXPECT_EQ(node.unlock(at + std::int64_t(line), line).code(), Errc::kNotHeld);
  EXPECT_EQ(node.unlock(at, 4 * line).code(), Errc::kNotHeld);  // more than it
  std::thread([&] { EXPECT_EQ(node.unlock(at, 3 * line).code(), Errc::kNotHeld); }).join();
  EXPECT_EQ(cluster[1].unlock(at, 3 * line).code(), Errc::kNotHeld);  // this thread, but the other node
  // None of that has opened it.
  EXPECT_EQ(cluster[1].try_write_lock(at + std::int64_t(2 * line), 8).code(), Errc::kRefused);
  EXPECT_TRUE(node.unlock(at, 3 * line).ok());
  EXPECT_EQ(node.unlock(at, 3 * line).code(), Errc::kNotHeld);  // twice
  EXPECT_TRUE(cluster[1].try_write_lock(at, 3 * line).ok());
  EXPECT_TRUE(cluster[1].unlock(at, 3 * line).ok());
}

TEST(BadInput, LocksOfOneThreadThatExcludeEachOther) {
  LocalCluster cluster(2);
  const std::uint64_t line = cluster[0].line_bytes();
  for (NodeId home = 0; home < 2; ++home) {
    Node& node = cluster[0];
    const GlobalAddress at = node.allocate(4 * line, Placement::on(home)).value();
    ASSERT_TRUE(node.write_lock(at, 8).ok());
    EXPECT_EQ(node.write_lock(at, 8).code(), Errc::kWouldDeadlock);
    EXPECT_EQ(node.write_lock(at + 64, 8).code(), Errc::kWouldDeadlock);  // locks cover whole lines
    EXPECT_EQ(node.read_lock(at, 8).code(), Errc::kWouldDeadlock);
    EXPECT_EQ(node.try_write_lock(at, 8).code(), Errc::kWouldDeadlock);
    // The lock in the middle of a range: what was locked before it is given back.
    ASSERT_TRUE(node.write_lock(at + std::int64_t(2 * line), 8).ok());
    EXPECT_EQ(node.write_lock(at + std::int64_t(line), 3 * line).code(), Errc::kWouldDeadlock);
    EXPECT_TRUE(cluster[1].try_write_lock(at + std::int64_t(line), 8).ok());
    EXPECT_TRUE(cluster[1].unlock(at + std::int64_t(line), 8).ok());
    EXPECT_TRUE(node.unlock(at + std::int64_t(2 * line), 8).ok());
    EXPECT_TRUE(node.unlock(at, 8).ok());

    ASSERT_TRUE(node.read_lock(at, 8).ok());
    EXPECT_TRUE(node.read_lock(at, 8).ok());
    EXPECT_TRUE(node.try_read_lock(at + 8, 8).ok());
    EXPECT_EQ(node.write_lock(at, 8).code(), Errc::kWouldDeadlock);
    EXPECT_TRUE(node.unlock(at, 8).ok());
    EXPECT_TRUE(node.unlock(at + 8, 8).ok());
    EXPECT_EQ(cluster[1].try_write_lock(at, 8).code(), Errc::kRefused);  // one is left
    EXPECT_TRUE(node.unlock(at, 8).ok());
    EXPECT_TRUE(cluster[1].write_lock(at, 8).ok());
    EXPECT_TRUE(cluster[1].unlock(at, 8).ok());
  }
}

/// Were they to wait for each other's locks, as an upgrade would, neither would ever go on.
TEST(BadInput, WritingUnderAReadLockThatOthersMayHaveToo) {
  LocalCluster cluster(3);
  const auto word = cluster[2].allocate<std::uint64_t>(1, Placement::local()).value();
  cluster.in_parallel([&](NodeId id) {
    Node& node = cluster[id];
    ASSERT_TRUE(node.register_atomic("nothing", [](std::span<std::byte>, std::span<const std::byte>) {}).ok());
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(node.read_lock(word.address(), 8).ok());
      ASSERT_TRUE(node.barrier().ok());  // all have it
      EXPECT_EQ(node.write(word, 1).code(), Errc::kWouldDeadlock);
      EXPECT_EQ(node.fetch_add(word, 1).status().code(), Errc::kWouldDeadlock);
      EXPECT_EQ(node.atomic(word.address(), 8, "nothing", {}).code(), Errc::kWouldDeadlock);
      EXPECT_EQ(node.read(word).value(), 0u);
      ASSERT_TRUE(node.barrier().ok());
      ASSERT_TRUE(node.unlock(word.address(), 8).ok());
    }
  });
  std::thread([&] { EXPECT_TRUE(cluster[0].write(word, 1, Consistency::kTso).ok()); }).join();
}

/// A second read lock of a thread needs no turn: were it to queue behind a writer who waits for the first, neither
/// would ever go on.
TEST(BadInput, ASecondReadLockDoesNotWaitBehindAWriter) {
  LocalCluster cluster(2);
  for (NodeId home = 0; home < 2; ++home) {
    const GlobalAddress at = cluster[0].allocate(8, Placement::on(home)).value();
    ASSERT_TRUE(cluster[0].read_lock(at, 8).ok());
    std::thread writer([&] {
      EXPECT_TRUE(cluster[1].write_lock(at, 8).ok());
      EXPECT_TRUE(cluster[1].unlock(at, 8).ok());
    });
    while (cluster[1].stats().lock_misses + cluster[1].stats().lock_waits == 0) std::this_thread::yield();
    std::this_thread::sleep_for(20ms);  // long enough that the writer's request is here; no harm if it is not
    EXPECT_TRUE(cluster[0].read_lock(at, 8).ok());
    EXPECT_TRUE(cluster[0].unlock(at, 8).ok());
    EXPECT_TRUE(cluster[0].unlock(at, 8).ok());
    writer.join();
  }
}

TEST(BadInput, EverySlotOfTheCacheLocked) {
  LocalCluster cluster(2);
  Node& node = cluster[0];
  const std::uint64_t line = node.line_bytes();
  constexpr int kSlots = 64;
  const GlobalAddress base = node.allocate(line * (kSlots + 8), Placement::on(1)).value();
  const auto at = [&](int i) { return base + std::int64_t(std::uint64_t(i) * line); };
  for (int i = 0; i < kSlots; ++i) ASSERT_TRUE(node.write_lock(at(i), 8).ok()) << i;
  EXPECT_EQ(node.write_lock(at(kSlots), 8).code(), Errc::kCacheFull);
  EXPECT_EQ(node.read(global_ptr<Word>(at(kSlots))).status().code(), Errc::kCacheFull);
  EXPECT_EQ(node.fetch_add(global_ptr<Word>(at(kSlots)), 1).status().code(), Errc::kCacheFull);
  const Status wrote = node.write(at(kSlots), std::vector<std::byte>(line));
  EXPECT_EQ(wrote.ok() ? node.fence().code() : wrote.code(), Errc::kCacheFull);
  EXPECT_TRUE(node.write(global_ptr<Word>(at(kSlots + 2)), 1, Consistency::kTso).ok());  // the home does it: no slot
  const Status tried = node.try_write_lock(at(kSlots), 8);
  EXPECT_FALSE(tried.ok());
  // Local memory needs no slot.
  const auto here = node.allocate<Word>(1, Placement::local()).value();
  EXPECT_TRUE(node.write(here, 3).ok());
  // One unlocked, and all goes on.
  ASSERT_TRUE(node.unlock(at(0), 8).ok());
  EXPECT_TRUE(node.write_lock(at(kSlots), 8).ok());
  EXPECT_TRUE(node.unlock(at(kSlots), 8).ok());
  for (int i = 1; i < kSlots; ++i) EXPECT_TRUE(node.unlock(at(i), 8).ok());
  EXPECT_TRUE(node.read(global_ptr<Word>(at(kSlots + 1))).ok());
}

/// A full cache is the matter of who needs a slot, not of a thread that waits for something else.
TEST(BadInput, AFullCacheDoesNotDisturbOtherWaits) {
  LocalCluster cluster(2);
  Node& node = cluster[0];
  const std::uint64_t line = node.line_bytes();
  constexpr int kSlots = 64;
  const GlobalAddress base = node.allocate(line * (kSlots + 1), Placement::on(1)).value();
  const auto at = [&](int i) { return base + std::int64_t(std::uint64_t(i) * line); };
  const GlobalAddress local = node.allocate(8, Placement::local()).value();
  ASSERT_TRUE(cluster[1].write_lock(local, 8).ok());
  Status waited, locked;
  std::thread in_barrier([&] { waited = node.barrier(60s); });
  std::thread in_lock([&] {
    locked = node.write_lock(local, 8);
    if (locked.ok()) (void)node.unlock(local, 8);
  });
  for (int i = 0; i < kSlots; ++i) ASSERT_TRUE(node.write_lock(at(i), 8).ok()) << i;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(node.write_lock(at(kSlots), 8).code(), Errc::kCacheFull);
    std::this_thread::sleep_for(5ms);
  }
  ASSERT_TRUE(cluster[1].unlock(local, 8).ok());
  in_lock.join();
  EXPECT_TRUE(locked.ok()) << locked.to_string();
  EXPECT_TRUE(cluster[1].barrier(60s).ok());
  in_barrier.join();
  EXPECT_TRUE(waited.ok()) << waited.to_string();
  for (int i = 0; i < kSlots; ++i) EXPECT_TRUE(node.unlock(at(i), 8).ok());
}

// ---- atomics ----

TEST(BadInput, AtomicsThatAreMisalignedOrUnknown) {
  LocalCluster cluster(2);
  Node& node = cluster[0];
  const std::uint32_t line = node.line_bytes();
  const GlobalAddress at = node.allocate(2 * line, Placement::on(1)).value();
  for (const int off : {1, 2, 4, 7}) {
    EXPECT_EQ(node.fetch_add(global_ptr<Word>(at + off), 1).status().code(), Errc::kInvalidArgument) << off;
    EXPECT_EQ(node.exchange(global_ptr<Word>(at + off), 1).status().code(), Errc::kInvalidArgument) << off;
    EXPECT_EQ(node.compare_exchange(global_ptr<Word>(at + off), 0, 1).status().code(), Errc::kInvalidArgument) << off;
  }
  EXPECT_EQ(node.fetch_add(global_ptr<std::uint16_t>(at + 1), 1).status().code(), Errc::kInvalidArgument);
  EXPECT_EQ(node.fetch_add(global_ptr<std::uint32_t>(at + 2), 1).status().code(), Errc::kInvalidArgument);
  EXPECT_TRUE(node.fetch_add(global_ptr<std::uint8_t>(at + 1), 1).ok());

  EXPECT_EQ(node.register_atomic("", [](auto, auto) {}).code(), Errc::kInvalidArgument);
  EXPECT_EQ(node.register_atomic("empty", {}).code(), Errc::kInvalidArgument);
  ASSERT_TRUE(node.register_atomic("nothing", [](auto, auto) {}).ok());
  EXPECT_EQ(node.register_atomic("nothing", [](auto, auto) {}).code(), Errc::kAlreadyExists);
  EXPECT_EQ(node.atomic(at, 8, "unheard of", {}).code(), Errc::kNotFound);
  EXPECT_EQ(cluster[1].atomic(at, 8, "nothing", {}).code(), Errc::kNotFound);  // registered on node 0 alone
  EXPECT_EQ(node.atomic(at + (line - 4), 8, "nothing", {}).code(), Errc::kInvalidArgument);
  EXPECT_EQ(node.atomic(at, line + 1, "nothing", {}).code(), Errc::kInvalidArgument);
  EXPECT_EQ(node.atomic(at, UINT32_MAX, "nothing", {}).code(), Errc::kBadAddress);
  EXPECT_TRUE(node.atomic(at, line, "nothing", {}).ok());
}

TEST(BadInput, AnAtomicFunctionThatThrows) {
  LocalCluster cluster(2);
  for (NodeId id = 0; id < 2; ++id) {
    ASSERT_TRUE(cluster[id]
                    .register_atomic("throws",
                                     [](std::span<std::byte> target, auto) {
                                       target[0] = std::byte{1};  // which does not happen then
                                       throw std::runtime_error("no");
                                     })
                    .ok());
    ASSERT_TRUE(cluster[id].register_atomic("throws an int", [](auto, auto) { throw 7; }).ok());
    const GlobalAddress at = cluster[id].allocate(8, Placement::on(1)).value();
    EXPECT_EQ(cluster[id].atomic(at, 8, "throws", {}).code(), Errc::kInvalidArgument);
    EXPECT_EQ(cluster[id].read<std::uint64_t>(at).value(), 0u);
    EXPECT_EQ(cluster[id].atomic(at, 8, "throws an int", {}).code(), Errc::kInvalidArgument);
    EXPECT_TRUE(cluster[id].fetch_add(global_ptr<Word>(at), 1).ok());
  }
}

// ---- the cluster ----

TEST(BadInput, ABarrierThatTimesOutCanBeWaitedForAgain) {
  LocalCluster cluster(3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cluster[0].barrier(i == 0 ? 0ms : 30ms).code(), Errc::kDeadline);
    EXPECT_EQ(cluster[1].barrier(10ms).code(), Errc::kDeadline);
  }
  // One call of everyone is enough to let everyone through, however often some have given up before.
  std::array<Status, 3> passed;
  cluster.in_parallel([&](NodeId id) { passed[id] = cluster[id].barrier(20s); });
  for (const Status& status : passed) EXPECT_TRUE(status.ok()) << status.to_string();
  // And they are in step: the next one waits for all again.
  EXPECT_EQ(cluster[0].barrier(20ms).code(), Errc::kDeadline);
  cluster.in_parallel([&](NodeId id) { passed[id] = cluster[id].barrier(20s); });
  for (const Status& status : passed) EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST(BadInput, NamesThatMakeNoSense) {
  Options options = LocalCluster::small_options();
  Node node(options);  // a cluster of one, with the real table of names
  const GlobalAddress at = node.allocate(8).value();
  EXPECT_EQ(node.publish("", at).code(), Errc::kInvalidArgument);
  EXPECT_EQ(node.publish(std::string(256, 'n'), at).code(), Errc::kInvalidArgument);
  EXPECT_TRUE(node.publish(std::string(255, 'n'), at).ok());
  EXPECT_EQ(node.publish("\xff\xfe", at).code(), Errc::kInvalidArgument);
  EXPECT_EQ(node.publish("null", GlobalAddress()).code(), Errc::kNullAddress);
  EXPECT_TRUE(node.publish("a", at).ok());
  EXPECT_EQ(node.publish("a", at + 8).code(), Errc::kAlreadyExists);
  EXPECT_EQ(node.lookup("", 1ms).status().code(), Errc::kInvalidArgument);
  EXPECT_EQ(node.lookup("b", 0ms).status().code(), Errc::kNotFound);
  EXPECT_EQ(node.lookup("b", 5ms).status().code(), Errc::kDeadline);
  EXPECT_EQ(node.lookup("b", -5ms).status().code(), Errc::kNotFound);
  EXPECT_EQ(node.lookup("a").value(), at);
}

std::string why_refused(const Options& options) {
  try {
    Node node(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(BadInput, OptionsThatMakeNoSense) {
  const Options good = LocalCluster::small_options();
  Options options = good;
  for (const std::uint32_t line : {0u, 1u, 32u, 500u, 513u, 8192u, 0x80000000u}) {
    options.line_bytes = line;
    EXPECT_THAT(why_refused(options), testing::HasSubstr("power of two from 64 to 4096")) << line;
  }
  options = good;
  for (const std::uint64_t memory : {std::uint64_t{0}, std::uint64_t{4096}, UINT64_MAX, std::uint64_t{1} << 41}) {
    options.memory_bytes = memory;
    EXPECT_THAT(why_refused(options), testing::HasSubstr("at least 1M")) << memory;
  }
  options = good;
  for (const std::uint64_t cache : {std::uint64_t{0}, std::uint64_t{63 * 512}, UINT64_MAX}) {
    options.cache_bytes = cache;
    EXPECT_THAT(why_refused(options), testing::HasSubstr("at least 64 lines")) << cache;
  }
  options = good;
  options.outstanding_writes = 0;
  options.spin_ns = 0;
  options.yield_us = 0;
  options.read_ahead_lines = 0;
  EXPECT_EQ(why_refused(options), "");  // little, but not senseless
}

}  // namespace
}  // namespace atoll::test
