// What nodes have done, added up over all of them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "atoll/node.hpp"
#include "bench/harness.hpp"

namespace atoll::bench {

/// What a thread, a node, or all of them have done, by the clock that all processes of a host share.
struct Tally {
  std::uint64_t operations = 0;
  std::int64_t begun_ns = 0, ended_ns = 0;

  void add(const Tally& other) noexcept {
    if (other.operations == 0) return;
    begun_ns = operations == 0 ? other.begun_ns : std::min(begun_ns, other.begun_ns);
    ended_ns = std::max(ended_ns, other.ended_ns);
    operations += other.operations;
  }
};
inline std::int64_t now_ns() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

/// What all nodes tell each other.
class Board {
 public:
  explicit Board(Node& node) : node_(node) {
    if (node.id() == 0) node.publish("board", node.allocate<Tally>(node.count()).value().address()).or_throw();
    tallies_ = global_ptr<Tally>(node.lookup("board").value());
  }
  /// `mine` of all nodes together.
  Tally sum(const Tally& mine) {
    node_.write(tallies_ + node_.id(), mine).or_throw();
    node_.barrier().or_throw();
    Tally all;
    for (NodeId i = 0; i < node_.count(); ++i) all.add(node_.read(tallies_ + i).value());
    node_.barrier().or_throw();
    return all;
  }

 private:
  Node& node_;
  global_ptr<Tally> tallies_;
};

}  // namespace atoll::bench
