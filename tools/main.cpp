// The `atoll` command.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>

#include "base/log.hpp"
#include "commands.hpp"

namespace {

constexpr int kUsageError = 2;

/// What was wrong and where to read more, instead of the whole help.
std::string usage_error(const CLI::App* app, const CLI::Error& error) {
  std::string command = "atoll";
  for (const CLI::App* sub : app->get_subcommands()) command += " " + sub->get_name();
  const std::vector<std::string> unknown = app->remaining();
  if (app->get_subcommands().empty() && !unknown.empty()) {
    return fmt::format("atoll: there is no command \"{}\"\nTry `atoll --help`.\n", unknown.front());
  }
  return fmt::format("{}: {}\nTry `{} --help`.\n", command, error.what(), command);
}

int run(int argc, char** argv) {
  CLI::App app("Atoll: the memory of many machines as one coherent memory.", "atoll");
  app.set_version_flag("--version", std::string("atoll ") + ATOLL_VERSION);
  app.require_subcommand(1);
  app.failure_message(usage_error);
  app.footer(
      "Examples:\n"
      "  atoll run -n 4 -- ./program     four nodes on this host\n"
      "  atoll status                    what runs, and its counters\n"
      "  atoll run --help                all options of `run`");
  const bool runs = argc > 1 && std::string_view(argv[1]) == "run";
  char** const end = argv + argc;
  char** const dashes = runs ? std::find(argv, end, std::string_view("--")) : end;
  atoll::tools::add_run(app, std::vector<std::string>(dashes == end ? end : dashes + 1, end));
  atoll::tools::add_agent(app);
  atoll::tools::add_status(app);
  atoll::tools::add_master(app);
  atoll::tools::add_key(app);
  atoll::tools::add_log(app);
  atoll::tools::add_doctor(app);
  atoll::tools::add_explore(app);
  atoll::tools::add_sim(app);
  atoll::tools::add_scale(app);
  atoll::tools::add_litmus(app);
  atoll::tools::add_bench(app);
  atoll::tools::add_kv(app);
  try {
    app.parse(int(dashes - argv), argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    // Codes of CLI11 itself are above 100; those below come from the subcommands.
    const bool usage = error.get_name() != "RuntimeError" && code != 0;
    return usage ? kUsageError : code;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    atoll::base::init_logging();
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "atoll: {}\n", error.what());
    return 1;
  }
}
