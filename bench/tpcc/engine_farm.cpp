#include "bench/tpcc/engines.hpp"
#include "bench/tpcc/farm_db.hpp"
#include "bench/tpcc/node.hpp"

namespace atoll::bench::tpcc {

void run_farm(Node& node, const nlohmann::json& json, const Job& job) {
  // Many times what Atoll's rows need, for tables that grow are far too large (FarmStore): what is not used is not
  // taken.
  constexpr std::uint64_t kBase = 64ull << 20, kTimes = 12;
  FarmOptions options;
  options.memory_bytes = kBase + kTimes * (job.bytes() / job.shape.homes.nodes + job.bytes_of_warehouse());
  options.threads = job.threads + 2;  // the one that loads with them, and one to spare
  FarmDb db(node, options);
  NodeRun<FarmDb>(node, db, json, job).run();
}

}  // namespace atoll::bench::tpcc
