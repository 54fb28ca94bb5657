// TPC-C by Atoll's engine, all five transactions: each of them is there whole or not at all, whoever dies.
#pragma once

#include <fstream>
#include <optional>

#include "behaviour/recovery_worker.hpp"
#include "bench/tpcc/atoll_db.hpp"
#include "bench/tpcc/consistency.hpp"
#include "bench/tpcc/population.hpp"
#include "bench/tpcc/transactions.hpp"
#include "bench/tpcc/worker.hpp"

namespace atoll::test {

/// A warehouse for each node. An order that a worker was told of is noted by its district and number. When all rest,
/// each node looks whether the consistency conditions hold for its warehouse, and all of them which orders there are.
///
/// Thread-safety: as Load.
class Tpcc final : public Load {
 public:
  using Load::Load;

  void begin() override {
    append_line(lives_path(node_.id()), "began");
    shape_.scale = bench::tpcc::Scale::small();
    shape_.homes = {node_.count(), node_.count()};
    shape_.seed = size_.seed;
    shape_.constants = bench::tpcc::Constants::from_seed(size_.seed);
    db_.emplace(node_);
    tables_.emplace(open_tables(*db_, shape_.scale, shape_.homes, bench::tpcc::Mix::kFull, kOrders));
    if (!node_.recovered()) {  // nobody is killed before all serve
      bench::tpcc::Population(*db_, *tables_, shape_, node_.id(), bench::tpcc::time_now()).run(size_.threads, [](int) {
      });
      node_.publish(loaded(node_.id()), node_.allocate<std::uint64_t>().value().address()).or_throw();
    }
    for (NodeId k = 0; k < node_.count(); ++k) (void)await(loaded(k));
  }

  std::unique_ptr<Worker> make_worker(unsigned thread) override { return std::make_unique<Client>(*this, thread); }

  /// Of each district how many orders were entered, plus one.
  void dump(const std::string& path) override {
    bench::tpcc::Audit<bench::tpcc::AtollDb> audit(*db_, *tables_, shape_.homes, node_.id(), most_workers());
    for (const bench::tpcc::Violation& one : audit.run(size_.threads, bench::tpcc::kAllConditions)) {
      complain("consistency condition " + std::to_string(one.condition) + " does not hold: " + one.what);
    }
    std::vector<Record> districts;
    for (std::uint32_t warehouse = 1; warehouse <= shape_.homes.warehouses; ++warehouse) {
      for (std::uint32_t district = 1; district <= shape_.scale.districts; ++district) {
        districts.push_back({0, warehouse, district, 0, next_order(warehouse, district)});
      }
    }
    save_file(path, districts);
  }

 private:
  static constexpr std::uint64_t kOrders = 400'000;  // about; more do no harm

  class Client final : public Worker {
   public:
    /// Each process has workers of its own: what they number begins from 1.
    Client(Tpcc& load, unsigned thread)
        : load_(load),
          worker_(load.worker_of(thread)),
          inputs_(load.shape_, load.node_.id(), thread, load.size_.threads,
                  (load.lives(load.node_.id()) - 1) * load.workers() + worker_ + 1) {}

    void step() override {
      using namespace bench::tpcc;
      const auto now = time_now();
      AtollDb& db = *load_.db_;
      const Tables<AtollDb>& tables = *load_.tables_;
      switch (inputs_.kind(Mix::kFull)) {
        case Kind::kNewOrder: return enter_order();
        case Kind::kPayment: {
          PaymentOutput out;
          return payment(db, tables, inputs_.payment(now), out).or_throw();
        }
        case Kind::kOrderStatus: {
          OrderStatusOutput out;
          return order_status(db, tables, inputs_.order_status(), out).or_throw();
        }
        case Kind::kDelivery: {
          DeliveryOutput out;
          return delivery(db, tables, inputs_.delivery(now), out).or_throw();
        }
        case Kind::kStockLevel: {
          StockLevelOutput out;
          return stock_level(db, tables, inputs_.stock_level(), out).or_throw();
        }
      }
    }

   private:
    void enter_order() {
      bench::tpcc::NewOrderOutput out;
      const bench::tpcc::NewOrderInput in = inputs_.new_order(bench::tpcc::time_now());
      const Status status = new_order(*load_.db_, *load_.tables_, in, out);
      if (in.rolls_back && status.code() == bench::tpcc::kUnusedItem.code()) return;
      status.or_throw();
      load_.journal_.append({worker_, in.warehouse, in.district, 0, out.order});
    }

    Tpcc& load_;
    const unsigned worker_;
    bench::tpcc::Inputs inputs_;
  };

  static std::string loaded(NodeId node) { return "loaded " + std::to_string(node); }
  [[nodiscard]] std::string lives_path(unsigned node) const { return directory_ + "/lives." + std::to_string(node); }
  /// How many processes of the node have begun.
  [[nodiscard]] std::uint32_t lives(unsigned node) const {
    std::ifstream file(lives_path(node));
    std::uint32_t count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }
  /// Of all processes of all nodes.
  [[nodiscard]] unsigned most_workers() const {
    std::uint32_t most = 0;
    for (NodeId k = 0; k < node_.count(); ++k) most = std::max(most, lives(k));
    return most * workers();
  }
  [[nodiscard]] std::uint32_t next_order(std::uint32_t warehouse, std::uint32_t district) {
    std::uint32_t next = 0;
    db_->transact([&](bench::tpcc::AtollDb::Txn& t) -> Status {
         const auto row = t.read(tables_->district, bench::tpcc::DistrictKey{warehouse, district});
         if (!row.ok()) return row.status();
         if (!*row) return bench::tpcc::kMissing;
         next = (*row)->next_order;
         return {};
       })
        .or_throw();
    return next;
  }

  bench::tpcc::Shape shape_;
  std::optional<bench::tpcc::AtollDb> db_;
  std::optional<bench::tpcc::Tables<bench::tpcc::AtollDb>> tables_;
};

}  // namespace atoll::test
