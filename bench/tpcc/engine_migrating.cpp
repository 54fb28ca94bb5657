#include "bench/tpcc/engines.hpp"
#include "bench/tpcc/migrating_db.hpp"
#include "bench/tpcc/node.hpp"

namespace atoll::bench::tpcc {

void run_migrating(Node& node, const nlohmann::json& json, const Job& job) {
  MigratingDb db(node, job.threads + 1);  // one more populates and checks
  NodeRun<MigratingDb>(node, db, json, job).run();
}

}  // namespace atoll::bench::tpcc
