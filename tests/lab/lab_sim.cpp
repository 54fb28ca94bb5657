// `atoll sim` of the laboratory build: the same command, with faults to choose from.
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "base/log.hpp"
#include "commands.hpp"
#include "lab/lab.hpp"

int main(int argc, char** argv) {
  using namespace atoll;
  base::init_logging();
  CLI::App app("The simulator of the laboratory build.", "atoll_lab_sim");
  app.add_option_function<std::string>(
      "--fault",
      [](const std::string& name) {
        if (!lab::choose(name)) throw CLI::ValidationError("--fault", "there is no such fault; see --list-faults");
      },
      "Make this mistake");
  app.add_flag_callback(
      "--list-faults",
      [] {
        lab::for_each_fault([](std::string_view name, std::string_view what) { fmt::print("{:<28}{}\n", name, what); });
        std::exit(0);
      },
      "The mistakes that there are");
  app.require_subcommand(1);
  tools::add_sim(app);
  CLI11_PARSE(app, argc, argv);
  return 0;
}
