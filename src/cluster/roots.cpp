#include "cluster/roots.hpp"

#include <nlohmann/json.hpp>

namespace atoll::cluster {

Status check_root_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxRootNameBytes) return {Errc::kInvalidArgument, "a name has 1 to 255 bytes"};
  try {
    (void)nlohmann::json(name).dump();  // strict: throws when it is not UTF-8
  } catch (const nlohmann::json::exception&) {
    return {Errc::kInvalidArgument, "a name must be UTF-8"};
  }
  return {};
}

Status RootTable::publish(std::string_view name, GlobalAddress address) {
  if (const Status status = check_root_name(name); !status.ok()) return status;
  if (!address) return {Errc::kNullAddress, "a null address cannot be published"};
  const auto found = roots_.find(name);
  if (found != roots_.end()) {
    if (found->second == address) return {};
    return {Errc::kAlreadyExists, "the name stands for another address"};
  }
  if (roots_.size() >= kMaxRoots) return {Errc::kOutOfMemory, "the cluster has 65536 names already"};
  roots_.emplace(name, address);
  return {};
}

std::optional<GlobalAddress> RootTable::find(std::string_view name) const {
  const auto found = roots_.find(name);
  if (found == roots_.end()) return std::nullopt;
  return found->second;
}

}  // namespace atoll::cluster
