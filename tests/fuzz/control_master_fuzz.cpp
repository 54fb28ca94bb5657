// A master whose clients send anything, over several connections: it goes on to answer those who make sense.
//
//   input = how many nodes, with doors or not, whether dead nodes may come back (1 byte) | steps of: which connection
//   and what (1 byte) | arguments, see control_script.hpp
#include "cluster/master.hpp"

#include "cluster/status_client.hpp"
#include "control_script.hpp"

namespace atoll::fuzz {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kClients = 4;
constexpr int kMostSteps = 100;

void ask_status(const cluster::Master& master, NodeId nodes) {
  const auto status = cluster::query_status(master.socket_name(), 10s);
  ATOLL_FUZZ_CHECK(status.ok() && status->at("nodes").size() == nodes);
  for (const Json& node : status->at("nodes")) {
    // A node is dead for a reason.
    const bool dead = node.at("state") == "dead" || node.at("state") == "away";
    ATOLL_FUZZ_CHECK(!dead || !node.at("why").get<std::string>().empty());
  }
}

void play(cluster::Master& master, NodeId nodes, Input& input) {
  std::array<base::Fd, kClients> clients;
  for (int k = 0; k < kMostSteps && !input.empty(); ++k) {
    const std::uint8_t what = input.byte();
    base::Fd& client = clients[what % kClients];
    switch (what / kClients % 8) {
      case 0: client.reset(); break;
      case 1: {
        const unsigned node = input.below(2u * nodes);
        (void)master.node_exited(NodeId(node % nodes), "killed by the fuzzer");
        if (node >= nodes) master.give_up_on(NodeId(node % nodes));
        break;
      }
      case 2: ask_status(master, nodes); break;
      case 3:
        if (client.valid()) (void)::shutdown(client.get(), SHUT_WR);
        break;
      default:
        if (!client.valid()) client = cluster::connect_abstract(master.socket_name(), cluster::Clock::now() + 10s);
        play_step(input, client.get(), false);
        break;
    }
  }
  ask_status(master, nodes);
}

}  // namespace
}  // namespace atoll::fuzz

using namespace atoll;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::quiet_logging();
  fuzz::Input input(data, size);
  const unsigned first = input.byte();
  const auto nodes = NodeId(1 + first % 3);
  cluster::MasterConfig config{nodes, "fuzz"};
  if (first / 3 % 2 == 1) {  // segments by doors; strangers at its port are what `handshake` is for
    config.listen = cluster::TcpAddress{"127.0.0.1", 0};
    config.key = cluster::Key::parse(std::string(64, '7'), "the fuzzer");
  }
  config.recoverable = first / 6 % 2 == 1;
  cluster::Master master(std::move(config));
  fuzz::play(master, nodes, input);
  return 0;
}
