// A node of a kill test: recovery_node DIRECTORY --load bank|ycsb|grow|tpcc. Its threads use shared memory and note
// outside of it what they were told to have happened, until they are killed; as the next process of the node they find
// out what became of what was cut, and go on. Started and judged by kill_rounds.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>

#include "behaviour/recovery_bank.hpp"
#include "behaviour/recovery_grow.hpp"
#include "behaviour/recovery_tpcc.hpp"
#include "behaviour/recovery_ycsb.hpp"

namespace atoll::test {
namespace {

using namespace std::chrono_literals;

struct Arguments {
  std::string directory;
  std::string load = "bank";
  LoadSize size;
};

Arguments parse(int argc, char** argv) {
  Arguments given;
  CLI::App app{"A node that is killed and comes back"};
  app.add_option("directory", given.directory, "Of the board and the journals; it must be there")->required();
  app.add_option("--load", given.load, "What it does")->check(CLI::IsMember({"bank", "ycsb", "grow", "tpcc"}));
  app.add_option("--threads", given.size.threads, "Of each node")->check(CLI::Range(1u, kMostThreads));
  app.add_option("--lines", given.size.lines, "Lines of accounts on each node")->check(CLI::Range(2, 4096));
  app.add_option("--keys", given.size.keys, "Of the map")->check(CLI::Range(64, 10'000'000));
  app.add_option("--seed", given.size.seed);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return given;
}

/// Works while the board says so. What fails ends the worker, and is told: the driver decides what that means.
void work(Node& node, Load& load, const std::string& directory, Board& board, unsigned thread) {
  Cell& cell = board.cells[node.id()];
  try {
    const std::unique_ptr<Worker> worker = load.make_worker(thread);
    for (;;) {
      const std::uint64_t phase = board.phase.load();
      if (phase == Board::kEnd) return;
      if (!Board::is_rest(phase)) {
        worker->step();
        continue;
      }
      cell.quiet[thread].store(phase);
      while (board.phase.load() == phase) std::this_thread::sleep_for(1ms);
    }
  } catch (const Error& error) {
    append_line(errors_path(directory, node.id()), error.what());
    cell.errors.fetch_add(1);
  }
}

int play(Node& node, Load& load, const std::string& directory, Board& board) {
  Cell& cell = board.cells[node.id()];
  try {
    load.begin();
  } catch (const std::exception& error) {  // at once: the end of `node` would wait for the others, which wait for this
    std::fprintf(stderr, "cannot begin: %s\n", error.what());
    std::_Exit(5);
  }
  std::uint64_t shown = board.show.load();
  cell.serving.store(cell.pid.load());
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < load.size().threads; ++i) {
    threads.emplace_back([&, i] { work(node, load, directory, board, i); });
  }
  while (board.phase.load() != Board::kEnd) {
    std::this_thread::sleep_for(1ms);
    if (board.show.load() == shown) continue;
    const std::uint64_t wanted = board.show.load();
    load.dump(dump_path(directory, node.id()));
    cell.shown.store(wanted);
    shown = wanted;
  }
  for (auto& thread : threads) thread.join();
  return cell.errors.load() == 0 ? 0 : 1;
}

int run(const Arguments& given) {
  Board& board = Board::open(given.directory);
  Node node = atoll::join();
  if (node.count() > kMostNodes) throw Error("too many nodes for the board");
  const Journal journal(given.directory, node.id());
  std::unique_ptr<Load> load;
  if (given.load == "bank") {
    load = std::make_unique<Bank>(node, journal, given.directory, given.size);
  } else if (given.load == "grow") {
    load = std::make_unique<Grow>(node, journal, given.directory, given.size);
  } else if (given.load == "tpcc") {
    load = std::make_unique<Tpcc>(node, journal, given.directory, given.size);
  } else {
    load = std::make_unique<Ycsb>(node, journal, given.directory, given.size);
  }
  return play(node, *load, given.directory, board);
}

}  // namespace
}  // namespace atoll::test

int main(int argc, char** argv) {
  const auto given = atoll::test::parse(argc, argv);
  try {
    // Before it joins: nodes are killed at any time, and that is one.
    const char* const id = std::getenv("ATOLL_NODE");
    if (id == nullptr) throw atoll::Error("run it by `atoll run`");
    auto& board = atoll::test::Board::open(given.directory);
    board.cells.at(std::stoul(id)).pid.store(std::uint32_t(::getpid()));
    return atoll::test::run(given);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 5;
  }
}
