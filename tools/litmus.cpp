// `atoll litmus`: runs the classic shapes on clusters of this very program and compares what was seen with what the
// memory model allows.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "atoll/node.hpp"
#include "bench/harness.hpp"
#include "cluster/job.hpp"
#include "commands.hpp"
#include "litmus/judge.hpp"
#include "litmus/model.hpp"
#include "sim/litmus.hpp"

namespace atoll::tools {
namespace {

using litmus::Case;
using litmus::Verdict;

constexpr int kExitFailed = 1;
/// A required outcome is looked for in so many times --runs, or in this many runs if that is more.
constexpr std::uint64_t kPatience = 10;
constexpr std::uint64_t kLeastPatience = 4'000'000;

struct Settings {
  std::uint64_t runs = 100'000;
  std::uint64_t seed = 1;
  std::string consistency = "all", judge_as;
  std::vector<std::string> shapes, variants, layouts;
  std::string json;
  bool list = false;
  bool simulate = false;
};

/// A result: the verdict, and what it was made from.
struct Record {
  Verdict verdict;
  litmus::Histogram histogram;
};

Consistency mode_of(std::string_view name) {
  const auto* const found = std::find_if(std::begin(litmus::kModes), std::end(litmus::kModes),
                                         [name](Consistency mode) { return litmus::to_string(mode) == name; });
  return found == std::end(litmus::kModes) ? Consistency::kDefault : *found;
}

std::vector<Case> chosen_cases(const Settings& settings) {
  const auto wants = [](const std::vector<std::string>& names, std::string_view name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<Case> tests;
  std::copy_if(litmus::all_cases().begin(), litmus::all_cases().end(), std::back_inserter(tests), [&](const Case& t) {
    return wants(settings.shapes, t.shape->name) && wants(settings.variants, litmus::to_string(t.variant)) &&
           wants(settings.layouts, litmus::to_string(t.layout));
  });
  return tests;
}

void print_list(const std::vector<Case>& tests) {
  fmt::print("shapes:\n");
  for (const litmus::Shape& shape : litmus::kShapes) {
    fmt::print("  {:<6}{:<28}{:<22}{}\n", shape.name, shape.text, shape.asks, shape.question);
  }
  fmt::print("\ntests, and whether the model allows what the shape asks for (* must be seen; - not run):\n");
  fmt::print("  {:<6}{:<8}{:<12}{:<11}{:<11}{}\n", "shape", "variant", "layout", "pso", "tso", "sc");
  for (const Case& test : tests) {
    fmt::print("  {:<6}{:<8}{:<12}", test.shape->name, litmus::to_string(test.variant), litmus::to_string(test.layout));
    for (const Consistency mode : litmus::kModes) {
      if (!litmus::is_run_under(test, mode)) {
        fmt::print("{:<11}", "-");
        continue;
      }
      const std::string answer = fmt::format("{}{}", litmus::allows_interesting(test, mode) ? "allowed" : "forbidden",
                                             litmus::must_be_seen(test, mode) ? "*" : "");
      fmt::print("{:<11}", answer);
    }
    fmt::print("\n");
  }
}

nlohmann::json to_json(const Record& record, const Settings& settings) {
  const Verdict& verdict = record.verdict;
  const litmus::Shape& shape = *verdict.test.shape;
  nlohmann::json outcomes = nlohmann::json::object(), forbidden = nlohmann::json::object();
  for (const auto& [outcome, count] : record.histogram) outcomes[litmus::to_text(shape, outcome)] = count;
  for (const auto& [outcome, count] : verdict.forbidden) forbidden[litmus::to_text(shape, outcome)] = count;
  return {{"shape", shape.name},
          {"variant", litmus::to_string(verdict.test.variant)},
          {"layout", litmus::to_string(verdict.test.layout)},
          {"consistency", litmus::to_string(verdict.mode)},
          {"runs", verdict.runs},
          {"seed", settings.seed},
          {"asks", shape.asks},
          {"allowed", verdict.allowed},
          {"seen", verdict.seen},
          {"must_be_seen", verdict.must_be_seen},
          {"ok", verdict.ok()},
          {"outcomes", outcomes},
          {"forbidden", forbidden}};
}

void write_json_lines(const std::string& path, const std::vector<Record>& records, const Settings& settings) {
  std::ofstream file(path);
  for (const Record& record : records) file << to_json(record, settings).dump() << '\n';
  file.close();
  if (!file) throw Error(fmt::format("cannot write {}", path));
}

std::string how_to_repeat(const Verdict& verdict, const Settings& settings) {
  return fmt::format("atoll litmus --shape {} --variant {} --layout {} --consistency {} --runs {} --seed {}{}",
                     verdict.test.shape->name, litmus::to_string(verdict.test.variant),
                     litmus::to_string(verdict.test.layout), litmus::to_string(verdict.mode), settings.runs,
                     settings.seed, settings.judge_as.empty() ? "" : " --judge-as " + settings.judge_as) +
         (settings.simulate ? " --sim" : "");
}

/// The launches of one `atoll litmus`: for each mode one cluster for the tests of as many nodes.
///
/// Thread-safety: none.
class LitmusRun {
 public:
  LitmusRun(const Settings& settings, std::vector<Case> tests) : settings_(settings), tests_(std::move(tests)) {
    for (const Consistency mode : litmus::kModes) {
      if (settings.consistency != "all" && mode_of(settings.consistency) != mode) continue;
      modes_.push_back(mode);
      total_ +=
          std::count_if(tests_.begin(), tests_.end(), [mode](const Case& t) { return litmus::is_run_under(t, mode); });
    }
    if (total_ == 0) throw CLI::ValidationError("no test fits all of these options; --list names all");
  }

  void run() {
    for (const Consistency mode : modes_) {
      std::map<NodeId, std::vector<Case>> by_nodes;
      for (const Case& test : tests_) {
        if (litmus::is_run_under(test, mode)) by_nodes[litmus::nodes_for(test)].push_back(test);
      }
      for (const auto& [nodes, tests] : by_nodes) {
        const std::vector<litmus::Histogram> found =
            settings_.simulate ? simulate(mode, tests) : launch(mode, nodes, tests);
        const Consistency model = settings_.judge_as.empty() ? mode : mode_of(settings_.judge_as);
        for (std::size_t i = 0; i < tests.size(); ++i) {
          records_.push_back({litmus::judge(tests[i], mode, model, found[i]), found[i]});
          records_.back().verdict.must_be_seen = must_be_seen(tests[i], mode);
        }
      }
    }
  }

  [[nodiscard]] const std::vector<Record>& records() const noexcept { return records_; }
  [[nodiscard]] std::vector<Verdict> verdicts() const {
    std::vector<Verdict> result;
    for (const Record& record : records_) result.push_back(record.verdict);
    return result;
  }

 private:
  /// The store buffers of processors, which relaxations within a node come from, are not simulated.
  [[nodiscard]] bool must_be_seen(const Case& test, Consistency mode) const {
    return litmus::must_be_seen(test, mode) && !(settings_.simulate && test.layout == litmus::Layout::kOneNode);
  }

  /// Half of the runs read in place what they can, half go through the protocol for everything.
  [[nodiscard]] std::uint64_t runs_each_way() const noexcept { return (settings_.runs + 1) / 2; }

  std::vector<litmus::Histogram> launch(Consistency mode, NodeId nodes, const std::vector<Case>& tests) {
    Options options;
    options.consistency = mode;
    options.memory_bytes = 16u << 20;
    options.cache_bytes = 2u << 20;  // less than what a round touches: some lines are thrown out meanwhile
    options.yield_us = 30;           // there are more threads than CPUs: who sleeps lets the others run
    const auto& all = litmus::all_cases();
    nlohmann::json numbers = nlohmann::json::array();
    for (const Case& test : tests) numbers.push_back(std::find(all.begin(), all.end(), test) - all.begin());
    std::vector<litmus::Histogram> sums(tests.size());
    for (const bool in_place : {false, true}) {
      options.read_in_place = in_place;
      // What must be seen is looked for longer, but once is enough.
      const nlohmann::json job = {{"tests", numbers},        {"mode", litmus::to_string(mode)},
                                  {"runs", runs_each_way()}, {"seed", settings_.seed},
                                  {"done", records_.size()}, {"total", total_},
                                  {"look_for", !in_place}};
      std::size_t next = 0;
      for (const nlohmann::json& found : cluster::run_job({"litmus-node"}, nodes, options, job)) {
        add(sums.at(next++), found.at("histogram").get<litmus::Histogram>());
      }
    }
    return sums;
  }

  std::vector<litmus::Histogram> simulate(Consistency mode, const std::vector<Case>& tests) {
    bench::Progress progress(int(records_.size()), int(total_));
    std::vector<litmus::Histogram> sums(tests.size());
    for (std::size_t i = 0; i < tests.size(); ++i) {
      progress.begin(fmt::format("{} {}", tests[i].name(), litmus::to_string(mode)));
      for (const bool in_place : {false, true}) {
        litmus::RunSettings settings;
        settings.runs = runs_each_way();
        settings.seed = settings_.seed;
        const bool look_for = must_be_seen(tests[i], mode) && !in_place;
        settings.until_seen = look_for ? kPatience * std::max<std::uint64_t>(settings_.runs, 10'000) : 0;
        add(sums[i], sim::run_litmus(tests[i], mode, settings, in_place));
      }
    }
    return sums;
  }

  static void add(litmus::Histogram& sum, const litmus::Histogram& more) {
    for (const auto& [outcome, count] : more) sum[outcome] += count;
  }

  const Settings& settings_;
  const std::vector<Case> tests_;
  std::vector<Consistency> modes_;
  std::ptrdiff_t total_ = 0;  // tests, over all modes
  std::vector<Record> records_;
};

/// Says what went wrong, or that nothing did. True when all is well.
bool print_summary(const std::vector<Verdict>& verdicts, const Settings& settings) {
  std::uint64_t runs = 0;
  std::size_t relaxed = 0, bad = 0;
  for (const Verdict& verdict : verdicts) {
    runs += verdict.runs;
    relaxed += verdict.must_be_seen && verdict.seen > 0 ? 1 : 0;
    if (verdict.ok()) continue;
    ++bad;
    for (const std::string& line : litmus::complaints(verdict)) fmt::print("FAILED: {}\n", line);
    fmt::print("  repeat: {}\n", how_to_repeat(verdict, settings));
  }
  fmt::print("{} tests, {} runs: ", verdicts.size(), runs);
  if (bad > 0) {
    fmt::print("{} failed\n", bad);
  } else {
    fmt::print("no forbidden outcome; {} relaxations had to be seen, and were\n", relaxed);
  }
  return bad == 0;
}

void run_litmus(const Settings& settings) {
  const std::vector<Case> tests = chosen_cases(settings);
  if (settings.list) return print_list(tests);
  if (!settings.json.empty()) write_json_lines(settings.json, {}, settings);  // complain now, not after minutes
  LitmusRun run(settings, tests);
  const auto start = std::chrono::steady_clock::now();
  try {
    run.run();
  } catch (const cluster::LaunchFailed& failure) {
    fmt::print(stderr, "atoll litmus: {}\n", failure.what());
    throw CLI::RuntimeError(failure.code());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::vector<Verdict> verdicts = run.verdicts();
  fmt::print("{}\n", litmus::table_of(verdicts));
  const bool ok = print_summary(verdicts, settings);
  fmt::print("{:.0f} s\n", seconds);
  if (!settings.json.empty()) write_json_lines(settings.json, run.records(), settings);
  if (!ok) throw CLI::RuntimeError(kExitFailed);
}

/// What `atoll litmus` starts its own nodes with.
void run_litmus_node() {
  const nlohmann::json job = cluster::current_job();
  const auto numbers = job.at("tests").get<std::vector<std::size_t>>();
  const auto mode = job.at("mode").get<std::string>();
  litmus::RunSettings settings;
  settings.runs = job.at("runs").get<std::uint64_t>();
  settings.seed = job.at("seed").get<std::uint64_t>();
  Node node;
  const litmus::Arena arena(node, unsigned(std::min<std::uint64_t>(settings.runs, litmus::Arena::kInstances)));
  bench::Progress progress(job.at("done").get<int>(), job.at("total").get<int>());
  for (const std::size_t number : numbers) {
    const Case& test = litmus::all_cases().at(number);
    if (node.id() == 0) progress.begin(fmt::format("{} {}", test.name(), mode));
    const bool look_for = job.at("look_for").get<bool>() && litmus::must_be_seen(test, mode_of(mode));
    settings.until_seen = look_for ? std::max(kPatience * settings.runs, kLeastPatience) : 0;
    const litmus::Histogram histogram = litmus::run_node(node, arena, test, settings);
    if (node.id() == 0) cluster::report(job, {{"test", number}, {"histogram", histogram}});
  }
}

template <typename Values>
std::vector<std::string> names_of(const Values& values) {
  std::vector<std::string> names;
  for (const auto value : values) names.emplace_back(litmus::to_string(value));
  return names;
}

}  // namespace

void add_litmus(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  CLI::App* sub = app.add_subcommand("litmus", "Run the classic litmus tests against the memory model");
  std::vector<std::string> shapes;
  for (const litmus::Shape& shape : litmus::kShapes) shapes.emplace_back(shape.name);
  const auto choice = [sub](const char* option, std::vector<std::string>& into, const std::vector<std::string>& names,
                            const char* what) {
    sub->add_option(option, into,
                    fmt::format("Only this {}; may be given several times: {}", what, fmt::join(names, ", ")))
        ->type_name("NAME")
        ->check(CLI::IsMember(names).description(""));
  };
  std::vector<std::string> modes = names_of(litmus::kModes);
  sub->add_option("--runs", settings->runs, "Runs of each test under each consistency, at least")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1u, 1'000'000'000u).description(""));
  sub->add_option("--judge-as", settings->judge_as,
                  "Judge by the model of pso, tso or sc, whatever ran: to see that a run can fail")
      ->type_name("MODEL")
      ->check(CLI::IsMember(modes).description(""));
  modes.emplace_back("all");
  sub->add_option("--consistency", settings->consistency, "pso, tso, sc or all")
      ->type_name("MODE")
      ->capture_default_str()
      ->check(CLI::IsMember(modes).description(""));
  choice("--shape", settings->shapes, shapes, "shape");
  choice("--variant", settings->variants, names_of(litmus::kVariants), "variant");
  choice("--layout", settings->layouts, names_of(litmus::kLayouts), "layout");
  sub->add_option("--seed", settings->seed, "For places, lines' states and delays")
      ->type_name("S")
      ->capture_default_str();
  sub->add_option("--json", settings->json, "Write the results to a file too, one JSON object per line")
      ->type_name("FILE");
  sub->add_flag("--sim", settings->simulate, "On simulated clusters, in virtual time, instead of real processes");
  sub->add_flag("--list", settings->list, "Print the shapes and what the model says, and run nothing");
  sub->footer(
      "Each test runs on a cluster of 3 or 4 processes. The table says for each consistency whether the model allows\n"
      "what the shape asks for, and how often it was seen; a test that failed is marked with an exclamation mark.\n"
      "Exit code: 0 when all is well; 1 when an outcome was seen that the model forbids, or a relaxation that must\n"
      "be seen was not.\n\n"
      "Examples:\n"
      "  atoll litmus                                   everything: some minutes\n"
      "  atoll litmus --runs 2000                       a quick look\n"
      "  atoll litmus --shape SB --consistency tso      one shape\n"
      "  atoll litmus --sim --runs 2000                 the same tests in the simulator\n"
      "  atoll litmus --list                            what the model says");
  sub->callback([settings] { run_litmus(*settings); });
  app.add_subcommand("litmus-node", "A node of `atoll litmus`")->group("")->callback([] { run_litmus_node(); });
}

}  // namespace atoll::tools
