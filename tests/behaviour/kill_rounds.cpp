// Kills nodes of a cluster again and again and looks each time whether anything that was acknowledged is lost:
// scripts/kill-rounds. Exit code 1 when something is, 2 when the cluster did not go on.
#include <fmt/format.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>
#include <thread>

#include "base/random.hpp"
#include "behaviour/kill_cluster.hpp"
#include "behaviour/recovery_judge.hpp"

namespace atoll::test {
namespace {

using namespace std::chrono_literals;

struct Arguments {
  KillSettings cluster;
  unsigned rounds = 20;
  bool all = false, full_stop = false, fill = false, forge = false;
};

Arguments parse(int argc, char** argv) {
  Arguments given;
  given.cluster.atoll = ATOLL_COMMAND;
  given.cluster.program = ATOLL_RECOVERY_NODE;
  given.cluster.seed = std::random_device{}();
  CLI::App app{
      "Kills nodes of a cluster under load, round after round, and checks after each that nothing which was "
      "acknowledged is lost"};
  app.add_option("--rounds", given.rounds, "How often")->capture_default_str()->check(CLI::Range(1, 1'000'000));
  app.add_option("--load", given.cluster.load,
                 "bank: transfers between accounts; ycsb: workload A on a hash map; grow: a map that gets larger; "
                 "tpcc: all five transactions of TPC-C, and its consistency conditions")
      ->capture_default_str()
      ->check(CLI::IsMember({"bank", "ycsb", "grow", "tpcc"}));
  app.add_option("--log", given.cluster.log, "What nodes log for: process or power; off: no log, and nobody is killed")
      ->capture_default_str()
      ->check(CLI::IsMember({"process", "power", "off"}));
  app.add_flag("--all", given.all, "Kill all nodes at once, each time");
  app.add_flag("--full-stop", given.full_stop, "Kill all nodes and the launcher, and start anew with --recover");
  app.add_flag("--fill", given.fill, "Fill the disk that has the logs, see errors, free it, and start with --recover");
  app.add_flag("--forge", given.forge, "Claim in the end that something was acknowledged that was not: must be found");
  app.add_option("--seed", given.cluster.seed, "Of what is done and killed (default: a fresh one)");
  app.add_option("--nodes", given.cluster.nodes)->capture_default_str()->check(CLI::Range(1u, kMostNodes));
  app.add_option("--threads", given.cluster.threads, "Of each node")
      ->capture_default_str()
      ->check(CLI::Range(1u, kMostThreads));
  app.add_option("--transport", given.cluster.transport, "Of the nodes")->capture_default_str();
  CLI::Option* const memory =
      app.add_option("--memory", given.cluster.memory, "Of each node (tpcc: 1G)")->capture_default_str();
  CLI::Option* const log_bytes = app.add_option("--log-size", given.cluster.log_bytes,
                                                "Of each node's log, from which on checkpoints are made (tpcc: 64M)")
                                     ->capture_default_str();
  app.add_option("--log-dir", given.cluster.log_directory, "For the logs (default: beside the journals)");
  app.add_option("--directory", given.cluster.directory, "For journals and output (default: a temporary one)");
  app.footer(
      "Examples:\n"
      "  scripts/kill-rounds --rounds 200\n"
      "  scripts/kill-rounds --rounds 200 --all --log power --load ycsb\n"
      "  scripts/kill-rounds --rounds 20 --load tpcc\n"
      "  scripts/kill-rounds --rounds 20 --full-stop --seed 7");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  if (given.cluster.load == "tpcc") {  // whose orders are never thrown away
    if (memory->count() == 0) given.cluster.memory = "1G";
    if (log_bytes->count() == 0) given.cluster.log_bytes = "64M";
    given.cluster.cache = "4M";
  }
  if (given.fill) given.cluster.recovery_wait = 5s;  // writers shall not wait for long where nobody makes room
  return given;
}

/// The directories of a run, if nobody has named others. They are kept when something is wrong.
class Directory {
 public:
  explicit Directory(KillSettings& settings) {
    if (settings.directory.empty()) {
      std::string pattern = (std::filesystem::temp_directory_path() / "atoll-kill-XXXXXX").string();
      if (::mkdtemp(pattern.data()) == nullptr) throw Error("cannot make " + pattern);
      settings.directory = path_ = pattern;
    }
    std::filesystem::create_directories(settings.directory);
    if (settings.log_directory.empty()) settings.log_directory = settings.directory + "/log";
  }
  void remove() const {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

 private:
  std::string path_;
};

/// A file that takes all the room there is on the disk of the logs.
class Ballast {
 public:
  explicit Ballast(const std::string& directory) : path_(directory + "/ballast") {}
  /// Takes what has become free since.
  void fill() {
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) throw Error("cannot make " + path_);
    const std::vector<char> block(4096, 'x');
    constexpr std::uint64_t kMost = 1ull << 30;  // who fills a disk for a test makes a small one for it
    while (written_ < kMost) {
      if (::write(file, block.data(), block.size()) <= 0) break;
      written_ += block.size();
    }
    ::close(file);
    if (written_ >= kMost) throw Error("the disk is too large to be filled: give --log-dir on a small one");
  }
  void remove() const { (void)::unlink(path_.c_str()); }

 private:
  std::string path_;
  std::uint64_t written_ = 0;
};

/// Thread-safety: none.
class Run {
 public:
  explicit Run(const Arguments& given)
      : given_(given), random_(given.cluster.seed), cluster_(given.cluster), ballast_(given.cluster.log_directory) {}

  /// How many losses there were.
  std::uint64_t run() {
    cluster_.start(false);
    for (unsigned round = 1; round <= given_.rounds; ++round) {
      const std::string what = given_.fill ? fill_disk() : given_.full_stop ? stop_fully() : strike();
      const auto took = cluster_.await_serving() + late_;
      slowest_ = std::max(slowest_, took);
      verify(fmt::format("round {}: {}; serving after {} ms", round, what, took.count()));
      if (losses_ > 0) return losses_;
      cluster_.work();
    }
    if (given_.forge) forge();
    cluster_.finish();
    return losses_;
  }

  void tell_summary() const {
    fmt::print("{} rounds, {} kills; the slowest took {} ms until all served; {} acknowledged operations, {} losses\n",
               rounds_, kills_, slowest_.count(), acknowledged_, losses_);
  }
  [[nodiscard]] std::string said() const { return cluster_.said(); }

 private:
  void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(100 + random_.below(400))); }

  /// One to three times, some nodes or all of them: those of the second time may not be back yet from the first.
  std::string strike() {
    late_ = {};
    std::string who;
    const std::uint64_t strikes = 1 + random_.below(3);
    for (std::uint64_t i = 0; i < strikes; ++i) {
      pause();
      if (given_.cluster.log == "off") continue;
      std::vector<unsigned> nodes(given_.cluster.nodes);
      for (unsigned k = 0; k < nodes.size(); ++k) nodes[k] = k;
      std::shuffle(nodes.begin(), nodes.end(), random_);
      if (!given_.all) nodes.resize(1 + random_.below(nodes.size()));
      for (const unsigned node : nodes) {
        if (!cluster_.kill_node(node)) continue;
        ++kills_;
        who += fmt::format(" {}", node);
      }
      if (i + 1 < strikes) who += ",";
    }
    return kills_ == 0 ? "nobody was killed" : "killed" + who;
  }

  std::string stop_fully() {
    pause();
    if (cluster_.errors() > 0) throw Error("a call has failed");
    const auto begun = std::chrono::steady_clock::now();
    cluster_.kill_all();
    cluster_.forgive();  // who saw the master go before it went itself was told so
    kills_ += given_.cluster.nodes;
    cluster_.start(true);
    late_ = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun);
    return "killed all and the launcher";
  }

  /// Until calls fail. What was acknowledged before, and what others have acknowledged since, must be there.
  std::string fill_disk() {
    pause();
    const auto end = std::chrono::steady_clock::now() + given_.cluster.patience;
    while (cluster_.errors() == 0) {
      ballast_.fill();
      if (std::chrono::steady_clock::now() > end) throw Error("the disk is full, and nobody gets an error");
      std::this_thread::sleep_for(10ms);
    }
    const Verdict before = judge_journals();
    const bool named = std::any_of(before.errors.begin(), before.errors.end(), [](const std::string& text) {
      return text.find(to_string(Errc::kStorageFull)) != std::string::npos;
    });
    if (!named) throw Error("the disk is full, and the errors do not say so: " + before.errors.front());
    cluster_.kill_all();
    ballast_.remove();
    cluster_.forgive();
    cluster_.start(true);
    return fmt::format("the disk was full ({})", before.errors.front());
  }

  [[nodiscard]] Verdict judge_journals() const {
    return judge({given_.cluster.directory, given_.cluster.load, given_.cluster.nodes, given_.cluster.threads});
  }

  void verify(const std::string& what) {
    cluster_.rest_and_dump();
    const Verdict verdict = judge_journals();
    ++rounds_;
    acknowledged_ = verdict.acknowledged;
    losses_ += verdict.losses.size();
    fmt::print("{}; {} acknowledged; {} losses\n", what, verdict.acknowledged, verdict.losses.size());
    for (const std::string& loss : verdict.losses) fmt::print("  LOST: {}\n", loss);
    std::fflush(stdout);
  }

  void forge() {
    cluster_.rest_and_dump();
    Record record = load_journal(given_.cluster.directory, 0).back();
    ++record.number;
    Journal(given_.cluster.directory, 0).append(record);
    const Verdict verdict = judge_journals();
    losses_ += verdict.losses.size();
    for (const std::string& loss : verdict.losses) fmt::print("  LOST: {}\n", loss);
  }

  const Arguments given_;
  base::Random random_;
  KillCluster cluster_;
  Ballast ballast_;
  std::chrono::milliseconds late_{0}, slowest_{0};
  std::uint64_t rounds_ = 0, kills_ = 0, acknowledged_ = 0, losses_ = 0;
};

int main_of(Arguments given) {
  const Directory directory(given.cluster);
  fmt::print("seed {}, journals in {}\n", given.cluster.seed, given.cluster.directory);
  std::fflush(stdout);
  std::unique_ptr<Run> run = std::make_unique<Run>(given);
  int code = 2;
  try {
    code = run->run() == 0 ? 0 : 1;
  } catch (const Error& error) {
    fmt::print("FAILED: {}\n", error.what());
  }
  run->tell_summary();
  if (code != 0) {
    fmt::print("repeat with --seed {}; what was written stays in {}. The nodes said last:\n{}\n", given.cluster.seed,
               given.cluster.directory, run->said());
  }
  run.reset();
  if (code == 0) directory.remove();
  return code;
}

}  // namespace
}  // namespace atoll::test

int main(int argc, char** argv) {
  const auto given = atoll::test::parse(argc, argv);
  try {
    return atoll::test::main_of(given);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kill-rounds: %s\n", error.what());
    return 2;
  }
}
