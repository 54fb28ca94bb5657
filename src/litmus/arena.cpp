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

std::vector<Instance> Arena::instances_for(const Case& test, std::uint64_t seed) const {
  base::Random random(seed);
  // Mostly many instances to a line: more hits, more lines that are fought for, and many more runs in the same time.
  // Sometimes a line for each, so that every access finds the state that was prepared.
  const unsigned most = std::min(kGroup, line_bytes_ / 2 / unsigned(sizeof(std::uint64_t)));
  const std::uint64_t dice = random.below(16);
  const unsigned to_a_line = dice == 0 ? 1 : dice < 4 ? most / 4 : most;
  std::vector<Instance> result(instances_);
  for (unsigned i = 0; i < instances_; ++i) {
    if (i % to_a_line == 0) {
      result[i] = instance_at(test, i * kVariables, random);
      result[i].leads = std::min(to_a_line, instances_ - i);
      continue;
    }
    result[i] = result[i - 1];
    result[i].leads = 0;
    for (GlobalAddress& at : result[i].at) at += sizeof(std::uint64_t);
  }
  return result;
}

/// Random homes, owners and sharers, within the layout; its lines are `first` and the next ones of their homes.
Instance Arena::instance_at(const Case& test, unsigned first, base::Random& random) const {
  const auto nodes = NodeId(lines_.size());
  const auto any_node = [&] { return NodeId(random.below(nodes)); };
  const std::uint64_t everybody = nodes == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << nodes) - 1;
  std::array<NodeId, kVariables> home = {any_node(), any_node(), any_node()};
  Instance instance{};
  for (unsigned v = 0; v < kVariables; ++v) {
    instance.owner[v] = any_node();
    // Nobody, everybody or some: a line that nobody reads stays with its owner and hits there.
    const std::uint64_t kinds[] = {0, 0, everybody, random.next() & everybody};
    instance.sharers[v] = kinds[random.below(4)];
  }
  if (random.chance(0.5)) {
    // What makes a write late: it must wait for a home that is not awake, and for copies that everybody has. The other
    // variable's write is a hit, or does not wait for that home.
    const unsigned slow = unsigned(random.below(2));
    home[slow] = NodeId(nodes - 1);
    instance.sharers[slow] = everybody;
    instance.sharers[1 - slow] = random.chance(0.5) ? 0 : everybody;
  }
  if (test.layout == Layout::kOneNode && random.chance(0.75)) {
    // What the processor does can be seen only among hits.
    instance.owner = {};
    instance.sharers = {};
  }
  const bool one_line = test.layout == Layout::kOneLine;
  if (one_line || test.layout == Layout::kOneHome) home[1] = home[0];
  if (test.layout == Layout::kTwoHomes && nodes > 1 && home[1] == home[0]) {
    home[1] = NodeId((home[0] + 1 + random.below(nodes - 1u)) % nodes);
  }
  for (unsigned v = 0; v < kVariables; ++v) instance.at[v] = line(home[v], first + v);
  if (one_line) instance.at[1] = instance.at[0] + std::int64_t(line_bytes_ / 2);
  return instance;
}

}  // namespace atoll::litmus
