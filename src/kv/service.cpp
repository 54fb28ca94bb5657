#include "kv/service.hpp"

#include <chrono>
#include <cstring>

namespace atoll::kv {

std::int64_t system_clock_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

Service::Service(Node& node, HashMap& map, ServiceOptions options)
    : node_(node), map_(map), options_(std::move(options)), started_(options_.clock()) {}

bool Service::is_password(std::string_view given) const noexcept {
  const std::string_view right = options_.password;
  unsigned different = given.size() == right.size() ? 0 : 1;
  // As many steps as the client's own text has bytes, whatever they are.
  for (std::size_t i = 0; i < given.size(); ++i) {
    different |= unsigned(static_cast<unsigned char>(given[i]) ^
                          static_cast<unsigned char>(right.empty() ? '\0' : right[i % right.size()]));
  }
  return different == 0;
}

bool Service::add_client() noexcept {
  if (clients_.fetch_add(1, std::memory_order_relaxed) < options_.limits.clients) return true;
  remove_client();
  return false;
}

void Service::add(Counts& counted) noexcept {
  std::uint64_t values[kCounts];
  std::memcpy(values, &counted, sizeof(values));
  for (std::size_t i = 0; i < kCounts; ++i) {
    if (values[i] != 0) counts_[i].fetch_add(values[i], std::memory_order_relaxed);
  }
  counted = {};
}

Counts Service::counts() const noexcept {
  std::uint64_t values[kCounts];
  for (std::size_t i = 0; i < kCounts; ++i) values[i] = counts_[i].load(std::memory_order_relaxed);
  Counts result;
  std::memcpy(&result, values, sizeof(values));
  return result;
}

}  // namespace atoll::kv
