#include "hash/directory.hpp"

#include <algorithm>
#include <bit>
#include <random>

namespace atoll::hash {

namespace {

constexpr unsigned kFirstBlocksPerNode = 2;

template <typename T>
std::atomic<T>* zeroed(std::uint64_t count) {
  // calloc: what is never looked at costs nothing, and a doubling may be large.
  auto* memory = static_cast<std::atomic<T>*>(std::calloc(count, sizeof(std::atomic<T>)));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

std::uint64_t fresh_seed() {
  std::random_device device;
  return std::uint64_t(device()) << 32 | device();
}

unsigned level_of(std::uint64_t buckets) {
  return unsigned(std::bit_width(std::max<std::uint64_t>(buckets, 1) - 1));
}

}  // namespace

Directory::Known::Known(std::uint64_t buckets)
    : blocks(zeroed<std::uint64_t>(buckets / kBlockBuckets)), is_there(zeroed<std::uint8_t>(buckets)) {}

Directory::Directory(Node& node, const HashMapOptions& options) : node_(node), top_(0) {
  create(options);
  top_ = root_.first_level;
}

Directory::Directory(Node& node, GlobalAddress root) : node_(node), root_address_(root), top_(0) {
  root_ = node.read<Root>(root).value();
  if (root_.magic != Root::kMagic) throw Error("there is no hash map at " + root.to_string());
  top_ = root_.first_level;
}

Directory::~Directory() {
  for (auto& known : known_) delete known.load(std::memory_order_relaxed);
}

void Directory::create(const HashMapOptions& options) {
  root_.seed = options.seed != 0 ? options.seed : fresh_seed();
  root_.first_level = level_of(std::uint64_t(node_.count()) * kFirstBlocksPerNode * kBlockBuckets);
  root_.max_level = options.max_buckets == 0 ? kMaxLevel : std::min(level_of(options.max_buckets), kMaxLevel);
  root_.max_level = std::max(root_.max_level, root_.first_level);
  const std::uint64_t apart = std::max<std::uint64_t>(node_.line_bytes(), sizeof(std::int64_t));
  root_.counts = node_.allocate(apart * node_.count()).value().bits();
  const std::uint64_t blocks = buckets_of(0) / kBlockBuckets;
  const GlobalAddress table = node_.allocate(blocks * 8).value();
  root_.tables[0] = table.bits();
  Bucket empty;
  empty.head = Head().changed(root_.first_level);
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const global_ptr<std::uint64_t> entry(table + std::int64_t(block * 8));
    const GlobalAddress first = make_block(entry, block * kBlockBuckets).value();
    for (unsigned i = 0; i < kBlockBuckets; ++i) node_.write(first + std::int64_t(i * kBucketBytes), empty).or_throw();
  }
  root_address_ = node_.allocate(sizeof(Root)).value();
  node_.write(root_address_, root_).or_throw();
  node_.fence().or_throw();
}

global_ptr<std::int64_t> Directory::count_of(NodeId node) const noexcept {
  return global_ptr<std::int64_t>(GlobalAddress(root_.counts) + std::int64_t(node) * node_.line_bytes());
}

Directory::Place Directory::place_of(std::uint64_t number) const noexcept {
  if (number >> root_.first_level == 0) return {0, number};
  const unsigned doubling = unsigned(std::bit_width(number)) - 1;
  return {doubling, number - (std::uint64_t{1} << doubling)};
}

std::uint64_t Directory::buckets_of(unsigned doubling) const noexcept {
  return std::uint64_t{1} << (doubling == 0 ? root_.first_level : doubling);
}

Directory::Known& Directory::known(unsigned doubling) noexcept {
  std::atomic<Known*>& known = known_[doubling];
  Known* there = known.load(std::memory_order_acquire);
  if (there != nullptr) [[likely]]
    return *there;
  auto made = std::make_unique<Known>(buckets_of(doubling));
  if (known.compare_exchange_strong(there, made.get(), std::memory_order_acq_rel)) there = made.release();
  return *there;
}

std::uint64_t Directory::guess(std::uint64_t hash) const noexcept {
  for (unsigned level = top_.load(std::memory_order_relaxed); level > root_.first_level; --level) {
    const Place place = place_of(low_bits(hash, level));
    if (place.doubling == 0) continue;
    const Known* known = known_[place.doubling].load(std::memory_order_acquire);
    if (known != nullptr && known->is_there[place.index].load(std::memory_order_relaxed) != 0) {
      return low_bits(hash, level);
    }
  }
  return low_bits(hash, root_.first_level);
}

std::uint64_t Directory::go_on(std::uint64_t number, std::uint64_t hash) noexcept {
  const unsigned level = unsigned(std::countr_zero(number ^ hash)) + 1;
  const std::uint64_t next = low_bits(hash, level);
  const Place place = place_of(next);
  known(place.doubling).is_there[place.index].store(1, std::memory_order_relaxed);
  unsigned top = top_.load(std::memory_order_relaxed);
  while (top < level && !top_.compare_exchange_weak(top, level, std::memory_order_relaxed)) {
  }
  return next;
}

Result<GlobalAddress> Directory::table_of(unsigned doubling, bool make) noexcept {
  std::atomic<std::uint64_t>& here = tables_[doubling];
  const std::uint64_t table = here.load(std::memory_order_relaxed);
  if (table != 0) return GlobalAddress(table);
  const GlobalAddress at = root_address_ + std::int64_t(offsetof(Root, tables) + doubling * 8);
  const auto read = node_.read<std::uint64_t>(at);
  if (!read.ok()) return read.status();
  GlobalAddress found(*read);
  if (!found && make) {
    const Result<GlobalAddress> made = make_table(doubling);
    if (!made.ok()) return made;
    found = *made;
  }
  here.store(found.bits(), std::memory_order_relaxed);
  return found;
}

/// Somebody else may have made it meanwhile: then theirs is the one.
Result<GlobalAddress> Directory::make_table(unsigned doubling) noexcept {
  const auto made = node_.allocate(buckets_of(doubling) / kBlockBuckets * 8);
  if (!made.ok()) return made;
  const global_ptr<std::uint64_t> at(root_address_ + std::int64_t(offsetof(Root, tables) + doubling * 8));
  const auto before = node_.compare_exchange(at, 0, made->bits());
  if (before.ok() && *before == 0) return made;
  if (const Status status = node_.free(*made); !status.ok()) return status;
  if (!before.ok()) return before.status();
  return GlobalAddress(*before);
}

Result<GlobalAddress> Directory::make_block(global_ptr<std::uint64_t> entry, std::uint64_t number) noexcept {
  const NodeId home = NodeId(number / kBlockBuckets % node_.count());
  auto made = node_.allocate(kBlockBuckets * kBucketBytes, Placement::on(home));
  // The memory of one node may be at its end before that of others.
  if (made.status().code() == Errc::kOutOfMemory) made = node_.allocate(kBlockBuckets * kBucketBytes);
  if (!made.ok()) return made;
  const auto before = node_.compare_exchange(entry, 0, made->bits());
  if (before.ok() && *before == 0) return made;
  if (const Status status = node_.free(*made); !status.ok()) return status;
  if (!before.ok()) return before.status();
  return GlobalAddress(*before);
}

Result<GlobalAddress> Directory::find(std::uint64_t number) noexcept {
  const Place place = place_of(number);
  std::atomic<std::uint64_t>& block = known(place.doubling).blocks[place.index / kBlockBuckets];
  const auto in_block = std::int64_t(place.index % kBlockBuckets * kBucketBytes);
  const std::uint64_t address = block.load(std::memory_order_relaxed);
  if (address != 0) [[likely]]
    return GlobalAddress(address) + in_block;
  const Result<GlobalAddress> table = table_of(place.doubling, false);
  if (!table.ok()) return table;
  const auto found = node_.read<std::uint64_t>(*table + std::int64_t(place.index / kBlockBuckets * 8));
  if (!found.ok()) return found.status();
  block.store(*found, std::memory_order_relaxed);
  return GlobalAddress(*found) + in_block;
}

Result<GlobalAddress> Directory::make_room(std::uint64_t number) noexcept {
  const Place place = place_of(number);
  const Result<GlobalAddress> table = table_of(place.doubling, true);
  if (!table.ok()) return table;
  const global_ptr<std::uint64_t> entry(*table + std::int64_t(place.index / kBlockBuckets * 8));
  const auto found = node_.read(entry);
  if (!found.ok()) return found.status();
  if (*found == 0) {
    if (const auto made = make_block(entry, number); !made.ok()) return made;
  }
  return find(number);
}

Status Directory::destroy() noexcept {
  for (unsigned doubling = 0; doubling <= kMaxLevel; ++doubling) {
    const Result<GlobalAddress> table = table_of(doubling, false);
    if (!table.ok()) return table.status();
    if (!*table) continue;
    for (std::uint64_t block = 0; block < buckets_of(doubling) / kBlockBuckets; ++block) {
      const auto address = node_.read<std::uint64_t>(*table + std::int64_t(block * 8));
      if (!address.ok()) return address.status();
      if (*address == 0) continue;
      if (const Status status = node_.free(GlobalAddress(*address)); !status.ok()) return status;
    }
    if (const Status status = node_.free(*table); !status.ok()) return status;
  }
  // Who still looks at it finds no map.
  if (const Status status = node_.write(root_address_, std::uint64_t{0}); !status.ok()) return status;
  if (const Status status = node_.free(GlobalAddress(root_.counts)); !status.ok()) return status;
  return node_.free(root_address_);
}

}  // namespace atoll::hash
