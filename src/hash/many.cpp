// Many keys at once: their misses overlap.
#include <algorithm>

#include "hash/table.hpp"

namespace atoll::hash {

namespace {

constexpr unsigned kPatience = 8;          // rounds in vain before locks are taken
constexpr std::size_t kPutsUnderWay = 64;  // buckets that are asked for together: who waits for one waits for all
constexpr Status kKeyTooLong(Errc::kInvalidArgument, "the key is longer than keys may be");

std::optional<std::string_view> value_in(const std::string& pair, std::size_t value_at) {
  if (value_at == Table::kAbsent) return std::nullopt;
  return std::string_view(pair).substr(value_at);
}

}  // namespace

/// The keys, hashed; their buckets are on their way.
Result<std::vector<Key>> Table::ask_for(std::span<const std::string_view> keys) noexcept {
  std::vector<Key> hashed;
  hashed.reserve(keys.size());
  for (const std::string_view bytes : keys) {
    if (bytes.size() > HashMap::kMaxKeyBytes) return kKeyTooLong;
    hashed.push_back(key(bytes));
    if (keys.size() == 1) break;
    std::uint64_t number = 0;
    const Result<GlobalAddress> bucket = guess(hashed.back().hash, &number);
    if (!bucket.ok()) return bucket.status();
    if (const Status status = node_.prefetch(*bucket, kBucketBytes); !status.ok()) return status;
  }
  return hashed;
}

Status Table::get_many(std::span<const std::string_view> keys, const HashMap::Found& found) noexcept {
  const Result<std::vector<Key>> hashed = ask_for(keys);
  if (!hashed.ok()) return hashed.status();
  std::string pair;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Result<std::size_t> value_at = find((*hashed)[i], &pair);
    if (!value_at.ok()) return value_at.status();
    found(i, value_in(pair, *value_at));
  }
  return {};
}

Status Table::get_together(std::span<const std::string_view> keys, const HashMap::Found& found) noexcept {
  struct Item {
    std::string pair;
    std::size_t value_at = kAbsent;
    Version version;
  };
  const Result<std::vector<Key>> hashed = ask_for(keys);
  if (!hashed.ok()) return hashed.status();
  std::vector<Item> items(keys.size());
  for (unsigned tries = 0; tries < kPatience; ++tries) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      Item& item = items[i];
      if (tries > 0) {
        const Result<bool> current = is_current(item.version);
        if (!current.ok()) return current.status();
        if (*current) continue;
      }
      const Result<std::size_t> value_at = find((*hashed)[i], &item.pair, &item.version);
      if (!value_at.ok()) return value_at.status();
      item.value_at = *value_at;
    }
    // All buckets were as they are now at the moment between the two loops.
    bool all_current = true;
    for (std::size_t i = 0; i < items.size() && all_current; ++i) {
      const Result<bool> current = is_current(items[i].version);
      if (!current.ok()) return current.status();
      all_current = *current;
    }
    if (!all_current) continue;
    for (std::size_t i = 0; i < items.size(); ++i) found(i, value_in(items[i].pair, items[i].value_at));
    return {};
  }
  return together(keys, [&](HashMap::Step& step) -> Status {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto value = step.get(keys[i]);
      if (!value.ok()) return value.status();
      found(i, *value);
    }
    return {};
  });
}

/// A bucket that follows itself stays locked. Of values that follow each other for the same key the last is written:
/// the others were there for a moment that nobody can tell.
Result<std::size_t> Table::put_many(std::span<const HashMap::KeyValue> pairs) noexcept {
  std::size_t added = 0;
  while (!pairs.empty()) {
    const auto piece = pairs.first(std::min(pairs.size(), kPutsUnderWay));
    pairs = pairs.subspan(piece.size());
    std::vector<Key> hashed;
    GlobalAddress last;
    for (const auto& [bytes, value] : piece) {
      if (bytes.size() > HashMap::kMaxKeyBytes) return kKeyTooLong;
      hashed.push_back(key(bytes));
      std::uint64_t number = 0;
      const Result<GlobalAddress> bucket = guess(hashed.back().hash, &number);
      if (!bucket.ok()) return bucket.status();
      if (piece.size() == 1 || *bucket == last) continue;
      last = *bucket;
      if (const Status status = node_.prefetch(last, kBucketBytes, LockMode::kWrite); !status.ok()) return status;
    }
    std::optional<LockedBucket> locked;
    for (std::size_t i = 0; i < piece.size(); ++i) {
      const bool is_replaced = i + 1 < piece.size() && piece[i + 1].first == piece[i].first;
      if (is_replaced && piece[i].second.size() <= HashMap::kMaxValueBytes) continue;
      const Result<bool> is_new = put(hashed[i], piece[i].second, locked);
      if (!is_new.ok()) return is_new.status();
      added += *is_new ? 1 : 0;
    }
    if (const Status status = locked->unlock(); !status.ok()) return status;
  }
  return added;
}

}  // namespace atoll::hash
