// A node whose master says anything: joining, asking and leaving end, with what was asked for or with a reason.
//
//   input = how many nodes, which of them (1 byte) | a script for the master, see control_script.hpp
#include <atomic>
#include <string>

#include "cluster/membership.hpp"
#include "fake_master.hpp"

namespace atoll::fuzz {
namespace {

using namespace std::chrono_literals;

/// What a node does from its start to its end. Throws Error where the runtime would.
void live(NodeId nodes) {
  Options options;
  options.join_timeout = 10s;  // longer than any script: only its end may end the wait
  std::atomic<bool> lost{false};
  const auto membership = cluster::Membership::connect(options);
  const base::Fd segment(::dup(Descriptors::get(0)));
  const cluster::Events events{[&](NodeId node, const std::string&) { ATOLL_FUZZ_CHECK(node < nodes); },
                               [&] { ATOLL_FUZZ_CHECK(!lost.exchange(true)); },
                               [](cluster::Standing, const std::string&) {},
                               [&](const cluster::Peer& peer, std::uint32_t epoch) {
                                 ATOLL_FUZZ_CHECK(peer.id < nodes && peer.alive && peer.epoch == epoch);
                               },
                               [&](NodeId node, const std::string&) { ATOLL_FUZZ_CHECK(node < nodes); }};
  std::vector<cluster::Peer> peers = membership->exchange({segment, {}}, events);
  ATOLL_FUZZ_CHECK(peers.size() == nodes && membership->count() == nodes);
  for (const cluster::Peer& peer : peers) {
    ATOLL_FUZZ_CHECK(peer.id != membership->id() || !peer.segment.valid());
    try {
      if (peer.segment.valid()) (void)memory::Segment::open(peer.segment);
    } catch (const Error&) {
      // The runtime would not start.
    }
  }
  (void)membership->publish("nn", GlobalAddress::make(0, 4096));
  const auto found = membership->lookup("n", 1ms);
  ATOLL_FUZZ_CHECK(!found.ok() || *found);
  membership->leave();
}

}  // namespace
}  // namespace atoll::fuzz

using namespace atoll;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::quiet_logging();
  fuzz::Input input(data, size);
  const auto nodes = NodeId(1 + input.below(3));
  const unsigned node = input.below(nodes);
  const fuzz::FakeMaster master(input);
  ::setenv("ATOLL_MASTER", master.socket_name().c_str(), 1);
  ::setenv("ATOLL_NODES", std::to_string(nodes).c_str(), 1);
  ::setenv("ATOLL_NODE", std::to_string(node).c_str(), 1);
  try {
    fuzz::live(nodes);
  } catch (const Error& error) {
    ATOLL_FUZZ_CHECK(*error.what() != '\0' && error.code() != Errc::kDeadline);
  }
  return 0;
}
