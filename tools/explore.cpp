// `atoll explore`: walks every state that the protocol core can reach, and looks at each.
#include "explorer/explorer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "explorer/lock_explorer.hpp"
#include "explorer/mutants.hpp"
#include "explorer/protocol_docs.hpp"

namespace atoll::tools {
namespace {

using explorer::ExploreOptions;
using explorer::ExploreProgress;
using explorer::ExploreResult;
using Clock = std::chrono::steady_clock;

constexpr int kExitViolation = 1;
constexpr int kExitNotComplete = 3;
constexpr auto kProgressEvery = std::chrono::seconds(2);

constexpr const char* kBounds =
    "Every interleaving of messages and operations is followed. What is bounded:\n"
    "  - nodes, lines and threads per node, as given;\n"
    "  - a thread has one operation under way that it waits for, and one asynchronous write per line;\n"
    "  - a thread that holds a lock waits only for lines above the one it holds, may try any, and writes a line that "
    "it\n"
    "    locked only under a write lock: what breaks this deadlocks in any program;\n"
    "  - at most --locks-held locks per thread (by default as many as there are lines);\n"
    "  - cache slots do not run out.\n"
    "With --logged (read,write,atomic,lock,try,evict unless told): one node is dead at a time, its peers notice one by "
    "one,\n"
    "and it comes back when all have; --crashes says how often that happens, at any point.\n"
    "With --files: --failures of reading or writing; a line is written once at a time and not dropped meanwhile.\n"
    "With --locks (3 nodes unless told): a thread wants each element independently of the others, has two requests "
    "for\n"
    "it under way at most, and one node dies.\n"
    "Exit code: 0 when all is well, 1 with a message chart on a violation, 3 when --max-states was reached.";

struct Settings {
  ExploreOptions options;
  std::vector<std::string> ops;
  std::string mutant;
  bool json = false;
  bool verbose = false;
  bool list_mutants = false;
  bool print_tables = false;
  bool locks = false;
  unsigned elements = 1;
};

constexpr std::pair<const char*, std::uint32_t> kOpNames[] = {
    {"read", explorer::kOpsRead},     {"write", explorer::kOpsWrite},    {"atomic", explorer::kOpsAtomic},
    {"lock", explorer::kOpsLock},     {"try", explorer::kOpsTry},        {"evict", explorer::kOpsEvict},
    {"cancel", explorer::kOpsCancel}, {"ahead", explorer::kOpsAhead},    {"leave", explorer::kOpsLeave},
    {"away", explorer::kOpsAway},     {"operate", explorer::kOpsOperate}};

std::uint32_t mask_of(const std::vector<std::string>& names) {
  std::uint32_t mask = 0;
  for (const std::string& name : names) {
    for (const auto& [known, bit] : kOpNames) mask |= name == known ? bit : 0U;
  }
  return mask;
}

std::function<void(const ExploreProgress&)> progress_on_terminal() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [start = Clock::now(), last = Clock::now()](const ExploreProgress& now) mutable {
    if (Clock::now() - last < kProgressEvery) return;
    last = Clock::now();
    const double seconds = std::chrono::duration<double>(last - start).count();
    fmt::print(stderr, "\r{:.0f} s: {} states, {} transitions, depth {}, {} open ", seconds, now.states,
               now.transitions, now.depth, now.open);
  };
}

template <typename Table>
std::size_t rows_of(const Table& table) {
  std::size_t count = 0;
  for (const auto& state : table.cells) {
    for (const auto& cell : state) count += cell.never ? 0 : 1;
  }
  return count;
}

void print_json(const ExploreOptions& options, const ExploreResult& result, const coherence::Tables& tables,
                double seconds) {
  nlohmann::json out = {{"nodes", options.nodes},
                        {"lines", options.lines},
                        {"threads", options.threads},
                        {"logged", options.logged},
                        {"crashes", options.crashes},
                        {"files", options.files},
                        {"failures", options.failures},
                        {"states", result.states},
                        {"transitions", result.transitions},
                        {"depth", result.depth},
                        {"complete", result.complete},
                        {"seconds", seconds},
                        {"rows", rows_of(tables.directory) + rows_of(tables.cache)},
                        {"unused_rows", result.unused_rows(tables)},
                        {"never_rows_used", result.never_rows_used(tables)}};
  if (result.violation) out["violation"] = {{"invariant", result.violated}, {"chart", *result.violation}};
  fmt::print("{}\n", out.dump());
}

void print_text(const Settings& settings, const ExploreResult& result, const coherence::Tables& tables,
                double seconds) {
  const ExploreOptions& options = settings.options;
  fmt::print("{} nodes, {} lines, {} threads per node: {} states, {} transitions, depth {}, {:.1f} s\n", options.nodes,
             options.lines, options.threads, result.states, result.transitions, result.depth, seconds);
  const std::vector<std::string> unused = result.unused_rows(tables);
  const std::size_t rows = rows_of(tables.directory) + rows_of(tables.cache);
  fmt::print("{} of {} (state, event) pairs of both tables were used\n", rows - unused.size(), rows);
  if (settings.verbose) {
    for (const std::string& row : unused) fmt::print("  not used: {}\n", row);
  }
  for (const std::string& row : result.never_rows_used(tables)) fmt::print("  reached, but should never be: {}\n", row);
  if (result.violation) {
    fmt::print("VIOLATION, by the shortest way to it:\n{}", *result.violation);
  } else if (result.complete) {
    fmt::print("complete: every state holds every invariant, and each has a way to rest\n");
  } else {
    fmt::print("not complete: stopped at {} states (--max-states)\n", result.states);
  }
}

void list_mutants(bool locks) {
  if (locks) {
    for (const auto& mutant : explorer::lock_mutants()) fmt::print("{:<38}{}\n", mutant.name, mutant.mistake);
    return;
  }
  for (const explorer::Mutant& mutant : explorer::mutants()) fmt::print("{:<38}{}\n", mutant.name, mutant.mistake);
}

constexpr std::pair<const char*, std::uint8_t> kLockOpNames[] = {
    {"read", explorer::kLockOpsRead},     {"write", explorer::kLockOpsWrite}, {"try", explorer::kLockOpsTry},
    {"cancel", explorer::kLockOpsCancel}, {"death", explorer::kLockOpsDeath}, {"return", explorer::kLockOpsReturn}};

void print_locks_json(const explorer::LockWorldOptions& world, const explorer::LockExploreResult& result,
                      const std::vector<std::string>& unused, double seconds) {
  nlohmann::json out = {{"nodes", world.nodes},
                        {"elements", world.elements},
                        {"threads", world.threads},
                        {"states", result.states},
                        {"transitions", result.transitions},
                        {"depth", result.depth},
                        {"complete", result.complete},
                        {"seconds", seconds},
                        {"unused_rows", unused}};
  if (result.violation) out["violation"] = {{"invariant", result.violated}, {"chart", *result.violation}};
  fmt::print("{}\n", out.dump());
}

void print_locks_text(const Settings& settings, const explorer::LockWorldOptions& world,
                      const explorer::LockExploreResult& result, const std::vector<std::string>& unused,
                      double seconds) {
  fmt::print(
      "element locks, {} nodes, {} elements, {} threads per node: {} states, {} transitions, depth {}, {:.1f} s\n",
      world.nodes, world.elements, world.threads, result.states, result.transitions, result.depth, seconds);
  const std::size_t rows = rows_of(*world.table);
  fmt::print("{} of {} (state, event) pairs of the table were used\n", rows - unused.size(), rows);
  if (settings.verbose) {
    for (const std::string& row : unused) fmt::print("  not used: {}\n", row);
  }
  if (result.violation) {
    fmt::print("VIOLATION, by the shortest way to it:\n{}", *result.violation);
  } else if (result.complete) {
    fmt::print("complete: every state holds every invariant\n");
  } else {
    fmt::print("not complete: stopped at {} states (--max-states)\n", result.states);
  }
}

void run_explore_locks(const Settings& settings, bool nodes_given) {
  explorer::LockExploreOptions options;
  explorer::LockWorldOptions& world = options.world;
  if (nodes_given) world.nodes = settings.options.nodes;
  if (world.nodes > explorer::kMaxLockNodes) throw CLI::ValidationError("--nodes", "up to 3 with --locks");
  if (settings.options.threads > explorer::kMaxLockThreads) {
    throw CLI::ValidationError("--threads", "up to 2 with --locks");
  }
  world.elements = settings.elements;
  world.threads = settings.options.threads;
  options.max_states = settings.options.max_states;
  coherence::ElementTable table = coherence::kElementTable;
  if (!settings.mutant.empty()) {
    const explorer::LockMutant* mutant = explorer::find_lock_mutant(settings.mutant);
    if (mutant == nullptr) throw CLI::ValidationError("--mutant", "no such mutant; --list-mutants names them");
    explorer::make_mistake(*mutant, table, world);
  }
  if (!settings.ops.empty()) world.ops = 0;
  for (const std::string& name : settings.ops) {
    for (const auto& [known, bit] : kLockOpNames) world.ops |= name == known ? bit : std::uint8_t{0};
  }
  world.table = &table;
  const auto start = Clock::now();
  const explorer::LockExploreResult result = explorer::explore_locks(options);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const std::vector<std::string> unused = result.unused_rows(table);
  if (settings.json) {
    print_locks_json(world, result, unused, seconds);
  } else {
    print_locks_text(settings, world, result, unused, seconds);
  }
  if (result.violation) throw CLI::RuntimeError(kExitViolation);
  if (!result.complete) throw CLI::RuntimeError(kExitNotComplete);
}

void run_explore(Settings settings, bool nodes_given) {
  if (settings.list_mutants) return list_mutants(settings.locks);
  if (settings.print_tables) {
    fmt::print("{}", explorer::protocol_tables());
    return;
  }
  if (settings.locks) return run_explore_locks(settings, nodes_given);
  coherence::Tables tables;
  if (!settings.mutant.empty()) {
    const explorer::Mutant* mutant = explorer::find_mutant(settings.mutant);
    if (mutant == nullptr) throw CLI::ValidationError("--mutant", "no such mutant; --list-mutants names them");
    mutant->apply(tables);
    const ExploreOptions found_in = mutant->world();
    if (!nodes_given) settings.options.nodes = found_in.nodes;
    if (found_in.files && !settings.options.files) {
      settings.options.files = true;
      settings.options.failures = found_in.failures;
    }
    if (found_in.logged && !settings.options.logged) {
      settings.options.logged = true;
      settings.options.crashes = found_in.crashes;
      settings.options.power = found_in.power;
    }
  }
  if (settings.options.crashes != 0 && !settings.options.logged)
    throw CLI::ValidationError("--crashes", "what is not logged does not come back; say --logged");
  if (settings.options.files && settings.options.logged)
    throw CLI::ValidationError("--files", "no line of a file is logged; without --logged");
  if (settings.options.failures != 0 && !settings.options.files)
    throw CLI::ValidationError("--failures", "there is no file that could fail; say --files");
  if (settings.options.logged) settings.options.ops &= explorer::kOpsLogged;
  if (!settings.ops.empty()) settings.options.ops = mask_of(settings.ops);
  settings.options.tables = &tables;
  settings.options.progress = progress_on_terminal();
  const auto start = Clock::now();
  const ExploreResult result = explorer::explore(settings.options);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (settings.options.progress) fmt::print(stderr, "\r\033[K");
  if (settings.json) {
    print_json(settings.options, result, tables, seconds);
  } else {
    print_text(settings, result, tables, seconds);
  }
  if (result.violation || !result.never_rows_used(tables).empty()) throw CLI::RuntimeError(kExitViolation);
  if (!result.complete) throw CLI::RuntimeError(kExitNotComplete);
}

}  // namespace

void add_explore(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("explore", "Check the coherence protocol in every state that it can reach");
  sub->footer(kBounds);
  auto settings = std::make_shared<Settings>();
  ExploreOptions& options = settings->options;
  CLI::Option* nodes = sub->add_option("--nodes", options.nodes, "Nodes")
                           ->check(CLI::Range(2U, explorer::kMaxNodes))
                           ->capture_default_str();
  sub->add_option("--lines", options.lines, "Lines; line l has its home at node l mod nodes")
      ->check(CLI::Range(1U, explorer::kMaxLines))
      ->capture_default_str();
  sub->add_option("--threads", options.threads, "Threads per node")
      ->check(CLI::Range(1U, explorer::kMaxThreads))
      ->capture_default_str();
  std::vector<std::string> names;
  for (const auto& [name, bit] : kOpNames) names.emplace_back(name);
  names.insert(names.end(), {"death", "return"});
  sub->add_option("--ops", settings->ops,
                  "What threads do: read,write,atomic,lock,try,evict,leave,away,operate (the default), cancel, ahead; "
                  "leave: a write that misses may also be left to the home; away: a write is for the home or not "
                  "done. With --locks: read,write,try,cancel,death (the default), return: nodes that died come back")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  sub->add_option("--locks-held", options.locks_held, "Locks that a thread holds at once, at most")
      ->check(CLI::Range(1U, explorer::kMaxLines));
  sub->add_flag("--logged", options.logged, "What is written is logged, and a node that died comes back");
  sub->add_option("--crashes", options.crashes, "With --logged: so many deaths")
      ->check(CLI::Range(0U, 15U))
      ->capture_default_str();
  sub->add_flag("--late-acks", options.late_acks, "With --logged: returned lines are acknowledged some time later");
  sub->add_flag("--power", options.power,
                "With --logged: what is logged is durable some time later, and a death takes the rest with it");
  sub->add_flag("--files", options.files, "The lines have a file at their home, which may drop them from memory");
  sub->add_option("--failures", options.failures, "With --files: so often a file cannot be read, or not be written")
      ->check(CLI::Range(0U, 15U))
      ->capture_default_str();
  sub->add_flag("--locks", settings->locks, "Explore the locks of elements, which have nothing to do with lines");
  sub->add_option("--elements", settings->elements,
                  "With --locks: elements; element e has its home at node e mod nodes")
      ->check(CLI::Range(1U, explorer::kMaxElements))
      ->capture_default_str();
  sub->add_option("--max-states", options.max_states, "Stop after so many states")->capture_default_str();
  sub->add_option("--mutant", settings->mutant, "Explore a protocol with this mistake in it");
  sub->add_flag("--list-mutants", settings->list_mutants, "The mistakes that there are");
  sub->add_flag("--print-tables", settings->print_tables, "The generated part of docs/protocol.md");
  sub->add_flag("--json", settings->json, "One JSON object");
  sub->add_flag("--verbose", settings->verbose, "Name the rows that were not used");
  sub->callback([settings, nodes] { run_explore(*settings, nodes->count() != 0); });
}

}  // namespace atoll::tools
