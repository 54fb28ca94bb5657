// What TPC-C's transactions are given: random numbers, names and texts as clauses 2.1.6, 4.3.2 and 4.3.3 say, and the
// inputs of all five (2.4.1, 2.5.1, 2.6.1, 2.7.1, 2.8.1).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "bench/tpcc/rows.hpp"
#include "bench/tpcc/scale.hpp"

namespace atoll::bench::tpcc {

enum class Kind : std::uint8_t { kNewOrder, kPayment, kOrderStatus, kDelivery, kStockLevel };
inline constexpr std::size_t kKinds = 5;
[[nodiscard]] const char* name_of(Kind kind);

enum class Mix : std::uint8_t { kFull, kNewOrderPayment };
/// 45, 43, 4, 4 and 4 of a hundred (5.2.3), or half and half.
[[nodiscard]] Kind draw_kind(Mix mix, base::Random& random);

/// Uniform from `first` to `last`, both included.
[[nodiscard]] std::uint32_t draw(base::Random& random, std::uint32_t first, std::uint32_t last);

/// The constants C of NURand (2.1.6): the same for all threads of all nodes of a run.
struct Constants {
  std::uint32_t last_name_of_load = 0, last_name = 0, customer = 0, item = 0;

  /// `last_name` is as far from `last_name_of_load` as clause 2.1.6.1 wants it.
  [[nodiscard]] static Constants from_seed(std::uint64_t seed);
};
/// NURand(a, first, last) with the constant c.
[[nodiscard]] std::uint32_t nurand(base::Random& random, std::uint32_t a, std::uint32_t c, std::uint32_t first,
                                   std::uint32_t last);

/// Three syllables for three digits. REQUIRES: number < kLastNames.
[[nodiscard]] Text<16> last_name(std::uint32_t number);
/// `least` to `most` letters and digits.
[[nodiscard]] std::string draw_text(base::Random& random, std::uint32_t least, std::uint32_t most);
[[nodiscard]] std::string draw_digits(base::Random& random, std::uint32_t count);

/// By number or by last name.
struct WhichCustomer {
  std::uint32_t warehouse = 1, district = 1;
  std::uint32_t customer = 0;  // 0: by the last name
  Text<16> last;

  [[nodiscard]] bool by_name() const noexcept { return customer == 0; }
};

struct OrderedItem {
  std::uint32_t item = 0, supplier = 0, quantity = 0;
};

/// Which writes of a transaction are only reads, bit by bit (`--read-ratio`).
struct OnlyReads {
  std::uint32_t bits = 0;

  [[nodiscard]] constexpr bool at(unsigned write) const noexcept { return (bits >> write & 1) != 0; }
};

struct NewOrderInput {
  std::uint32_t warehouse = 1, district = 1, customer = 1;
  std::uint32_t count = 0;  // of lines
  std::array<OrderedItem, kMaxLines> lines{};
  bool rolls_back = false;  // the last line's item does not exist
  Time now = 0;
  // Write 0 is the order: its number, which the district counts, its row, its lines, and that it is new. Write 1 + i is
  // the stock of line i.
  OnlyReads only_reads;
};
struct PaymentInput {
  std::uint32_t warehouse = 1, district = 1;
  WhichCustomer customer;
  Cents amount = 0;
  HistoryKey history;  // of the row that is inserted
  Time now = 0;
  OnlyReads only_reads;  // warehouse, district, customer, history
};
struct OrderStatusInput {
  WhichCustomer customer;
};
struct DeliveryInput {
  std::uint32_t warehouse = 1;
  std::uint32_t carrier = 1;
  Time now = 0;
};
struct StockLevelInput {
  std::uint32_t warehouse = 1, district = 1;
  std::int32_t threshold = 10;
};

/// How inputs are drawn.
struct Shape {
  Scale scale;
  Homes homes;
  Constants constants;
  // Of the warehouses that may be others than the home warehouse (a line's supplier, a customer who pays), this part is
  // of another node. Nothing: 1 and 15 of a hundred are others, of whichever node, as the specification has it.
  std::optional<double> distribution_ratio;
  double read_ratio = 0;         // of the writes of New-Order and Payment are reads
  double temporal_locality = 0;  // of the data items are of the thread's transaction before
  std::uint64_t seed = 1;
};

/// The inputs of one thread.
///
/// A thread works for its home warehouses: if a node has at least as many warehouses as threads, no two threads have
/// the same. With temporal locality a warehouse and district, a customer or an item of the thread's last transaction
/// that had one is taken again; whether it is of another node was drawn before.
/// Thread-safety: none.
class Inputs {
 public:
  /// Thread `thread` of `threads` of a node; `worker` numbers it among the threads of all nodes, from 1 on.
  Inputs(const Shape& shape, NodeId node, unsigned thread, unsigned threads, std::uint32_t worker);

  [[nodiscard]] NewOrderInput new_order(Time now);
  [[nodiscard]] PaymentInput payment(Time now);
  [[nodiscard]] OrderStatusInput order_status();
  [[nodiscard]] DeliveryInput delivery(Time now);
  [[nodiscard]] StockLevelInput stock_level();
  [[nodiscard]] Kind kind(Mix mix) { return draw_kind(mix, random_); }

 private:
  struct Place {
    std::uint32_t warehouse = 0, district = 0;
  };
  [[nodiscard]] std::uint32_t home_warehouse();
  [[nodiscard]] Place home_place();
  [[nodiscard]] bool again() { return shape_.temporal_locality > 0 && random_.chance(shape_.temporal_locality); }
  /// Another one than `home`, with the chance that the specification has for it or with the ratio.
  [[nodiscard]] std::uint32_t maybe_remote(std::uint32_t home, double chance_of_specification);
  [[nodiscard]] std::uint32_t draw_customer_number();
  [[nodiscard]] WhichCustomer draw_customer(Place place);
  [[nodiscard]] OrderedItem draw_item(std::uint32_t home);
  [[nodiscard]] OnlyReads draw_only_reads(unsigned writes);

  const Shape shape_;
  const NodeId node_;
  const std::uint32_t worker_;
  base::Random random_;
  std::vector<std::uint32_t> mine_;      // home warehouses
  std::vector<std::uint32_t> payments_;  // so far, by warehouse of mine_
  // Of the last transaction that had them:
  Place last_place_;
  std::optional<WhichCustomer> last_near_, last_far_;  // of the home warehouse, of another
  std::vector<OrderedItem> last_items_;
};

}  // namespace atoll::bench::tpcc
