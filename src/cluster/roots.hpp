// Named roots: the addresses that nodes find each other's data by.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "atoll/address.hpp"
#include "atoll/status.hpp"

namespace atoll::cluster {

inline constexpr std::size_t kMaxRootNameBytes = 255;
inline constexpr std::size_t kMaxRoots = 65536;

/// Whether a root may be called that: 1 to 255 bytes of UTF-8 (names travel as JSON).
[[nodiscard]] Status check_root_name(std::string_view name);

/// The names of a cluster and what they stand for; a cluster of one has its own, others the master's.
///
/// Thread-safety: none; the owner's lock.
/// Invariants:
///   1. A name, once given, stands for the same address for ever.
///   2. At most kMaxRoots names.
class RootTable {
 public:
  /// kAlreadyExists when the name stands for another address; ok when it stands for this one.
  Status publish(std::string_view name, GlobalAddress address);
  [[nodiscard]] std::optional<GlobalAddress> find(std::string_view name) const;
  [[nodiscard]] const std::map<std::string, GlobalAddress, std::less<>>& all() const noexcept { return roots_; }

 private:
  std::map<std::string, GlobalAddress, std::less<>> roots_;
};

}  // namespace atoll::cluster
