#include "kv/value.hpp"

#include <cstring>

namespace atoll::kv {
namespace {
constexpr std::size_t kExpiringBytes = 1 + sizeof(std::int64_t);
}

std::optional<Item> decode(std::string_view stored) noexcept {
  if (stored.empty()) return std::nullopt;
  if (stored.front() == kPlainTag) return Item{stored.substr(1), kNever};
  if (stored.front() != kExpiringTag || stored.size() < kExpiringBytes) return std::nullopt;
  Item item{stored.substr(kExpiringBytes), kNever};
  std::memcpy(&item.expires_at, stored.data() + 1, sizeof(item.expires_at));
  return item;
}

void encode(std::string_view value, std::int64_t expires_at, std::string& out) {
  out.clear();
  out.reserve(value.size() + kExpiringBytes);
  if (expires_at == kNever) {
    out.push_back(kPlainTag);
  } else {
    char header[kExpiringBytes] = {kExpiringTag};
    std::memcpy(header + 1, &expires_at, sizeof(expires_at));
    out.append(header, sizeof(header));
  }
  out.append(value);
}

}  // namespace atoll::kv
