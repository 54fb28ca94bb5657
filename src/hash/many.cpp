// Reading many keys: their misses overlap, and all values are of one moment.
#include "hash/table.hpp"

namespace atoll::hash {

namespace {
constexpr unsigned kPatience = 8;  // rounds in vain before locks are taken
}

Status Table::get_many(std::span<const std::string_view> keys, const HashMap::Found& found) noexcept {
  struct Item {
    Key key;
    std::string pair;
    std::size_t value_at = kAbsent;
    Version version;
  };
  std::vector<Item> items(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].size() > HashMap::kMaxKeyBytes) return {Errc::kInvalidArgument, "the key is longer than keys may be"};
    items[i].key = key(keys[i]);
    std::uint64_t number = 0;
    const Result<GlobalAddress> bucket = guess(items[i].key.hash, &number);
    if (!bucket.ok()) return bucket.status();
    if (keys.size() == 1) break;
    if (const Status status = node_.prefetch(*bucket, kBucketBytes); !status.ok()) return status;
  }
  for (unsigned tries = 0; tries < kPatience; ++tries) {
    bool all_current = true;
    for (Item& item : items) {
      if (tries > 0) {
        const Result<bool> current = is_current(item.version);
        if (!current.ok()) return current.status();
        if (*current) continue;
      }
      const Result<std::size_t> value_at = find(item.key, item.pair, true, &item.version);
      if (!value_at.ok()) return value_at.status();
      item.value_at = *value_at;
    }
    // All buckets were as they are now at the moment between the two loops.
    for (std::size_t i = 0; i < items.size() && all_current; ++i) {
      const Result<bool> current = is_current(items[i].version);
      if (!current.ok()) return current.status();
      all_current = *current;
    }
    if (!all_current) continue;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const Item& item = items[i];
      found(i,
            item.value_at == kAbsent ? std::nullopt : std::optional(std::string_view(item.pair).substr(item.value_at)));
    }
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

}  // namespace atoll::hash
