#include "bench/tpcc/engines.hpp"

#include <algorithm>
#include <array>

namespace atoll::bench::tpcc {
namespace {

constexpr std::array kEngines{
    Engine{"atoll", "transactions on coherent memory", true, false, run_atoll},
    Engine{"farm", "optimistic, versions, two-phase commit with the data's homes, no coherent cache", false, false,
           run_farm},
    Engine{"lstore", "partitioned: rows move to the node whose transaction needs them, and it commits there alone",
           false, false, run_migrating},
    Engine{"sqlite", "SQLite, all in memory", true, true, run_sqlite},
};

}  // namespace

std::span<const Engine> engines() {
  return kEngines;
}

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const Engine& engine : kEngines) names.emplace_back(engine.name);
  return names;
}

const Engine& engine_of(std::string_view name) {
  const auto found =
      std::find_if(kEngines.begin(), kEngines.end(), [&](const Engine& engine) { return engine.name == name; });
  if (found == kEngines.end()) throw Error("there is no such engine: " + std::string(name));
  return *found;
}

}  // namespace atoll::bench::tpcc
