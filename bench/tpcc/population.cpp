#include "bench/tpcc/population.hpp"

#include <algorithm>
#include <numeric>

namespace atoll::bench::tpcc {
namespace {

constexpr std::string_view kOriginal = "ORIGINAL";
constexpr Cents kPaidAtFirst = 10'00;  // by each customer
constexpr std::int32_t kMostTax = 2000, kMostDiscount = 5000;
constexpr double kPartOriginal = 0.1, kPartBadCredit = 0.1;

/// One in ten has ORIGINAL somewhere.
Text<50> draw_data(base::Random& random) {
  std::string data = draw_text(random, 26, 50);
  if (random.chance(kPartOriginal)) {
    data.replace(random.below(data.size() - kOriginal.size() + 1), kOriginal.size(), kOriginal);
  }
  return Text<50>(data);
}

Address draw_address(base::Random& random) {
  Address address;
  address.street_1 = draw_text(random, 10, 20);
  address.street_2 = draw_text(random, 10, 20);
  address.city = draw_text(random, 10, 20);
  address.state = draw_text(random, 2, 2);
  address.zip = draw_digits(random, 4) + "11111";
  return address;
}

}  // namespace

Item make_item(base::Random& random) {
  Item item;
  item.image = draw(random, 1, 10'000);
  item.name = draw_text(random, 14, 24);
  item.price = draw(random, 100, 10'000);
  item.data = draw_data(random);
  return item;
}

Stock make_stock(base::Random& random) {
  Stock stock;
  stock.quantity = std::int32_t(draw(random, 10, 100));
  for (Text<24>& info : stock.dist) info = draw_text(random, 24, 24);
  stock.data = draw_data(random);
  return stock;
}

Warehouse make_warehouse(base::Random& random, const Scale& scale) {
  Warehouse warehouse;
  warehouse.name = draw_text(random, 6, 10);
  warehouse.address = draw_address(random);
  warehouse.tax = std::int32_t(draw(random, 0, kMostTax));
  warehouse.ytd = kPaidAtFirst * scale.customers * scale.districts;
  return warehouse;
}

District make_district(base::Random& random, const Scale& scale) {
  District district;
  district.name = draw_text(random, 6, 10);
  district.address = draw_address(random);
  district.tax = std::int32_t(draw(random, 0, kMostTax));
  district.ytd = kPaidAtFirst * scale.customers;
  district.next_order = scale.customers + 1;
  return district;
}

Customer make_customer(base::Random& random, const Scale& scale, const Constants& constants, std::uint32_t number,
                       Time now) {
  Customer customer;
  const std::uint32_t name =
      number <= scale.names() ? number - 1 : nurand(random, 255, constants.last_name_of_load, 0, scale.names() - 1);
  customer.last = last_name(name);
  customer.middle = "OE";
  customer.first = draw_text(random, 8, 16);
  customer.address = draw_address(random);
  customer.phone = draw_digits(random, 16);
  customer.since = now;
  customer.credit = random.chance(kPartBadCredit) ? "BC" : "GC";
  customer.credit_limit = 50'000'00;
  customer.discount = std::int32_t(draw(random, 0, kMostDiscount));
  customer.balance = -kPaidAtFirst;
  customer.ytd_payment = kPaidAtFirst;
  customer.payments = 1;
  customer.data = draw_text(random, 300, 500);
  return customer;
}

History make_history(base::Random& random, const CustomerKey& customer, Time now) {
  return {kPaidAtFirst,       now,
          customer.customer,  customer.district,
          customer.warehouse, customer.district,
          customer.warehouse, draw_text(random, 12, 24)};
}

Order make_order(base::Random& random, const Scale& scale, std::uint32_t number, std::uint32_t customer, Time now) {
  Order order;
  order.customer = customer;
  order.entered = now;
  order.carrier = number <= scale.delivered() ? draw(random, 1, 10) : 0;
  order.lines = draw(random, kMinLines, kMaxLines);
  order.all_local = 1;
  return order;
}

OrderLine make_line(base::Random& random, const Scale& scale, const Order& order, std::uint32_t warehouse) {
  OrderLine line;
  line.item = draw(random, 1, scale.items);
  line.supplier = warehouse;
  line.quantity = 5;
  line.dist_info = draw_text(random, 24, 24);
  if (order.carrier != 0) {
    line.delivered = order.entered;
  } else {
    line.amount = draw(random, 1, 999'999);
  }
  return line;
}

std::vector<std::uint32_t> permutation(base::Random& random, std::uint32_t count) {
  std::vector<std::uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 1u);
  for (std::size_t i = numbers.size(); i > 1; --i) std::swap(numbers[i - 1], numbers[random.below(i)]);
  return numbers;
}

}  // namespace atoll::bench::tpcc
