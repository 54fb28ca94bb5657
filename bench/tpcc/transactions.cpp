#include "bench/tpcc/transactions.hpp"

#include <fmt/format.h>

namespace atoll::bench::tpcc::detail {

Text<500> data_of_bad_credit(const PaymentInput& input, std::uint32_t customer, const Customer& row) {
  Text<500> data;
  const auto head = fmt::format_to_n(data.bytes.data(), data.bytes.size(), "{} {} {} {} {} {}.{:02} ", customer,
                                     input.customer.district, input.customer.warehouse, input.district, input.warehouse,
                                     input.amount / 100, input.amount % 100);
  const std::size_t used = std::min(head.size, data.bytes.size());
  std::copy_n(row.data.bytes.begin(), data.bytes.size() - used, data.bytes.begin() + std::ptrdiff_t(used));
  return data;
}

Text<24> history_data(const Warehouse& warehouse, const District& district) {
  Text<24> data;
  auto at = std::copy(warehouse.name.view().begin(), warehouse.name.view().end(), data.bytes.begin());
  at = std::fill_n(at, 4, ' ');
  std::copy(district.name.view().begin(), district.name.view().end(), at);
  return data;
}

void take_from_stock(Stock& stock, std::uint32_t quantity, bool remote) noexcept {
  const auto taken = std::int32_t(quantity);
  stock.quantity -= stock.quantity >= taken + 10 ? taken : taken - 91;
  stock.ytd += quantity;
  ++stock.orders;
  if (remote) ++stock.remote_orders;
}

}  // namespace atoll::bench::tpcc::detail
