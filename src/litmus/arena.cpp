#include "litmus/arena.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/random.hpp"

namespace atoll::litmus {
namespace {

constexpr const char* kName = "litmus";

GlobalAddress allocate_lines(Node& node, std::uint64_t count, NodeId home) {
  const std::uint64_t line = node.line_bytes();
  const GlobalAddress at = node.allocate((count + 1) * line, Placement::on(home)).value();
  return GlobalAddress((at.bits() + line - 1) / line * line);
}

std::uint64_t lines_for(std::uint64_t bytes, std::uint64_t line_bytes) {
  return (bytes + line_bytes - 1) / line_bytes;
}

}  // namespace

Arena::Arena(Node& node, unsigned instances)
    : instances_(instances), line_bytes_(node.line_bytes()), lines_(node.count()) {
  const std::uint64_t results = kMaxSeats * lines_for(instances * sizeof(Outcome), line_bytes_);
  const std::uint64_t table = lines_for(node.count() * sizeof(GlobalAddress), line_bytes_);
  const std::span<GlobalAddress> first_lines(lines_);
  if (node.id() == 0) {
    for (NodeId home = 0; home < node.count(); ++home) {
      lines_[home] = allocate_lines(node, std::uint64_t(instances) * kVariables, home);
    }
    common_ = allocate_lines(node, 1 + table + results, 0);
    node.write(common_ + std::int64_t(line_bytes_), std::as_bytes(first_lines)).or_throw();
    node.publish(kName, common_).or_throw();
  } else {
    common_ = node.lookup(kName).value();
    node.read(common_ + std::int64_t(line_bytes_), std::as_writable_bytes(first_lines)).or_throw();
  }
}

GlobalAddress Arena::results(unsigned seat) const noexcept {
  ATOLL_CHECK(seat < kMaxSeats);
  const std::uint64_t each = lines_for(instances_ * sizeof(Outcome), line_bytes_);
  const std::uint64_t table = lines_for(lines_.size() * sizeof(GlobalAddress), line_bytes_);
  return common_ + std::int64_t((1 + table + seat * each) * line_bytes_);
}

GlobalAddress Arena::line(NodeId home, unsigned number) const noexcept {
  return lines_[home] + std::int64_t(std::uint64_t(number) * line_bytes_);
}

std::vector<Instance> Arena::instances_for(const Test& test, std::uint64_t seed) const {
  base::Random random(seed);
  const auto nodes = NodeId(lines_.size());
  const bool one_node = test.layout == Layout::kOneNode;
  std::vector<Instance> result(instances_);
  for (unsigned i = 0; i < instances_; ++i) {
    Instance& instance = result[i];
    const auto home_of_x = NodeId(random.below(nodes));
    for (unsigned v = 0; v < kVariables; ++v) {
      const bool with_x = v == 0 || (v == 1 && (test.layout == Layout::kOneLine || test.layout == Layout::kOneHome));
      // Two homes: any but that of x.
      const bool elsewhere = v == 1 && test.layout == Layout::kTwoHomes && nodes > 1;
      const auto other =
          elsewhere ? NodeId((home_of_x + 1 + random.below(nodes - 1u)) % nodes) : NodeId(random.below(nodes));
      const bool inside = v == 1 && test.layout == Layout::kOneLine;
      instance.at[v] = inside ? line(home_of_x, i * kVariables) + std::int64_t(line_bytes_ / 2)
                              : line(with_x ? home_of_x : other, i * kVariables + v);
      // Threads of one node mostly find their lines here: what the processor does can be seen only among hits.
      instance.owner[v] = one_node && random.chance(0.75) ? NodeId(0) : NodeId(random.below(nodes));
      // Nobody, everybody or some: a line that nobody reads stays with its owner and hits there.
      const std::uint64_t everybody = nodes == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << nodes) - 1;
      const std::uint64_t kinds[] = {0, 0, everybody, random.next() & everybody};
      instance.sharers[v] = one_node && instance.owner[v] == 0 ? 0 : kinds[random.below(4)];
    }
  }
  return result;
}

}  // namespace atoll::litmus
