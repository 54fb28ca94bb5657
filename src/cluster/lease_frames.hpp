// Reports, answers and records as JSON: frames of the control connection, and the master's small file.
#pragma once

#include <optional>
#include <string>

#include "cluster/control.hpp"
#include "cluster/lease_master.hpp"

namespace atoll::cluster {

// Frames "report" and "answer". Those of 1024 nodes stay below kMaxFrameBytes.
[[nodiscard]] Json to_json(const Report& report);
[[nodiscard]] Json to_json(const Answer& answer);
[[nodiscard]] Json to_json(const LeaseRecord& record);

/// What a frame or the file says; nothing, and why, when it makes no sense for a cluster of so many nodes. What they
/// return can be given to LeaseMaster and LeaseNode, whoever sent it.
[[nodiscard]] std::optional<Report> report_of(const Json& body, NodeId nodes, std::string& why);
[[nodiscard]] std::optional<Answer> answer_of(const Json& body, NodeId nodes, std::string& why);
[[nodiscard]] std::optional<LeaseRecord> record_of(const Json& body, NodeId nodes, std::string& why);

}  // namespace atoll::cluster
