// All nodes count together. Run it: atoll run -n 4 -- ./counter
#include <atoll/atoll.hpp>
#include <cstdint>
#include <cstdio>

int main() {
  atoll::Node node = atoll::join();
  atoll::global_ptr<std::uint64_t> counter;
  if (node.id() == 0) {
    counter = node.allocate<std::uint64_t>().value();  // zeroed, in node 0's memory
    node.publish("counter", counter.address()).or_throw();
  } else {
    counter = atoll::global_ptr<std::uint64_t>(node.lookup("counter").value());
  }
  for (int i = 0; i < 1000; ++i) node.fetch_add(counter, 1).status().or_throw();
  node.barrier().or_throw();  // everybody has counted
  const auto total = static_cast<unsigned long>(node.read(counter).value());
  std::printf("node %d of %d reads %lu\n", node.id(), node.count(), total);
  return total == 1000ul * node.count() ? 0 : 1;
}
