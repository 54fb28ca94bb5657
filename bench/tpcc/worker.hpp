// A thread that runs TPC-C's transactions.
#pragma once

#include <fmt/format.h>

#include <chrono>

#include "bench/board.hpp"
#include "bench/tpcc/job.hpp"
#include "bench/tpcc/transactions.hpp"

namespace atoll::bench::tpcc {

[[nodiscard]] inline Time time_now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// One transaction after the other, without any time to think; Delivery too is run at once, by the same thread.
///
/// Thread-safety: none.
template <Db D>
class Worker {
 public:
  Worker(D& db, const Tables<D>& tables, const Inputs& inputs, Mix mix)
      : db_(db), tables_(tables), inputs_(inputs), mix_(mix) {}

  /// For so long. Throws Error when a transaction ends as it must not.
  void run(double seconds, Tallies& tallies) {
    tallies.begun_ns = now_ns();
    const std::int64_t end = tallies.begun_ns + std::int64_t(seconds * 1e9);
    std::int64_t before = tallies.begun_ns;
    while (before < end) {
      const Kind kind = inputs_.kind(mix_);
      KindTally& tally = tallies.kinds[std::size_t(kind)];
      run_one(kind, tally, tallies.skipped);
      ++tally.done;
      const std::int64_t now = now_ns();
      tally.times.record(std::uint64_t(now - before));
      before = now;
    }
    tallies.ended_ns = before;
  }

 private:
  void run_one(Kind kind, KindTally& tally, std::uint64_t& skipped) {
    switch (kind) {
      case Kind::kNewOrder: return run_new_order(tally);
      case Kind::kPayment: {
        PaymentOutput out;
        return expect(kind, payment(db_, tables_, inputs_.payment(time_now()), out));
      }
      case Kind::kOrderStatus:
      case Kind::kDelivery:
      case Kind::kStockLevel: return run_ordered(kind, skipped);
    }
  }

  void run_new_order(KindTally& tally) {
    NewOrderOutput out;
    const NewOrderInput in = inputs_.new_order(time_now());
    const Status status = new_order(db_, tables_, in, out);
    if (!in.rolls_back) return expect(Kind::kNewOrder, status);
    if (status.code() != kUnusedItem.code()) {
      throw Error(fmt::format("an order of an item that does not exist ended with: {}", status.to_string()));
    }
    ++tally.rolled_back;
  }

  void run_ordered(Kind kind, std::uint64_t& skipped) {
    if constexpr (OrderedDb<D>) {
      if (kind == Kind::kOrderStatus) {
        OrderStatusOutput out;
        expect(kind, order_status(db_, tables_, inputs_.order_status(), out));
      } else if (kind == Kind::kStockLevel) {
        StockLevelOutput out;
        expect(kind, stock_level(db_, tables_, inputs_.stock_level(), out));
      } else {
        DeliveryOutput out;
        expect(kind, delivery(db_, tables_, inputs_.delivery(time_now()), out));
        skipped += out.skipped;
      }
    } else {
      throw Error(fmt::format("{} needs ordered tables, which this engine does not have", name_of(kind)));
    }
  }

  static void expect(Kind kind, const Status& status) {
    if (!status.ok()) throw Error(fmt::format("{} ended with: {}", name_of(kind), status.to_string()));
  }

  D& db_;
  const Tables<D>& tables_;
  Inputs inputs_;
  const Mix mix_;
};

}  // namespace atoll::bench::tpcc
