#include "bench/tpcc/engines.hpp"
#include "bench/tpcc/node.hpp"
#include "bench/tpcc/sqlite_db.hpp"

namespace atoll::bench::tpcc {

void run_sqlite(Node& node, const nlohmann::json& json, const Job& job) {
  SqliteDb db;
  NodeRun<SqliteDb>(node, db, json, job).run();
}

}  // namespace atoll::bench::tpcc
