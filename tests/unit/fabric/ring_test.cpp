#include "fabric/shm/ring.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "support/seed.hpp"

namespace atoll::fabric {
namespace {

struct alignas(64) Room {
  std::byte bytes[64];
};
/// Zeroed memory for a ring, and its two sides.
struct Pair {
  explicit Pair(std::uint32_t slots)
      : room(Ring::bytes(slots) / sizeof(Room) + 1), sender(at(), slots), receiver(at(), slots) {}
  std::byte* at() { return room.front().bytes; }
  std::vector<Room> room;
  Ring sender, receiver;
};

wire::Message numbered(std::uint64_t number) {
  wire::Message message;
  message.argument = number;
  message.line = ~number;
  return message;
}

TEST(Ring, IsEmptyAtFirst) {
  Pair ring(8);
  wire::Message message;
  EXPECT_FALSE(ring.receiver.ready());
  EXPECT_FALSE(ring.receiver.pop(message));
}

TEST(Ring, TakesAsManyAsItHasSlots) {
  Pair ring(8);
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(ring.sender.push(numbered(i)));
  EXPECT_FALSE(ring.sender.push(numbered(8)));
  wire::Message message;
  ASSERT_TRUE(ring.receiver.pop(message));
  EXPECT_EQ(message.argument, 0u);
  EXPECT_TRUE(ring.sender.push(numbered(8)));
  EXPECT_FALSE(ring.sender.push(numbered(9)));
}

TEST(Ring, KeepsTheOrderAroundItsEnd) {
  Pair ring(8);
  std::uint64_t pushed = 0, popped = 0;
  for (int round = 0; round < 1000; ++round) {
    for (int i = 0; i < 1 + round % 8; ++i) pushed += ring.sender.push(numbered(pushed)) ? 1 : 0;
    wire::Message message;
    for (int i = 0; i < 1 + round % 5 && ring.receiver.pop(message); ++i) {
      ASSERT_EQ(message.argument, popped);
      ASSERT_EQ(message.line, ~popped);
      ++popped;
    }
  }
  EXPECT_GT(popped, 1000u);
}

TEST(Ring, CarriesFromThreadToThread) {
  Pair ring(16);
  constexpr std::uint64_t kMessages = test::scaled(300'000);
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < kMessages;) {
      if (ring.sender.push(numbered(i))) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (std::uint64_t i = 0; i < kMessages;) {
    wire::Message message;
    if (!ring.receiver.pop(message)) {
      std::this_thread::yield();
      continue;
    }
    if (message.argument != i || message.line != ~i) ADD_FAILURE() << "got " << message.argument << " instead of " << i;
    ++i;
  }
  sender.join();
}

}  // namespace
}  // namespace atoll::fabric
