// `atoll sim`: random programs on simulated clusters, with every checker.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/log.hpp"
#include "commands.hpp"
#include "sim/simulation.hpp"

namespace atoll::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kExitFailure = 1;

constexpr const char* kFooter =
    "All that is not given is drawn from the seed: one seed, one history, bit for bit.\n"
    "Checked all along: every value read against all that it may be, lock exclusion, progress within a bound of\n"
    "virtual time; and at quiet points, if nobody has died: every line in every node, and that nothing has leaked.\n"
    "Exit code: 0 when all is well, 1 with the seed, the command that repeats it and a message chart when not.";

struct Settings {
  sim::Wishes wishes;
  std::uint64_t seed = 0;
  std::uint64_t seeds = 1;
  double minutes = 0;
  bool json = false;
  bool verbose = false;
  std::string given;  // the options that make the plan, as they were given
};

/// What has been simulated so far.
struct Total {
  std::uint64_t seeds = 0;
  std::uint64_t operations = 0;
  std::uint64_t failed = 0;
  std::uint64_t messages = 0;
  std::uint64_t switches = 0;
  std::uint64_t deaths = 0;
  std::uint64_t logged = 0;
  std::uint64_t crashes = 0;
  std::uint64_t returns = 0;
  double virtual_s = 0;
  std::array<std::uint64_t, sim::kActs> done{};

  void add(const sim::Outcome& outcome) {
    ++seeds;
    operations += outcome.operations;
    failed += outcome.failed;
    messages += outcome.messages;
    switches += outcome.switches;
    deaths += outcome.with_death ? 1 : 0;
    logged += outcome.logged ? 1 : 0;
    crashes += outcome.crashes;
    returns += outcome.returns;
    virtual_s += double(outcome.virtual_ns) * 1e-9;
    for (std::size_t i = 0; i < done.size(); ++i) done[i] += outcome.done[i];
  }
};

std::string repeat_command(const Settings& settings, std::uint64_t seed) {
#ifdef ATOLL_LAB
  const std::string command = fmt::format("atoll_lab_sim --fault {} sim", lab::name_of(lab::chosen));
#else
  const std::string command = "atoll sim";
#endif
  return fmt::format("{} --seed {}{}", command, seed, settings.given);
}

// An assertion of the node itself ends the process, or worse; what to repeat must be said before.
std::string g_repeat;
extern "C" void tell_and_die(int signal) {
  // Not safe in a signal handler in general; this process has one thread, and is about to end.
  fmt::print(stderr, "\nFAILED: {}\nrepeat: {}\n",
             signal == SIGABRT ? "an assertion of the node itself" : "the node has crashed", g_repeat);
  std::fflush(stderr);
  std::_Exit(kExitFailure);
}

void show_progress(const Total& total, Clock::time_point start) {
  static Clock::time_point last = start;
  if (isatty(STDERR_FILENO) == 0 || Clock::now() - last < std::chrono::seconds(1)) return;
  last = Clock::now();
  fmt::print(stderr, "\r{:.0f} s: {} seeds, {} operations, {} messages ",
             std::chrono::duration<double>(last - start).count(), total.seeds, total.operations, total.messages);
}

void print_total(const Settings& settings, const Total& total, double seconds) {
  if (settings.json) {
    nlohmann::json acts;
    for (std::size_t i = 0; i < sim::kActs; ++i) acts[std::string(to_string(sim::Act(i)))] = total.done[i];
    fmt::print("{}\n", nlohmann::json({{"seeds", total.seeds},
                                       {"operations", total.operations},
                                       {"operations_failed", total.failed},
                                       {"messages", total.messages},
                                       {"switches", total.switches},
                                       {"seeds_with_death", total.deaths},
                                       {"seeds_with_log", total.logged},
                                       {"crashes", total.crashes},
                                       {"returns", total.returns},
                                       {"virtual_seconds", total.virtual_s},
                                       {"seconds", seconds},
                                       {"by_operation", acts}})
                           .dump());
    return;
  }
  if (settings.verbose) {
    for (std::size_t i = 0; i < sim::kActs; ++i) fmt::print("  {:<18}{}\n", to_string(sim::Act(i)), total.done[i]);
  }
  fmt::print(
      "{} seeds ({} with a node that dies, {} with logs: {} crashes, {} returns), {} operations, {} messages, {:.1f} s "
      "of virtual time in {:.1f} s: "
      "no failure\n",
      total.seeds, total.deaths, total.logged, total.crashes, total.returns, total.operations, total.messages,
      total.virtual_s, seconds);
}

void run_sim(Settings& settings) {
  spdlog::set_level(spdlog::level::off);  // nodes that die are part of the plan
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, tell_and_die);
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::random_device fresh;
  Total total;
  const bool by_time = settings.minutes > 0;
  while (by_time ? seconds() < settings.minutes * 60 : total.seeds < settings.seeds) {
    const std::uint64_t seed = by_time ? fresh() : settings.seed + total.seeds;
    g_repeat = repeat_command(settings, seed);
    const sim::Plan plan = sim::draw(seed, settings.wishes);
    if (settings.verbose) {
      fmt::print("seed {}: {}\n", seed, to_string(plan));
      std::fflush(stdout);
    }
    const sim::Outcome outcome = sim::simulate(plan);
    total.add(outcome);
    if (!outcome.ok) {
      if (settings.json) {
        const nlohmann::json failure = {{"seed", seed}, {"failure", outcome.failure}, {"repeat", g_repeat}};
        fmt::print("{}\n", failure.dump());
      } else {
        fmt::print("\nFAILED with seed {}: {}\n\n{}\nrepeat: {}\n", seed, to_string(plan), outcome.failure, g_repeat);
      }
      std::fflush(stdout);
      std::_Exit(kExitFailure);  // nodes stand still in the middle of things
    }
    show_progress(total, start);
  }
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K");
  print_total(settings, total, seconds());
}

template <typename T>
void add_wish(CLI::App& sub, Settings& settings, const std::string& name, std::optional<T>& wish, const char* what,
              const CLI::Validator& valid) {
  sub.add_option_function<T>(
         name,
         [&settings, &wish, name](const T& value) {
           wish = value;
           settings.given += fmt::format(" {} {}", name, value);
         },
         what)
      ->check(valid);
}

}  // namespace

void add_sim(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("sim", "Simulate clusters in virtual time and check all that they promise");
  sub->footer(kFooter);
  auto settings = std::make_shared<Settings>();
  sim::Wishes& wishes = settings->wishes;
  sub->add_option("--seed", settings->seed, "The (first) seed")->capture_default_str();
  sub->add_option("--seeds", settings->seeds, "So many seeds, one after the other")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--minutes", settings->minutes, "Fresh seeds for so long")->check(CLI::PositiveNumber);
  add_wish(*sub, *settings, "--nodes", wishes.nodes, "Nodes", CLI::Range(2, 256));
  add_wish(*sub, *settings, "--threads", wishes.threads, "Threads of each node", CLI::Range(1, 64));
  add_wish(*sub, *settings, "--ops", wishes.ops, "Operations of all threads together (10000)",
           CLI::Range(1u, 1'000'000'000u));
  add_wish(*sub, *settings, "--line", wishes.line_bytes, "Bytes of a line",
           CLI::IsMember({64u, 128u, 256u, 512u, 1024u, 2048u, 4096u}));
  add_wish(*sub, *settings, "--latency", wishes.latency_ns, "Nanoseconds from one node to another",
           CLI::Range(0u, 20'000u));
  add_wish(*sub, *settings, "--gbps", wishes.gbps, "Bandwidth of each node in Gbit/s", CLI::Range(0.001, 1e6));
  add_wish(*sub, *settings, "--loss-of-nodes", wishes.loss_of_nodes, "How likely it is that a node dies (0.1)",
           CLI::Range(0.0, 1.0));
  sub->add_flag_callback(
      "--logged",
      [settings] {
        settings->wishes.logged = true;
        settings->given += " --logged";
      },
      "Nodes have logs, crash and come back");
  sub->add_option_function<std::string>(
         "--consistency",
         [settings](const std::string& name) {
           settings->wishes.consistency = name == "pso"   ? Consistency::kPso
                                          : name == "tso" ? Consistency::kTso
                                                          : Consistency::kSc;
           settings->given += " --consistency " + name;
         },
         "pso, tso or sc")
      ->check(CLI::IsMember({"pso", "tso", "sc"}));
  sub->add_flag("--json", settings->json, "One JSON object in the end");
  sub->add_flag("--verbose", settings->verbose, "The plan of each seed, and how often each operation was done");
  sub->callback([settings] { run_sim(*settings); });
}

}  // namespace atoll::tools
