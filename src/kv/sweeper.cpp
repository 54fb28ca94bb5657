#include "kv/sweeper.hpp"

#include <functional>

#include "kv/keys.hpp"

namespace atoll::kv {

bool Sweeper::tick() {
  const std::int64_t now = worker_.service.now();
  std::size_t seen = 0;
  expired_.clear();
  const auto visit = [&](std::string_view key, std::string_view stored) {
    ++seen;
    const std::optional<Item> item = decode(stored);
    if (item && item->expires_at != kNever && item->expires_at <= now) expired_.emplace_back(key);
    return true;
  };
  for (std::size_t step = 0; step < kSteps && seen < kPairs; ++step) {
    const Result<std::uint64_t> next = worker_.service.map().scan(cursor_, std::ref(visit));
    if (!next.ok()) break;  // a node has died, perhaps; what clients meet is erased all the same
    cursor_ = *next;
    if (cursor_ == 0) break;
  }
  for (const std::string& key : expired_) erase_expired(worker_, key);
  return expired_.size() * 4 > seen;
}

}  // namespace atoll::kv
