// What `atoll run --hosts` reads, and what its agent on another host is told.
//
//   input = "h" | a file of hosts, or: anything else | the text of a frame for the agent
#include <string>

#include "cluster/agent.hpp"
#include "cluster/control.hpp"
#include "cluster/hosts.hpp"
#include "fuzz.hpp"

namespace atoll::fuzz {
namespace {

/// Nothing but a host gets to ssh, and a file that is written again means the same.
void check_hosts(std::string_view text) {
  std::vector<cluster::Host> hosts;
  try {
    hosts = cluster::parse_hosts(text, "hosts");
  } catch (const Error& error) {
    ATOLL_FUZZ_CHECK(std::string_view(error.what()).starts_with("hosts"));
    return;
  }
  const auto slots = cluster::slots_of(hosts);
  ATOLL_FUZZ_CHECK(!hosts.empty() && slots >= hosts.size() && slots <= cluster::kMaxNodes);
  std::string again;
  for (const cluster::Host& host : hosts) {
    ATOLL_FUZZ_CHECK(!host.name.empty() && host.name[0] != '-');
    ATOLL_FUZZ_CHECK(host.name.find_first_of(" ;&|<>()$`\\\"'*?!~{}\n\t") == std::string::npos);
    again += host.name + " slots=" + std::to_string(host.slots) + " env";
    for (const auto& [name, value] : host.environment) {
      ATOLL_FUZZ_CHECK(!cluster::is_launchers_own(name));
      again.append(" ").append(name).append("=").append(value);
    }
    again += "\n";
  }
  const auto second = cluster::parse_hosts(again, "hosts");
  ATOLL_FUZZ_CHECK(second.size() == hosts.size() && cluster::slots_of(second) == slots);
  for (std::size_t k = 0; k < hosts.size(); ++k) ATOLL_FUZZ_CHECK(second[k].environment == hosts[k].environment);
}

bool decode(std::string_view bytes, cluster::StartRequest& request) {
  cluster::FrameDecoder decoder;
  cluster::Frame frame;
  decoder.feed(bytes, {});
  if (decoder.next(frame) != cluster::Decoded::kFrame) return false;
  try {
    request = cluster::decode_start(frame);
    return true;
  } catch (const Error& error) {
    ATOLL_FUZZ_CHECK(*error.what() != '\0');
    return false;
  }
}

/// A request that is taken has a program, and is the same when it is sent on.
void check_request(std::string_view text) {
  std::string bytes;
  for (std::size_t k = 0; k < 4; ++k) bytes.push_back(char((text.size() >> (8 * k)) & 0xff));
  bytes += text;
  cluster::StartRequest request, again;
  if (!decode(bytes, request)) return;
  ATOLL_FUZZ_CHECK(!request.program.empty());
  ATOLL_FUZZ_CHECK(decode(cluster::encode_start(request), again) && again == request);
}

}  // namespace
}  // namespace atoll::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  atoll::fuzz::quiet_logging();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with('h')) {
    atoll::fuzz::check_hosts(text.substr(1));
  } else {
    atoll::fuzz::check_request(text);
  }
  return 0;
}
