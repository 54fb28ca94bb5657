#include "bench/line_locks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "atoll/lock.hpp"
#include "bench/stored_pair.hpp"

namespace atoll::bench {
namespace {

constexpr std::uint64_t kLoad = 5;  // pairs of a bucket for which the table is made

std::uint8_t tag_of(std::uint64_t hash) {
  return std::uint8_t(hash);
}

}  // namespace

LineLocks::LineLocks(Node& node, const StoreSize& size)
    : node_(node), per_node_(std::max<std::uint64_t>(1, size.pairs / kLoad / node.count())) {
  const std::uint64_t line = node.line_bytes();
  if (line < sizeof(Bucket)) throw Error("a bucket does not fit a line");
  const GlobalAddress mine = node.allocate((per_node_ + 1) * line, Placement::local()).value();
  const GlobalAddress aligned((mine.bits() + line - 1) / line * line);
  node.publish(fmt::format("line_locks/{}", node.id()), aligned).or_throw();
  for (NodeId i = 0; i < node.count(); ++i) first_.push_back(node.lookup(fmt::format("line_locks/{}", i)).value());
}

bool LineLocks::get(std::string_view key, std::string& value) {
  const std::uint64_t hash = hash_key(key);
  const GlobalAddress bucket = bucket_of(hash);
  std::vector<std::byte>& pair = pair_read();
  const ReadGuard guard(node_, bucket, sizeof(Bucket));
  guard.status().or_throw();
  if (find(bucket, tag_of(hash), key, pair).entry.pair == 0) return false;
  value = value_in(pair);
  return true;
}

bool LineLocks::put(std::string_view key, std::string_view value) {
  const std::uint64_t hash = hash_key(key);
  const GlobalAddress bucket = bucket_of(hash);
  const WriteGuard guard(node_, bucket, sizeof(Bucket));
  guard.status().or_throw();
  const Place place = find(bucket, tag_of(hash), key, pair_read());
  store(place, tag_of(hash), key, value);
  return place.entry.pair == 0;
}

bool LineLocks::modify(std::string_view key, const Modify& function) {
  const std::uint64_t hash = hash_key(key);
  const GlobalAddress bucket = bucket_of(hash);
  std::vector<std::byte>& pair = pair_read();
  const WriteGuard guard(node_, bucket, sizeof(Bucket));
  guard.status().or_throw();
  const Place place = find(bucket, tag_of(hash), key, pair);
  if (place.entry.pair == 0) return false;
  std::string value(value_in(pair));
  function(value);
  store(place, tag_of(hash), key, value);
  return true;
}

GlobalAddress LineLocks::bucket_of(std::uint64_t hash) const {
  const auto bucket = std::uint64_t((unsigned __int128)(hash)*per_node_ * first_.size() >> 64);
  return first_[bucket / per_node_] + std::int64_t(bucket % per_node_ * node_.line_bytes());
}

LineLocks::Place LineLocks::find(GlobalAddress at, std::uint8_t tag, std::string_view key,
                                 std::vector<std::byte>& pair) const {
  Place place;
  for (;;) {
    const auto bucket = node_.read<Bucket>(at).value();
    for (std::size_t i = 0; i < kEntries; ++i) {
      const Entry& entry = bucket.entries[i];
      const GlobalAddress address = at + std::int64_t(i * sizeof(Entry));
      if (entry.pair == 0) {
        if (!place.address) place.address = address;
        continue;
      }
      if (entry.tag != tag) continue;
      pair.resize(entry.size);
      node_.read(GlobalAddress(entry.pair), std::span(pair)).or_throw();
      if (key_in(pair) == key) return {entry, address, false};
    }
    if (bucket.overflow == 0) break;
    at = GlobalAddress(bucket.overflow);
  }
  if (!place.address) {
    place.address = at;
    place.full = true;
  }
  return place;
}

void LineLocks::store(const Place& place, std::uint8_t tag, std::string_view key, std::string_view value) {
  const GlobalAddress old(place.entry.pair);
  const std::uint64_t bytes = kPairHeader + key.size() + value.size();
  if (old && old.node() == node_.id() && place.entry.size == bytes) {  // it is where it would go
    node_.write(old + std::int64_t(kPairHeader + key.size()), std::as_bytes(std::span(value))).or_throw();
    return;
  }
  std::vector<std::byte>& pair = pair_written();
  join_pair(key, value, pair);
  Entry entry;
  entry.pair = node_.allocate(bytes, Placement::local().uninitialized()).value().bits();
  entry.tag = tag;
  entry.size = std::uint32_t(bytes) & 0xffffff;
  node_.write(GlobalAddress(entry.pair), std::span<const std::byte>(pair)).or_throw();
  if (place.full) {
    Bucket bucket;
    bucket.entries[0] = entry;
    const GlobalAddress next = node_.allocate(sizeof(Bucket), Placement::local()).value();
    node_.write(next, bucket).or_throw();
    node_.write(place.address + std::int64_t(offsetof(Bucket, overflow)), next.bits()).or_throw();
    return;
  }
  node_.write(place.address, entry).or_throw();
  if (old) node_.free(old).or_throw();
}

}  // namespace atoll::bench
