#include "bench/tpcc/inputs.hpp"

#include <algorithm>

namespace atoll::bench::tpcc {
namespace {

constexpr std::uint32_t kLastNameA = 255, kCustomerA = 1023, kItemA = 8191;  // of NURand
constexpr double kRemoteSupplier = 0.01, kRemotePayment = 0.15, kByName = 0.6, kRollBack = 0.01;

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kNewOrder: return "new_order";
    case Kind::kPayment: return "payment";
    case Kind::kOrderStatus: return "order_status";
    case Kind::kDelivery: return "delivery";
    case Kind::kStockLevel: return "stock_level";
  }
  return "";
}

Kind draw_kind(Mix mix, base::Random& random) {
  const std::uint32_t card = draw(random, 1, 100);
  if (mix == Mix::kNewOrderPayment) return card <= 50 ? Kind::kNewOrder : Kind::kPayment;
  if (card <= 45) return Kind::kNewOrder;
  if (card <= 88) return Kind::kPayment;
  if (card <= 92) return Kind::kOrderStatus;
  return card <= 96 ? Kind::kDelivery : Kind::kStockLevel;
}

std::uint32_t draw(base::Random& random, std::uint32_t first, std::uint32_t last) {
  return first + std::uint32_t(random.below(std::uint64_t{last} - first + 1));
}

Constants Constants::from_seed(std::uint64_t seed) {
  base::Random random(seed ^ 0x7463'7063'2d63'0001);
  Constants constants;
  constants.last_name_of_load = draw(random, 0, 255);
  do {
    constants.last_name = draw(random, 0, 255);
    const std::uint32_t apart = std::max(constants.last_name, constants.last_name_of_load) -
                                std::min(constants.last_name, constants.last_name_of_load);
    if (apart >= 65 && apart <= 119 && apart != 96 && apart != 112) break;
  } while (true);
  constants.customer = draw(random, 0, kCustomerA);
  constants.item = draw(random, 0, kItemA);
  return constants;
}

std::uint32_t nurand(base::Random& random, std::uint32_t a, std::uint32_t c, std::uint32_t first, std::uint32_t last) {
  const std::uint64_t number = draw(random, 0, a) | draw(random, first, last);
  return std::uint32_t((number + c) % (last - first + 1)) + first;
}

Text<16> last_name(std::uint32_t number) {
  static constexpr std::array<std::string_view, 10> kSyllables{"BAR", "OUGHT", "ABLE",  "PRI",   "PRES",
                                                               "ESE", "ANTI",  "CALLY", "ATION", "EING"};
  std::string name(kSyllables[number / 100 % 10]);
  name += kSyllables[number / 10 % 10];
  name += kSyllables[number % 10];
  return Text<16>(name);
}

std::string draw_text(base::Random& random, std::uint32_t least, std::uint32_t most) {
  static constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::string text(draw(random, least, most), '\0');
  for (char& letter : text) letter = kLetters[random.below(kLetters.size())];
  return text;
}

std::string draw_digits(base::Random& random, std::uint32_t count) {
  std::string text(count, '0');
  for (char& digit : text) digit = char('0' + random.below(10));
  return text;
}

Inputs::Inputs(const Shape& shape, NodeId node, unsigned thread, unsigned threads, std::uint32_t worker)
    : shape_(shape), node_(node), worker_(worker), random_(shape.seed * 0x9e37'79b9'7f4a'7c15 + worker) {
  const std::uint32_t first = shape.homes.first(node), count = shape.homes.count(node);
  for (std::uint32_t i = thread % count; i < count; i += threads) mine_.push_back(first + i);
  payments_.resize(mine_.size());
}

std::uint32_t Inputs::home_warehouse() {
  return mine_[random_.below(mine_.size())];
}

Inputs::Place Inputs::home_place() {
  if (last_place_.warehouse == 0 || !again()) {
    last_place_ = {home_warehouse(), draw(random_, 1, shape_.scale.districts)};
  }
  return last_place_;
}

std::uint32_t Inputs::maybe_remote(std::uint32_t home, double chance_of_specification) {
  const Homes& homes = shape_.homes;
  if (!shape_.distribution_ratio) {
    if (homes.warehouses == 1 || !random_.chance(chance_of_specification)) return home;
    const std::uint32_t other = draw(random_, 1, homes.warehouses - 1);
    return other < home ? other : other + 1;
  }
  if (homes.nodes == 1 || !random_.chance(*shape_.distribution_ratio)) return home;
  const std::uint32_t other = draw(random_, 1, homes.warehouses - homes.count(node_));
  return other < homes.first(node_) ? other : other + homes.count(node_);
}

std::uint32_t Inputs::draw_customer_number() {
  return nurand(random_, kCustomerA, shape_.constants.customer, 1, shape_.scale.customers);
}

WhichCustomer Inputs::draw_customer(Place place) {
  WhichCustomer which{place.warehouse, place.district, 0, {}};
  if (random_.chance(kByName)) {
    which.last = last_name(nurand(random_, kLastNameA, shape_.constants.last_name, 0, shape_.scale.names() - 1));
  } else {
    which.customer = draw_customer_number();
  }
  return which;
}

/// The supplier is drawn, then whether it is an item of the order before from such a supplier.
OrderedItem Inputs::draw_item(std::uint32_t home) {
  const std::uint32_t supplier = maybe_remote(home, kRemoteSupplier);
  OrderedItem drawn{0, supplier, draw(random_, 1, 10)};
  if (again()) {
    std::vector<std::size_t> candidates;
    for (std::size_t i = 0; i < last_items_.size(); ++i) {
      const std::uint32_t of = last_items_[i].supplier;
      const bool is_far = shape_.distribution_ratio ? shape_.homes.of(of) != node_ : of != home;
      if (supplier == home ? of == home : is_far) candidates.push_back(i);
    }
    if (!candidates.empty()) {
      const auto chosen = last_items_.begin() + std::ptrdiff_t(candidates[random_.below(candidates.size())]);
      drawn.item = chosen->item;
      drawn.supplier = chosen->supplier;
      last_items_.erase(chosen);  // once in an order
      return drawn;
    }
  }
  drawn.item = nurand(random_, kItemA, shape_.constants.item, 1, shape_.scale.items);
  return drawn;
}

OnlyReads Inputs::draw_only_reads(unsigned writes) {
  OnlyReads only_reads;
  if (shape_.read_ratio <= 0) return only_reads;
  for (unsigned i = 0; i < writes; ++i) only_reads.bits |= std::uint32_t{random_.chance(shape_.read_ratio)} << i;
  return only_reads;
}

NewOrderInput Inputs::new_order(Time now) {
  NewOrderInput input;
  const Place place = home_place();
  input.warehouse = place.warehouse;
  input.district = place.district;
  input.now = now;
  if (last_near_ && !last_near_->by_name() && last_near_->warehouse == place.warehouse &&
      last_near_->district == place.district && again()) {
    input.customer = last_near_->customer;
  } else {
    input.customer = draw_customer_number();
    last_near_ = WhichCustomer{place.warehouse, place.district, input.customer, {}};
  }
  input.count = draw(random_, kMinLines, kMaxLines);
  for (std::uint32_t i = 0; i < input.count; ++i) input.lines[i] = draw_item(place.warehouse);
  last_items_.assign(input.lines.begin(), input.lines.begin() + input.count);
  input.rolls_back = random_.chance(kRollBack);
  if (input.rolls_back) {
    input.lines[input.count - 1].item = shape_.scale.items + 1;
    last_items_.pop_back();
  }
  input.only_reads = draw_only_reads(1 + input.count);
  return input;
}

PaymentInput Inputs::payment(Time now) {
  PaymentInput input;
  const Place place = home_place();
  input.warehouse = place.warehouse;
  input.district = place.district;
  const std::uint32_t payer = maybe_remote(place.warehouse, kRemotePayment);
  if (payer != place.warehouse) {
    if (!last_far_ || !again()) last_far_ = draw_customer({payer, draw(random_, 1, shape_.scale.districts)});
    input.customer = *last_far_;
  } else {
    const bool is_here =
        last_near_ && last_near_->warehouse == place.warehouse && last_near_->district == place.district;
    if (!is_here || !again()) last_near_ = draw_customer(place);
    input.customer = *last_near_;
  }
  input.amount = draw(random_, 100, 500'000);
  const auto at = std::size_t(std::find(mine_.begin(), mine_.end(), place.warehouse) - mine_.begin());
  input.only_reads = draw_only_reads(4);
  if (!input.only_reads.at(3)) ++payments_[at];
  input.history = {place.warehouse, worker_, payments_[at]};
  input.now = now;
  return input;
}

OrderStatusInput Inputs::order_status() {
  return {draw_customer({home_warehouse(), draw(random_, 1, shape_.scale.districts)})};
}

DeliveryInput Inputs::delivery(Time now) {
  return {home_warehouse(), draw(random_, 1, 10), now};
}

StockLevelInput Inputs::stock_level() {
  return {home_warehouse(), draw(random_, 1, shape_.scale.districts), std::int32_t(draw(random_, 10, 20))};
}

}  // namespace atoll::bench::tpcc
