// A node whose threads use few words, locks, accounts or keys of a hash map and note every call in files of a
// directory; history_check and history_behaviour judge them. Run it by `atoll run`.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/history_workload.hpp"
#include "support/map_workload.hpp"

namespace atoll::test {
namespace {

struct Arguments {
  std::string directory;
  unsigned threads = 3;
  unsigned lines = 4;
  double seconds = 1;
  std::uint64_t seed = 1;
  std::size_t operations = 20000;  // at most, for each thread
  std::uint64_t at_least = 0;
  bool accounts = false;
  bool map = false;
  std::uint64_t kill_after = 0;  // node 1 kills itself; 0: nobody does
  bool loss = false;             // node 1 will be lost, by somebody else's hand
  unsigned pause_us = 0;
  std::string mistake = "none";
};

constexpr NodeId kVictim = 1;

Arguments parse(int argc, char** argv) {
  Arguments given;
  CLI::App app{"Uses shared memory and notes what it sees"};
  app.add_option("directory", given.directory, "Where the histories go; it must be there")->required();
  app.add_option("--threads", given.threads, "Of each node")->check(CLI::Range(1, 64));
  app.add_option("--lines", given.lines, "That all use; homes in turn")->check(CLI::Range(3, 16));
  app.add_option("--seconds", given.seconds)->check(CLI::Range(0.0, 86400.0));
  app.add_option("--seed", given.seed);
  app.add_option("--operations", given.operations, "A thread stops after so many")->check(CLI::Range(10, 50'000'000));
  app.add_option("--at-least", given.at_least, "A thread does so many, if need be in a minute more");
  app.add_flag("--accounts", given.accounts, "Transactions between accounts instead of words and locks");
  app.add_flag("--map", given.map, "Keys of a hash map that grows; with --accounts, several of them in one step");
  app.add_option("--kill-after", given.kill_after, "Operations of node 1, after which it kills itself");
  app.add_flag("--loss", given.loss, "Somebody will take node 1 from the others: go on until then, and a bit");
  app.add_option("--pause-us", given.pause_us, "After each operation on words")->check(CLI::Range(0, 1'000'000));
  app.add_option("--mistake", given.mistake, "none, split_add, old_read, early_unlock, no_locks");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return given;
}

Field make_field(Node& node, unsigned lines) {
  Field field;
  field.line_bytes = node.line_bytes();
  field.sweep_lines = kSweepLines;
  for (unsigned i = 0; i < lines; ++i) {
    const std::string name = "line " + std::to_string(i);
    if (node.id() == i % node.count()) {
      node.publish(name, node.allocate(node.line_bytes(), Placement::local()).value()).or_throw();
    }
    field.lines.push_back(node.lookup(name).value());
  }
  // From the node after this one, so that what is swept comes from elsewhere.
  field.sweep = node.allocate(std::uint64_t(kSweepLines) * node.line_bytes(),
                              Placement::on(NodeId((node.id() + 1) % node.count())))
                    .value();
  return field;
}

void work(Node& node, const Field& field, HashMap* map, const Workload& workload, const Arguments& given,
          unsigned thread) {
  const auto path = [&](const char* what) {
    return given.directory + "/" + what + "." + std::to_string(node.id()) + "." + std::to_string(thread);
  };
  const std::uint64_t client = std::uint64_t(node.id()) * given.threads + thread;
  if (given.accounts) {
    const SlotFile<TransactionSlot> file(path("transactions"), given.operations);
    TransactionLog log(file.slots(), node.id(), std::uint16_t(thread));
    if (map != nullptr) return MapStepClient(*map, workload, log, client).run();
    AccountClient account(node, field, workload, log, client);
    account.run();
    if (account.wrong_totals() > 0) std::printf("%d wrong totals\n", account.wrong_totals());
  } else {
    const SlotFile<OperationSlot> file(path("operations"), given.operations);
    OperationLog log(file.slots(), node.id(), std::uint16_t(thread));
    if (map != nullptr) return MapClient(*map, workload, log, client).run();
    WordClient(node, field, workload, log, client).run();
  }
}

/// A map whose buckets are so full that they are split from the first operations on.
std::unique_ptr<HashMap> make_map(Node& node, std::uint64_t* buckets) {
  auto map = std::make_unique<HashMap>(node, "history");
  *buckets = map->stats().value().buckets;
  node.barrier().or_throw();
  for (std::uint64_t i = node.id(); i < *buckets * 27; i += node.count()) {
    map->put("full:" + std::to_string(i), "x").status().or_throw();
  }
  return map;
}

int play(Node& node, const Arguments& given) {
  Workload workload;
  workload.seed = given.seed;
  workload.duration = std::chrono::nanoseconds(std::int64_t(given.seconds * 1e9));
  workload.at_least = given.at_least;
  workload.mistake = mistake_of(given.mistake);
  const char* consistency = std::getenv("ATOLL_CONSISTENCY");
  workload.writes_wait = consistency != nullptr && std::string_view(consistency) == "sc";
  std::atomic<std::uint64_t> done{0};
  workload.done = &done;
  workload.death_expected = given.kill_after > 0 || given.loss;
  workload.pause = std::chrono::microseconds(given.pause_us);
  Field field = make_field(node, given.lines);
  // What a dead node had is lost. It leaves half of the lines alone, so that the others have something to go on with.
  if (workload.death_expected && node.id() == kVictim && !given.accounts) field.lines.resize(field.lines.size() / 2);
  std::unique_ptr<HashMap> map;
  std::uint64_t buckets = 0;
  if (given.map) map = make_map(node, &buckets);
  node.barrier().or_throw();
  std::printf("working\n");
  std::fflush(stdout);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < given.threads; ++i) {
    threads.emplace_back([&, i] { work(node, field, map.get(), workload, given, i); });
  }
  if (given.kill_after > 0 && node.id() == kVictim) {
    // Not by one of the threads: they shall be anywhere in a call.
    while (done.load(std::memory_order_relaxed) < given.kill_after)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ::raise(SIGKILL);
  }
  for (auto& thread : threads) thread.join();
  const Stats stats = node.stats();
  std::printf("misses %llu reads_in_place %llu evictions %llu lock_waits %llu\n",
              static_cast<unsigned long long>(stats.misses()), static_cast<unsigned long long>(stats.reads_in_place),
              static_cast<unsigned long long>(stats.evictions_clean + stats.evictions_dirty),
              static_cast<unsigned long long>(stats.lock_waits));
  if (map != nullptr) {
    node.barrier().or_throw();
    const HashMapStats what = map->stats().value();
    std::printf("pairs %llu splits %llu\n", static_cast<unsigned long long>(what.pairs),
                static_cast<unsigned long long>(what.buckets - buckets));
    if (std::int64_t(what.pairs) != map->size().value()) throw Error("the map has not as many pairs as it says");
  }
  // Who has left this behind was not killed: what it holds locked it holds on purpose.
  std::ofstream(given.directory + "/done." + std::to_string(node.id())) << "done\n";
  return 0;
}

}  // namespace
}  // namespace atoll::test

int main(int argc, char** argv) {
  const auto given = atoll::test::parse(argc, argv);
  try {
    auto options = atoll::Options::from_environment();
    options.death_grace = std::chrono::milliseconds(100);  // or who meets ten lost lines has no time for anything else
    atoll::Node node = atoll::join(options);
    return atoll::test::play(node, given);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 5;
  }
}
