// All nodes count the letters of a text that none of them has whole. Run it: atoll run -n 4 -- ./histogram
#include <atoll/atoll.hpp>
#include <cstdint>
#include <cstdio>

namespace {
constexpr std::uint64_t kLetters = 26;
constexpr std::uint64_t kTextEach = 100'000;  // letters that each node has

/// The i-th letter of a made-up text.
std::uint64_t letter(std::uint64_t i) {
  return i * i % 101 % kLetters;
}
}  // namespace

int main() {
  atoll::Node node = atoll::join();
  if (node.id() == 0) {
    node.publish("histogram", node.allocate<std::uint64_t>(kLetters).value().address()).or_throw();
  }
  const atoll::global_ptr<std::uint64_t> histogram(node.lookup("histogram").value());

  // No lock, no atomic, no message for each letter: operands are combined here and collected when somebody reads.
  for (std::uint64_t i = node.id() * kTextEach; i < (node.id() + 1) * kTextEach; ++i) {
    node.apply(histogram + std::int64_t(letter(i)), atoll::op::add<std::uint64_t>, 1).or_throw();
  }
  node.barrier().or_throw();

  if (node.id() != 0) return 0;
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < kLetters; ++i) {
    const std::uint64_t count = node.read(histogram + std::int64_t(i)).value();
    total += count;
    std::printf("%c %7lu\n", static_cast<char>('a' + i), static_cast<unsigned long>(count));
  }
  std::printf("%lu letters by %d nodes\n", static_cast<unsigned long>(total), node.count());
  return total == kTextEach * node.count() ? 0 : 1;
}
