#include "lab/lab.hpp"

#include <sched.h>

#include <utility>
#include <vector>

namespace atoll::lab {
namespace {

// Hazard stores that others do not see yet. The laboratory runs on one thread.
std::vector<std::pair<std::uint64_t*, std::uint64_t>>& late_stores() {
  static std::vector<std::pair<std::uint64_t*, std::uint64_t>> stores;
  return stores;
}

}  // namespace

bool choose(std::string_view name) noexcept {
  chosen = Fault::none;
  if (name == "none") return true;
#define ATOLL_X(fault, what) \
  if (name == #fault) {      \
    chosen = Fault::fault;   \
    return true;             \
  }
  ATOLL_FAULTS(ATOLL_X)
#undef ATOLL_X
  return false;
}

std::string_view name_of(Fault fault) noexcept {
  switch (fault) {
    case Fault::none: return "none";
#define ATOLL_X(name, what) \
  case Fault::name: return #name;
      ATOLL_FAULTS(ATOLL_X)
#undef ATOLL_X
  }
  return "?";
}

void for_each_fault(const std::function<void(std::string_view, std::string_view)>& f) {
#define ATOLL_X(fault, what) f(#fault, what);
  ATOLL_FAULTS(ATOLL_X)
#undef ATOLL_X
}

void point() {
  if (hooks.point) hooks.point();
}

void give_way() {
  if (hooks.give_way) {
    hooks.give_way();
  } else {
    ::sched_yield();
  }
}

void store_hazard(std::uint64_t& slot, std::uint64_t address) {
  if (hooks.store_is_late && hooks.store_is_late()) {
    late_stores().emplace_back(&slot, address);
  } else {
    slot = address;
  }
}

void leave_hazard(std::uint64_t& slot) {
  std::erase_if(late_stores(), [&](const auto& store) { return store.first == &slot; });
  slot = 0;
}

void drain_stores() {
  for (const auto& [slot, address] : late_stores()) *slot = address;
  late_stores().clear();
}

}  // namespace atoll::lab
