// RDMA devices, as the kernel shows them.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>

#include "doctor_checks.hpp"

namespace atoll::tools {
namespace {

/// What the GIDs of a port stand for.
struct Gids {
  std::vector<std::string> addresses;  // of IP
  int others = 0;
};

Gids gids_of(const HostFiles& files, const std::string& port) {
  Gids found;
  for (const std::string& name : files.names(port + "/gids")) {
    const std::string text = files.line(port + "/gids/" + name);  // in the form of an IPv6 address
    in6_addr gid{};
    if (::inet_pton(AF_INET6, text.c_str(), &gid) != 1 || IN6_IS_ADDR_UNSPECIFIED(&gid)) continue;
    char room[INET6_ADDRSTRLEN] = {};
    if (IN6_IS_ADDR_V4MAPPED(&gid)) {
      (void)::inet_ntop(AF_INET, &gid.s6_addr[12], room, sizeof(room));
    } else if ((gid.s6_addr[0] & 0xe0) == 0x20 || (gid.s6_addr[0] & 0xfe) == 0xfc) {  // global or unique local
      (void)::inet_ntop(AF_INET6, &gid, room, sizeof(room));
    } else {
      ++found.others;
      continue;
    }
    if (std::find(found.addresses.begin(), found.addresses.end(), room) == found.addresses.end()) {
      found.addresses.emplace_back(room);
    }
  }
  return found;
}

Finding check_port(const HostFiles& files, const std::string& device, const std::string& number) {
  const std::string port = fmt::format("/sys/class/infiniband/{}/ports/{}", device, number);
  const std::string state = files.line(port + "/state");  // "4: ACTIVE"
  const std::string layer = files.line(port + "/link_layer"), rate = files.line(port + "/rate");
  const Gids gids = gids_of(files, port);
  const bool active = state.ends_with("ACTIVE");
  // RoCE finds its way by GIDs of IP addresses; InfiniBand by those of the subnet manager.
  const bool addressed = !gids.addresses.empty() || (layer == "InfiniBand" && gids.others > 0);
  std::string seen = fmt::format("{}, {}", state.empty() ? "state unknown" : state, layer.empty() ? "?" : layer);
  if (!rate.empty()) seen += fmt::format(", {}", rate);
  seen += gids.addresses.empty() ? ", no GID of an IP address"
                                 : fmt::format(", GIDs of {}", fmt::join(gids.addresses, ", "));
  if (gids.others > 0) seen += fmt::format(", {} more", gids.others);
  return {active && addressed ? Health::kOk : Health::kWarning, fmt::format("{} port {}", device, number),
          std::move(seen),
          active ? "give its network device an IP address: ip address add ... dev ..."
                 : "connect it and bring its network device up: rdma link, ip link set ... up"};
}

/// Programs reach devices through these files.
Finding check_files(const HostFiles& files) {
  std::vector<std::string> good, bad;
  bool verbs = false, connections = false;
  for (const std::string& name : files.names("/dev/infiniband")) {
    if (name != "rdma_cm" && !name.starts_with("uverbs")) continue;
    const bool usable = ::access(fmt::format("{}/dev/infiniband/{}", files.root, name).c_str(), R_OK | W_OK) == 0;
    (usable ? good : bad).push_back(name);
    (name == "rdma_cm" ? connections : verbs) |= usable;
  }
  std::string seen = good.empty() ? "none may be used" : fmt::format("{} may be used", fmt::join(good, ", "));
  if (!bad.empty()) seen += fmt::format("; {} may not", fmt::join(bad, ", "));
  return {verbs && connections ? Health::kOk : Health::kWarning, "/dev/infiniband", std::move(seen),
          bad.empty() ? "modprobe -a ib_uverbs rdma_ucm; a container must be given these files"
                      : "allow this user to read and write them (udev rules of package rdma-core)"};
}

}  // namespace

std::vector<Finding> check_rdma(const HostFiles& files) {
  std::vector<Finding> findings;
  for (const std::string& device : files.names("/sys/class/infiniband")) {
    for (const std::string& port : files.names(fmt::format("/sys/class/infiniband/{}/ports", device))) {
      findings.push_back(check_port(files, device, port));
    }
  }
  if (findings.empty()) {
    findings.push_back(
        {Health::kOk, "RDMA devices", "none in /sys/class/infiniband: other hosts are reached by tcp", ""});
  } else {
    findings.push_back(check_files(files));
  }
  return findings;
}

}  // namespace atoll::tools
