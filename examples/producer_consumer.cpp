// Node 0 makes numbers, the other nodes take them: a bounded queue in global memory, guarded by a lock.
// Run it: atoll run -n 4 -- ./producer_consumer
#include <atoll/atoll.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <thread>

namespace {

constexpr std::uint64_t kItems = 2000;
constexpr std::uint64_t kRoom = 32;
constexpr std::uint64_t kEnd = 0;  // what tells a consumer to stop

/// Fits into one line of 512 bytes, so the lock of the line brings all of it along.
struct Queue {
  std::uint64_t taken = 0;
  std::uint64_t put = 0;
  std::uint64_t items[kRoom] = {};
};

/// Puts the number into the queue, waiting while it is full.
void put(atoll::Node& node, atoll::global_ptr<Queue> where, std::uint64_t item) {
  atoll::GlobalMutex mutex(node, where);
  while (true) {
    {
      const std::scoped_lock lock(mutex);
      Queue queue = node.read(where).value();
      if (queue.put - queue.taken < kRoom) {
        queue.items[queue.put++ % kRoom] = item;
        node.write(where, queue).or_throw();
        return;
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));  // there is no condition variable yet
  }
}

/// Takes the oldest number out of the queue, waiting while it is empty.
std::uint64_t take(atoll::Node& node, atoll::global_ptr<Queue> where) {
  atoll::GlobalMutex mutex(node, where);
  while (true) {
    {
      const std::scoped_lock lock(mutex);
      Queue queue = node.read(where).value();
      if (queue.taken < queue.put) {
        const std::uint64_t item = queue.items[queue.taken++ % kRoom];
        node.write(where, queue).or_throw();
        return item;
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace

int main() {
  atoll::Node node = atoll::join();
  if (node.count() < 2) {
    std::puts("one node makes, the others take: run this with atoll run -n 2 or more");
    return 1;
  }
  if (node.id() == 0) {
    node.publish("queue", node.allocate<Queue>().value().address()).or_throw();
    node.publish("sum", node.allocate<std::uint64_t>().value().address()).or_throw();
  }
  const atoll::global_ptr<Queue> queue(node.lookup("queue").value());
  const atoll::global_ptr<std::uint64_t> sum(node.lookup("sum").value());

  if (node.id() == 0) {
    for (std::uint64_t item = 1; item <= kItems; ++item) put(node, queue, item);
    for (int consumer = 1; consumer < node.count(); ++consumer) put(node, queue, kEnd);
  } else {
    std::uint64_t count = 0;
    for (std::uint64_t item = take(node, queue); item != kEnd; item = take(node, queue)) {
      node.fetch_add(sum, item).status().or_throw();
      ++count;
    }
    std::printf("node %d took %lu numbers\n", node.id(), static_cast<unsigned long>(count));
  }
  node.barrier().or_throw();

  const std::uint64_t found = node.read(sum).value();
  const std::uint64_t expected = kItems * (kItems + 1) / 2;
  if (node.id() == 0) std::printf("their sum is %lu\n", static_cast<unsigned long>(found));
  return found == expected ? 0 : 1;
}
