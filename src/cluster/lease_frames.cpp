#include "cluster/lease_frames.hpp"

#include <limits>

namespace atoll::cluster {
namespace {

constexpr auto kMaxNumber = std::numeric_limits<std::uint32_t>::max();
constexpr auto kMaxTime = std::uint64_t(std::numeric_limits<LeaseTime>::max() / 2);  // so that a lease can be added

/// "epoch" and "members": [node, incarnation, since] of each that is in.
void put_epoch(Json& body, const Epoch& epoch) {
  body["epoch"] = epoch.number;
  Json members = Json::array();
  for (std::size_t k = 0; k < epoch.incarnations.size(); ++k) {
    if (epoch.incarnations[k] != 0) members.push_back({k, epoch.incarnations[k], epoch.since[k]});
  }
  body["members"] = std::move(members);
}

bool is_member(const Json& item, const Epoch& epoch) {
  if (!item.is_array() || item.size() != 3) return false;
  for (const Json& part : item) {
    if (!part.is_number_unsigned() || part.get<std::uint64_t>() > kMaxNumber) return false;
  }
  const auto node = item[0].get<std::uint64_t>();
  const auto since = item[2].get<std::uint64_t>();
  return node < epoch.incarnations.size() && epoch.incarnations[node] == 0 && item[1].get<std::uint64_t>() != 0 &&
         since >= 1 && since <= epoch.number;
}

Epoch take_epoch(const Json& body, Fields& fields, NodeId nodes, std::string& why) {
  Epoch epoch;
  epoch.number = std::uint32_t(fields.number("epoch", kMaxNumber - 1));
  epoch.incarnations.resize(nodes);
  epoch.since.resize(nodes);
  const auto members = body.find("members");
  if (members == body.end() || !members->is_array() || members->size() > nodes) {
    why = "\"members\" is no list of at most as many as there are nodes";
    return epoch;
  }
  for (const Json& item : *members) {
    if (!is_member(item, epoch)) {
      why = "\"members\" has something that is no member, or one twice";
      return epoch;
    }
    const auto node = item[0].get<std::size_t>();
    epoch.incarnations[node] = item[1].get<std::uint32_t>();
    epoch.since[node] = item[2].get<std::uint32_t>();
  }
  return epoch;
}

std::vector<NodeId> take_unreachable(const Json& body, NodeId nodes, std::string& why) {
  std::vector<NodeId> unreachable;
  const auto list = body.find("unreachable");
  if (list == body.end()) return unreachable;  // the ordinary case
  if (!list->is_array() || list->size() > nodes) {
    why = "\"unreachable\" is no list of at most as many as there are nodes";
    return unreachable;
  }
  for (const Json& item : *list) {
    if (item.is_number_unsigned() && item.get<std::uint64_t>() < nodes) {
      unreachable.push_back(item.get<NodeId>());
    } else {
      why = "\"unreachable\" has something that is no node";
    }
  }
  return unreachable;
}

/// The first thing that was wrong, if any was.
bool makes_sense(const Fields& fields, std::string& why) {
  if (!fields.ok()) why = fields.why();
  return why.empty();
}

}  // namespace

Json to_json(const Report& report) {
  Json body{{"op", "report"},
            {"node", report.node},
            {"incarnation", report.incarnation},
            {"previous_term", report.previous_term},
            {"state", unsigned(report.state)},
            {"sent", std::uint64_t(report.sent)}};
  put_epoch(body, report.epoch);
  if (!report.unreachable.empty()) body["unreachable"] = report.unreachable;
  return body;
}

Json to_json(const Answer& answer) {
  Json body{{"op", "answer"},
            {"term", answer.term},
            {"echo", std::uint64_t(answer.echo)},
            {"verdict", unsigned(answer.verdict)}};
  put_epoch(body, answer.epoch);
  return body;
}

Json to_json(const LeaseRecord& record) {
  Json body{{"term", record.term}};
  put_epoch(body, record.epoch);
  return body;
}

std::optional<Report> report_of(const Json& body, NodeId nodes, std::string& why) {
  why.clear();
  Fields fields(body);
  Report report;
  report.node = NodeId(fields.number("node", nodes - 1U));
  report.incarnation = std::uint32_t(fields.number("incarnation", kMaxNumber));
  report.previous_term = fields.number("previous_term");
  report.state = LeaseState(fields.number("state", unsigned(LeaseState::kCount) - 1));
  report.sent = LeaseTime(fields.number("sent", kMaxTime));
  report.epoch = take_epoch(body, fields, nodes, why);
  if (why.empty()) report.unreachable = take_unreachable(body, nodes, why);
  if (why.empty() && fields.ok() && report.incarnation == 0) why = "\"incarnation\" is 0";
  if (!makes_sense(fields, why)) return std::nullopt;
  return report;
}

std::optional<Answer> answer_of(const Json& body, NodeId nodes, std::string& why) {
  why.clear();
  Fields fields(body);
  Answer answer;
  answer.term = fields.number("term");
  answer.echo = LeaseTime(fields.number("echo", kMaxTime));
  answer.verdict = Verdict(fields.number("verdict", unsigned(Verdict::kOut)));
  answer.epoch = take_epoch(body, fields, nodes, why);
  if (!makes_sense(fields, why)) return std::nullopt;
  return answer;
}

std::optional<LeaseRecord> record_of(const Json& body, NodeId nodes, std::string& why) {
  why.clear();
  Fields fields(body);
  LeaseRecord record;
  record.term = fields.number("term");
  record.epoch = take_epoch(body, fields, nodes, why);
  if (!makes_sense(fields, why)) return std::nullopt;
  return record;
}

}  // namespace atoll::cluster
