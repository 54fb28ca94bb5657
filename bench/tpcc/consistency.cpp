#include "bench/tpcc/consistency.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace atoll::bench::tpcc {
namespace {

std::string money(Cents cents) {
  return fmt::format("{}{}.{:02}", cents < 0 ? "-" : "", std::abs(cents) / 100, std::abs(cents) % 100);
}

}  // namespace

std::string describe(Conditions conditions) {
  if (conditions == kAllConditions) return fmt::format("1 to {}", kConditions);
  std::vector<unsigned> some;
  for (unsigned condition = 1; condition <= kConditions; ++condition) {
    if ((conditions >> (condition - 1) & 1) != 0) some.push_back(condition);
  }
  return fmt::format("{}", fmt::join(some, ", "));
}

Books::Books(const Scale& scale, std::uint32_t first, std::uint32_t end) : scale_(scale), first_(first) {
  DistrictSums district;
  district.customers.resize(scale.customers);
  WarehouseSums warehouse;
  warehouse.districts.assign(scale.districts, district);
  warehouses_.assign(end - first, warehouse);
}

Books::WarehouseSums* Books::warehouse_of(std::uint32_t warehouse) {
  if (warehouse < first_ || warehouse - first_ >= warehouses_.size()) return nullptr;
  return &warehouses_[warehouse - first_];
}

Books::DistrictSums* Books::district_of(std::uint32_t warehouse, std::uint32_t district) {
  WarehouseSums* const of = warehouse_of(warehouse);
  if (of == nullptr || district == 0 || district > of->districts.size()) return nullptr;
  return &of->districts[district - 1];
}

Books::CustomerSums* Books::customer_of(std::uint32_t warehouse, std::uint32_t district, std::uint32_t customer) {
  DistrictSums* const of = district_of(warehouse, district);
  if (of == nullptr || customer == 0 || customer > of->customers.size()) return nullptr;
  return &of->customers[customer - 1];
}

void Books::add(const WarehouseKey& key, const Warehouse& row) {
  if (WarehouseSums* const of = warehouse_of(key.warehouse)) of->ytd = row.ytd;
}

void Books::add(const DistrictKey& key, const District& row) {
  DistrictSums* const of = district_of(key.warehouse, key.district);
  if (of == nullptr) return;
  of->ytd = row.ytd;
  of->next_order = row.next_order;
}

void Books::add(const CustomerKey& key, const Customer& row) {
  if (DistrictSums* const of = district_of(key.warehouse, key.district)) of->deliveries += row.deliveries;
  CustomerSums* const of = customer_of(key.warehouse, key.district, key.customer);
  if (of == nullptr) return;
  of->balance = row.balance;
  of->ytd_payment = row.ytd_payment;
}

void Books::add(const History& row) {
  if (WarehouseSums* const of = warehouse_of(row.warehouse)) of->paid += row.amount;
  if (DistrictSums* const of = district_of(row.warehouse, row.district)) of->paid += row.amount;
  CustomerSums* const of = customer_of(row.customer_warehouse, row.customer_district, row.customer);
  if (of != nullptr) of->paid += row.amount;
}

void Books::add(const OrderFound& found) {
  const std::uint32_t number = found.key.order;
  DistrictSums* const of = district_of(found.key.warehouse, found.key.district);
  if (of == nullptr) return;
  std::uint32_t lines = 0, undated = 0;
  Cents delivered = 0;
  for (const std::optional<OrderLine>& line : found.lines) {
    if (!line) continue;
    ++lines;
    if (line->delivered == 0) ++undated;
    if (line->delivered != 0) delivered += line->amount;
  }
  of->lines += lines;
  if (found.is_new) {
    if (of->news == 0) of->first_new = number;
    of->first_new = std::min(of->first_new, number);
    of->last_new = std::max(of->last_new, number);
    ++of->news;
  }
  if (!found.order) return;
  const Order& order = *found.order;
  ++of->orders;
  of->lines_said += order.lines;
  of->last_order = std::max(of->last_order, number);
  if (CustomerSums* const customer = customer_of(found.key.warehouse, found.key.district, order.customer)) {
    customer->delivered += delivered;
  }
  const std::string where = fmt::format("order {} of warehouse {}, district {}", number,
                                        std::uint32_t(found.key.warehouse), std::uint32_t(found.key.district));
  if ((order.carrier == 0) != found.is_new) {
    complain(of_orders_, 5,
             fmt::format("{} has carrier {} and is {}in NEW-ORDER", where, order.carrier, found.is_new ? "" : "not "));
  }
  if (order.lines != lines) {
    complain(of_orders_, 6, fmt::format("{} has {} lines where O_OL_CNT is {}", where, lines, order.lines));
  }
  if (undated != (order.carrier == 0 ? lines : 0)) {
    complain(of_orders_, 7,
             fmt::format("{} has carrier {}, and {} of its {} lines have no delivery date", where, order.carrier,
                         undated, lines));
  }
}

void Books::complain(Findings& findings, unsigned condition, std::string what) {
  const auto [at, is_first] = findings.try_emplace(condition, Violation{condition, std::move(what)});
  if (!is_first) ++at->second.count;
}

void Books::judge(const std::string& where, const DistrictSums& sums, Findings& findings) const {
  const bool last_new_is_last = sums.news == 0 || sums.last_new == sums.last_order;
  if (sums.next_order != sums.last_order + 1 || !last_new_is_last) {
    complain(findings, 2,
             fmt::format("{}: D_NEXT_O_ID is {}, the last of ORDER is {}, that of NEW-ORDER {}", where, sums.next_order,
                         sums.last_order, sums.last_new));
  }
  if (sums.news != 0 && sums.last_new - sums.first_new + 1 != sums.news) {
    complain(findings, 3,
             fmt::format("{}: NEW-ORDER has {} rows from {} to {}", where, sums.news, sums.first_new, sums.last_new));
  }
  if (sums.lines != sums.lines_said) {
    complain(findings, 4,
             fmt::format("{}: there are {} rows of ORDER-LINE where the sum of O_OL_CNT is {}", where, sums.lines,
                         sums.lines_said));
  }
  if (sums.ytd != sums.paid) {
    complain(findings, 9,
             fmt::format("{}: D_YTD is {}, the sum of H_AMOUNT {}", where, money(sums.ytd), money(sums.paid)));
  }
  if (sums.orders != sums.news + scale_.delivered() + sums.deliveries) {
    complain(findings, 11,
             fmt::format("{}: of {} orders {} are new, {} were delivered at first and {} since", where, sums.orders,
                         sums.news, scale_.delivered(), sums.deliveries));
  }
}

void Books::judge(const std::string& where, const CustomerSums& sums, Findings& findings) const {
  if (sums.balance != sums.delivered - sums.paid) {
    complain(findings, 10,
             fmt::format("{}: C_BALANCE is {}, delivered is {}, paid {}", where, money(sums.balance),
                         money(sums.delivered), money(sums.paid)));
  }
  if (sums.balance + sums.ytd_payment != sums.delivered) {
    complain(findings, 12,
             fmt::format("{}: C_BALANCE is {}, C_YTD_PAYMENT {}, delivered is {}", where, money(sums.balance),
                         money(sums.ytd_payment), money(sums.delivered)));
  }
}

std::vector<Violation> Books::violations(Conditions wanted) const {
  Findings findings = of_orders_;
  for (std::size_t w = 0; w < warehouses_.size(); ++w) {
    const WarehouseSums& warehouse = warehouses_[w];
    const std::string at = fmt::format("warehouse {}", first_ + w);
    Cents ytd = 0;
    for (std::size_t d = 0; d < warehouse.districts.size(); ++d) {
      const DistrictSums& district = warehouse.districts[d];
      ytd += district.ytd;
      const std::string within = fmt::format("{}, district {}", at, d + 1);
      judge(within, district, findings);
      for (std::size_t c = 0; c < district.customers.size(); ++c) {
        judge(fmt::format("{}, customer {}", within, c + 1), district.customers[c], findings);
      }
    }
    if (warehouse.ytd != ytd) {
      complain(findings, 1, fmt::format("{}: W_YTD is {}, the sum of D_YTD {}", at, money(warehouse.ytd), money(ytd)));
    }
    if (warehouse.ytd != warehouse.paid) {
      complain(findings, 8,
               fmt::format("{}: W_YTD is {}, the sum of H_AMOUNT {}", at, money(warehouse.ytd), money(warehouse.paid)));
    }
  }
  std::vector<Violation> result;
  for (const auto& [condition, violation] : findings) {
    if ((wanted >> (condition - 1) & 1) != 0) result.push_back(violation);
  }
  return result;
}

}  // namespace atoll::bench::tpcc
