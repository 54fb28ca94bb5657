#include "bench/tpcc/atoll_db.hpp"
#include "bench/tpcc/engines.hpp"
#include "bench/tpcc/node.hpp"

namespace atoll::bench::tpcc {

void run_atoll(Node& node, const nlohmann::json& json, const Job& job) {
  AtollDb db(node);
  NodeRun<AtollDb>(node, db, json, job).run();
}

}  // namespace atoll::bench::tpcc
