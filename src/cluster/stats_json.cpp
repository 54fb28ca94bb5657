#include "cluster/stats_json.hpp"

#include <string>

namespace atoll::cluster {

using Json = nlohmann::json;

Json counters_to_json(const Stats& stats) {
  Json json = stats;
  Json& kinds = json["sent_by_kind"] = Json::object();
  for (std::size_t k = 0; k < stats.sent_by_kind.size(); ++k) {
    const std::string name(message_kind_name(std::uint8_t(k)));
    if (!name.empty()) kinds[name] = stats.sent_by_kind[k];
  }
  return json;
}

std::optional<Stats> counters_from_json(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_number_unsigned() && name != "sent_by_kind") return std::nullopt;
  }
  Stats stats;
  try {
    stats = json.get<Stats>();  // throws when one is missing
  } catch (const Json::exception&) {
    return std::nullopt;
  }
  const auto kinds = json.find("sent_by_kind");
  if (kinds == json.end() || !kinds->is_object()) return stats;  // they are for people, and may be left out
  for (std::size_t k = 0; k < stats.sent_by_kind.size(); ++k) {
    const auto at = kinds->find(std::string(message_kind_name(std::uint8_t(k))));
    if (at != kinds->end() && at->is_number_unsigned()) stats.sent_by_kind[k] = at->get<std::uint64_t>();
  }
  return stats;
}

}  // namespace atoll::cluster
