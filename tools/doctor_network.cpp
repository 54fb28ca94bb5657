// Ways to other hosts: libfabric, ports, the master.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "cluster/key.hpp"
#include "cluster/tcp.hpp"
#include "doctor_checks.hpp"
#include "fabric/ofi/endpoint.hpp"

namespace atoll::tools {
namespace {

/// The IP address that an offer of libfabric is for; empty when it is for something else.
std::string address_in(const fi_info& info) {
  if (info.src_addr == nullptr || info.src_addrlen > sizeof(sockaddr_storage)) return {};
  sockaddr_storage address{};
  std::memcpy(&address, info.src_addr, info.src_addrlen);
  if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return {};
  return cluster::address_of(address).host;
}

/// Empty when somebody accepts connections there, else why not.
std::string cannot_reach(const cluster::TcpAddress& to, std::chrono::milliseconds patience) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &hints, &found); error != 0) {
    return ::gai_strerror(error);
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  std::string why = "no address";
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
    const base::Fd socket(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval timeout{patience.count() / 1000, patience.count() % 1000 * 1000};  // connect(2) heeds it
    if (socket.valid() && ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) == 0 &&
        ::connect(socket.get(), each->ai_addr, each->ai_addrlen) == 0) {
      return {};
    }
    why = errno == EINPROGRESS ? fmt::format("no answer within {} ms", patience.count()) : std::strerror(errno);
  }
  return why;
}

}  // namespace

Finding check_libfabric(const std::string& address) {
  try {
    const std::uint32_t version = fabric::ofi_library().version();
    const std::vector<std::string> providers = fabric::usable_providers(address);
    return {providers.empty() ? Health::kWarning : Health::kOk, "libfabric",
            fmt::format("{}.{}; providers that will do{}: {}", FI_MAJOR(version), FI_MINOR(version),
                        address.empty() ? "" : fmt::format(" at {}", address),
                        providers.empty() ? "none" : fmt::format("{}", fmt::join(providers, ", "))),
            "look at `fi_info` (package libfabric-bin), at FI_PROVIDER in the environment, and at the address"};
  } catch (const Error& error) {
    return {Health::kWarning, "libfabric", error.what(), "apt install libfabric1, or clusters stay on one host"};
  }
}

FoundTransport check_transport(const HostFiles& files, const std::string& name, const std::string& address,
                               bool required) {
  FoundTransport found{{Health::kOk, fmt::format("transport {}", name), "", ""}, true, address};
  if (name == "shm") {
    found.finding.seen = "between nodes of this host";
    return found;
  }
  if (address.empty() && name == "tcp") found.address = "127.0.0.1";  // as `atoll run` does it
  std::string& seen = found.finding.seen;
  std::string& remedy = found.finding.remedy;
  try {
    const fabric::Endpoint endpoint({name, found.address});  // as a node opens it
    if (found.address.empty()) found.address = address_in(endpoint.info());
    seen = endpoint.describe();
    if (!found.address.empty()) {
      seen += fmt::format(" at {}", found.address);
      return found;
    }
    remedy = "it does not say which IP address leads to it: give --address";
  } catch (const Error& error) {
    seen = "cannot be had";
    remedy = error.what();
    if (!address.empty()) remedy += fmt::format(" Is {} an address of this host (`ip address`)?", address);
  }
  found.usable = false;
  if (required) {
    found.finding.health = Health::kProblem;
  } else if (name == "verbs" && files.names("/sys/class/infiniband").empty()) {
    seen = "not here: there is no RDMA device";
  } else {
    found.finding.health = Health::kWarning;
  }
  return found;
}

Finding check_listen(const std::string& listen) {
  try {
    const cluster::TcpListener listener = cluster::listen_tcp(cluster::parse_tcp_address(listen, "address"));
    return {Health::kOk, "port", fmt::format("a master can listen at {}", listener.address.text()), ""};
  } catch (const Error& error) {
    return {Health::kProblem, "port", error.what(),
            "an address of this host (`ip address`) and a port that nobody has (`ss -ltnp`), above 1023 if not root"};
  }
}

Finding check_port_range(const HostFiles& files) {
  std::string range = files.line("/proc/sys/net/ipv4/ip_local_port_range");
  std::replace(range.begin(), range.end(), '\t', ' ');
  const std::size_t blank = range.find(' ');
  if (blank == std::string::npos) {
    return {Health::kWarning, "nodes' ports", "/proc/sys/net/ipv4/ip_local_port_range does not say", "mount /proc"};
  }
  const std::uint64_t first = std::strtoull(range.c_str(), nullptr, 10);
  const std::uint64_t last = std::strtoull(range.c_str() + blank, nullptr, 10);
  const bool enough = last >= first + 2048;  // a connection to each of 1024 nodes, and their own
  return {enough ? Health::kOk : Health::kWarning, "nodes' ports",
          fmt::format("{} to {}: firewalls between hosts must let these through for tcp", first, last),
          "sysctl net.ipv4.ip_local_port_range=\"32768 60999\""};
}

Finding check_master(const std::string& master, std::chrono::milliseconds patience) {
  constexpr const char* kWhat = "master";
  const auto unreachable = [&](const std::string& why) {
    return Finding{Health::kProblem, kWhat, why,
                   "start `atoll master --listen ...` there; then look at names, routes and firewalls in between"};
  };
  try {
    const cluster::TcpAddress address = cluster::parse_tcp_address(master, "the master");
    if (const std::optional<cluster::Key> key = cluster::Key::from_environment()) {
      (void)cluster::connect_trusted(address, *key, cluster::Clock::now() + patience);
      return {Health::kOk, kWhat, fmt::format("{} answers and has our cluster key", master), ""};
    }
    const std::string why = cannot_reach(address, patience);
    if (!why.empty()) return unreachable(fmt::format("nobody answers at {}: {}", master, why));
    return {Health::kProblem, kWhat, fmt::format("{} can be reached, but there is no cluster key to join with", master),
            "ATOLL_KEY_FILE=FILE, a copy of the master's"};
  } catch (const Error& error) {
    if (error.code() == Errc::kClusterDown) return unreachable(error.what());
    return {Health::kProblem, kWhat, error.what(), "compare the key files of both hosts, and the versions of Atoll"};
  }
}

}  // namespace atoll::tools
