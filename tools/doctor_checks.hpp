// What `atoll doctor` looks at on a host. Each look is a finding: what was seen, with its numbers, and what to do if
// something is amiss.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "atoll/options.hpp"
#include "atoll/status.hpp"

namespace atoll::tools {

enum class Health : std::uint8_t {
  kOk,
  kWarning,  // nodes run, but not as well as they could
  kProblem,  // nodes, or those that were asked for, cannot run
};

struct Finding {
  Health health = Health::kOk;
  std::string what;    // "open files"
  std::string seen;    // "soft limit 1024, ..."
  std::string remedy;  // one line, for what is not ok
  std::map<std::string, double> figures = {};
};

/// The kernel's files: below "" on a real host, below another folder for tests.
struct HostFiles {
  std::string root;

  /// The first line of a file, without blanks around it; empty where there is none.
  [[nodiscard]] std::string line(const std::string& path) const;
  /// What follows this word at the beginning of a line of the file, without blanks around it; empty where there is no
  /// such line.
  [[nodiscard]] std::string value_of(const std::string& path, const std::string& word) const;
  /// The names in a folder, sorted.
  [[nodiscard]] std::vector<std::string> names(const std::string& path) const;
};

// The machine itself: doctor_host.cpp.
[[nodiscard]] Finding check_processors(const HostFiles& files, unsigned processors);
[[nodiscard]] Finding check_membarrier();
/// Can a node have the memory that these options ask for, and of which pages?
[[nodiscard]] std::vector<Finding> check_memory(const HostFiles& files, const Options& options);
[[nodiscard]] Finding check_open_files(const HostFiles& files);
[[nodiscard]] Finding check_locked_memory(const HostFiles& files, const Options& options);
[[nodiscard]] Finding check_address_space(const HostFiles& files);

// RDMA: doctor_rdma.cpp.
/// One finding for each port of each device, and one for what programs open to use them.
[[nodiscard]] std::vector<Finding> check_rdma(const HostFiles& files);

// Clocks: doctor_clock.cpp.
[[nodiscard]] Finding check_clock_source(const HostFiles& files);
/// The clock that leases are measured with.
[[nodiscard]] Finding check_boot_clock();
[[nodiscard]] Finding check_time_of_day();

// Ways to other hosts: doctor_network.cpp.
[[nodiscard]] Finding check_libfabric(const std::string& address);
/// A transport, and where two nodes of this host can use it.
struct FoundTransport {
  Finding finding;
  bool usable = false;
  std::string address;
};
/// `required`: nodes cannot do without it.
[[nodiscard]] FoundTransport check_transport(const HostFiles& files, const std::string& name,
                                             const std::string& address, bool required);
/// Can a master listen there? "HOST:PORT".
[[nodiscard]] Finding check_listen(const std::string& listen);
/// Which ports nodes take by themselves.
[[nodiscard]] Finding check_port_range(const HostFiles& files);
/// Does a master answer there, and does it have our cluster key? "HOST:PORT".
[[nodiscard]] Finding check_master(const std::string& master, std::chrono::milliseconds patience);

}  // namespace atoll::tools
