// A node that does what the test of the launcher asks for: scenario_node SCENARIO [detail].
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "atoll/atoll.hpp"

namespace {

using namespace std::chrono_literals;
using atoll::Node;
using atoll::Status;

constexpr atoll::NodeId kVictim = 1;

int say(const Node& node, const Status& status) {
  std::printf("node %d got: %s\n", int(node.id()), status.to_string().c_str());
  std::fflush(stdout);
  return status.code() == atoll::Errc::kNodeDied ? 0 : 3;
}

/// Waits for something of the victim, in the way that was asked for.
Status wait_for_victim(Node& node, std::string_view how, atoll::GlobalAddress locked) {
  if (how == "read") return node.read<std::uint64_t>(locked).status();
  if (how == "write") {
    const Status wrote = node.write<std::uint64_t>(locked, 1);
    return wrote.ok() ? node.fence() : wrote;
  }
  if (how == "lock") return node.write_lock(locked, 8);
  if (how == "atomic") return node.fetch_add(atoll::global_ptr<std::uint64_t>(locked), 1).status();
  if (how == "barrier") return node.barrier(2min);
  while (how == "allocate") {
    const auto block = node.allocate(8, atoll::Placement::on(kVictim));
    if (!block.ok()) return block.status();
    const Status freed = node.free(*block);
    if (!freed.ok()) return freed;
  }
  return {atoll::Errc::kInvalidArgument, "no such way to wait"};
}

/// The victim holds a lock and dies; everyone else waits for it.
int die(Node& node, std::string_view death, std::string_view how) {
  if (node.id() == kVictim) {
    const auto made = node.allocate(8, atoll::Placement::local()).value();
    node.write_lock(made, 8).or_throw();
    node.publish("locked", made).or_throw();
  }
  const auto locked = node.lookup("locked").value();
  node.barrier().or_throw();
  if (node.id() != kVictim) return say(node, wait_for_victim(node, how, locked));
  std::this_thread::sleep_for(200ms);
  if (death == "killed") ::raise(SIGKILL);
  if (death == "stopped") ::raise(SIGSTOP);
  if (death == "aborted") std::abort();
  if (death == "_exit") ::_exit(0);
  std::exit(0);  // the node is on main's stack: its destructor does not run
}

/// Everyone adds to a counter on each node, reads what others wrote, and checks the sums.
int work(Node& node) {
  for (atoll::NodeId k = 0; k < node.count(); ++k) {
    const std::string name = "counter " + std::to_string(k);
    if (node.id() == k) node.publish(name, node.allocate<std::uint64_t>(1000).value().address()).or_throw();
    const atoll::global_ptr<std::uint64_t> words(node.lookup(name).value());
    for (int i = 0; i < 200; ++i) (void)node.fetch_add(words + i * 5, 1).value();
    node.barrier().or_throw();
    for (int i = 0; i < 200; ++i) {
      if (node.read(words + i * 5).value() != node.count()) return 4;
    }
    node.barrier().or_throw();
  }
  return 0;
}

int play(Node& node, int argc, char** argv) {
  const std::string_view scenario = argv[1];
  const std::string_view detail = argc > 2 ? argv[2] : "";
  if (scenario == "work") return work(node);
  if (scenario == "code") return node.id() == kVictim ? std::atoi(argv[2]) : 0;
  if (scenario == "sleep") {
    node.barrier().or_throw();
    std::printf("pid %d\n", int(::getpid()));
    std::fflush(stdout);
    while (true) std::this_thread::sleep_for(1h);
  }
  return die(node, scenario, detail);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    Node node = atoll::join();
    return play(node, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 5;
  }
}
