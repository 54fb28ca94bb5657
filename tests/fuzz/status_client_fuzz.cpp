// What `atoll status` reads: the list of sockets, where any user may put any name, and a master's answers.
//
//   input = which (1 byte) | text as in /proc/net/unix, or a script for the master, see control_script.hpp
#include "cluster/status_client.hpp"

#include "cluster/stats_json.hpp"
#include "fake_master.hpp"

namespace atoll::fuzz {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kUser = 7;

void find(std::string_view text) {
  int last = 0;
  for (const cluster::FoundCluster& found : cluster::clusters_in(text, kUser)) {
    ATOLL_FUZZ_CHECK(found.pid >= last && found.pid > 0 && found.socket.starts_with("atoll-7-"));
    last = found.pid;
  }
}

/// An answer is one that the command can print.
void check_answer(const Json& answer) {
  (void)answer.at("program").get<std::string>();
  (void)answer.at("pid").get<int>();
  (void)answer.at("started").get<std::int64_t>();
  for (const Json& node : answer.at("nodes")) {
    (void)node.at("node").get<unsigned>();
    (void)node.at("state").get<std::string>();
    (void)node.at("pid").get<int>();
    (void)node.value("why", "");
    if (node.contains("counters")) {
      (void)node.at("counters").get<Stats>();
      (void)node.at("line").get<std::uint64_t>();
    }
  }
  (void)answer.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace
}  // namespace atoll::fuzz

using namespace atoll;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::quiet_logging();
  fuzz::Input input(data, size);
  if (input.below(2) == 0) {
    fuzz::find(input.text(input.left()));
    return 0;
  }
  const fuzz::FakeMaster master(input);
  const auto answer = cluster::query_status(master.socket_name(), std::chrono::seconds(10));
  ATOLL_FUZZ_CHECK(answer.status().code() != Errc::kDeadline);
  if (answer.ok()) fuzz::check_answer(*answer);
  return 0;
}
