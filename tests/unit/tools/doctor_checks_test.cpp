// What `atoll doctor` finds on hosts that are made up, folder by folder.
#include "doctor_checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cluster/key.hpp"
#include "cluster/tcp.hpp"

namespace atoll::tools {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

/// A host that has what it is given, and nothing else.
class DoctorChecks : public testing::Test {
 protected:
  DoctorChecks() {
    std::string path = (std::filesystem::temp_directory_path() / "atoll-doctor-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) std::abort();
    files_.root = path;
    options_.memory_bytes = 8 << 20;
    options_.cache_bytes = 4 << 20;
  }
  ~DoctorChecks() override { std::filesystem::remove_all(files_.root); }

  void put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = files_.root + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void put_limits(const std::string& files, const std::string& locked, const std::string& space) const {
    put("/proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max open files            " +
            files +
            " files     \n"
            "Max locked memory         " +
            locked +
            " bytes     \n"
            "Max address space         " +
            space + " bytes     \n");
  }
  void put_rdma_port(const std::string& state, const std::string& layer, const std::vector<std::string>& gids) const {
    const std::string port = "/sys/class/infiniband/rxe0/ports/1";
    put(port + "/state", state + "\n");
    put(port + "/link_layer", layer + "\n");
    put(port + "/rate", "100 Gb/sec (4X EDR)\n");
    for (std::size_t i = 0; i < gids.size(); ++i) put(port + "/gids/" + std::to_string(i), gids[i] + "\n");
  }

  HostFiles files_;
  Options options_;
};

constexpr const char* kNoGid = "0000:0000:0000:0000:0000:0000:0000:0000";
constexpr const char* kLinkLocal = "fe80:0000:0000:0000:5054:00ff:fe12:3456";
constexpr const char* kOfIpv4 = "0000:0000:0000:0000:0000:ffff:0a4d:0001";
constexpr const char* kOfIpv6 = "fd00:0000:0000:0000:0000:0000:0000:0007";

TEST_F(DoctorChecks, ProcessorsMayBeFewOrBusy) {
  put("/proc/loadavg", "0.42 3.00 3.00 2/345 6789\n");
  EXPECT_EQ(check_processors(files_, 2).health, Health::kOk);
  EXPECT_EQ(check_processors(files_, 2).seen, "2 for this process, load 0.4");
  EXPECT_EQ(check_processors(files_, 1).health, Health::kWarning);
  EXPECT_THAT(check_processors(files_, 1).remedy, HasSubstr("two or more"));
  put("/proc/loadavg", "2.50 0.10 0.10 2/345 6789\n");
  EXPECT_EQ(check_processors(files_, 2).health, Health::kWarning);
  EXPECT_THAT(check_processors(files_, 2).remedy, HasSubstr("other work"));
  EXPECT_EQ(check_processors(files_, 4).health, Health::kOk);
}

TEST_F(DoctorChecks, MemoryIsComparedWithWhatANodeTakes) {
  put("/proc/meminfo", "MemTotal:       16384 kB\nMemAvailable:    1048576 kB\n");
  auto found = check_memory(files_, options_);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].health, Health::kOk);
  EXPECT_THAT(found[0].seen, HasSubstr("memory 8 MiB, cache 4 MiB"));
  EXPECT_THAT(found[0].seen, HasSubstr("available: 1 GiB"));
  put("/proc/meminfo", "MemAvailable:    1024 kB\n");
  found = check_memory(files_, options_);
  EXPECT_EQ(found[0].health, Health::kWarning);
  EXPECT_THAT(found[0].seen, HasSubstr("available: 1 MiB"));
}

TEST_F(DoctorChecks, SizesThatNoNodeCanHaveAreAProblem) {
  options_.memory_bytes = 1 << 10;
  const auto found = check_memory(files_, options_);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].health, Health::kProblem);
  EXPECT_THAT(found[0].seen, HasSubstr("give at least 1M"));
}

TEST_F(DoctorChecks, HugePagesAreSetAsideOrTransparent) {
  const std::string pool = "/sys/kernel/mm/hugepages/hugepages-2048kB";
  const auto found = [&] { return check_memory(files_, options_).at(1); };
  EXPECT_EQ(found().health, Health::kWarning);  // neither
  EXPECT_THAT(found().seen, HasSubstr("transparent: not offered"));
  put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  EXPECT_EQ(found().health, Health::kOk);
  EXPECT_THAT(found().seen, HasSubstr("transparent: madvise"));
  put("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  EXPECT_EQ(found().health, Health::kWarning);
  put(pool + "/nr_hugepages", "100\n");
  put(pool + "/free_hugepages", "100\n");
  EXPECT_EQ(found().health, Health::kOk);
  EXPECT_THAT(found().seen, StartsWith("100 of 2 MiB set aside, 100 free"));
  put(pool + "/free_hugepages", "1\n");  // a pool that is used up
  EXPECT_EQ(found().health, Health::kWarning);
  EXPECT_THAT(found().remedy, StartsWith("sysctl vm.nr_hugepages=10"));  // the 99 in use, and some
}

TEST_F(DoctorChecks, LockedMemoryMattersWhereThereIsRdma) {
  put_limits("1024 4096", "8388608 8388608", "unlimited unlimited");
  EXPECT_EQ(check_locked_memory(files_, options_).health, Health::kOk);
  EXPECT_THAT(check_locked_memory(files_, options_).seen, HasSubstr("limit 8 MiB"));
  EXPECT_THAT(check_locked_memory(files_, options_).seen, HasSubstr("locks 16 MiB, and there is no RDMA device"));
  put_rdma_port("4: ACTIVE", "Ethernet", {kOfIpv4});
  EXPECT_EQ(check_locked_memory(files_, options_).health, Health::kProblem);
  EXPECT_THAT(check_locked_memory(files_, options_).remedy, HasSubstr("ulimit -l unlimited"));
  put("/proc/self/status", "Name:\tatoll\nCapEff:\t0000000000004000\n");  // root, or nearly
  EXPECT_EQ(check_locked_memory(files_, options_).health, Health::kOk);
  put("/proc/self/status", "Name:\tatoll\nCapEff:\t0000000000003fff\n");
  EXPECT_EQ(check_locked_memory(files_, options_).health, Health::kProblem);
  put_limits("1024 4096", "unlimited            unlimited", "unlimited unlimited");
  EXPECT_EQ(check_locked_memory(files_, options_).health, Health::kOk);
}

TEST_F(DoctorChecks, OpenFilesAreCountedInNodes) {
  put_limits("1024                 524288", "0 0", "unlimited unlimited");
  EXPECT_EQ(check_open_files(files_).health, Health::kOk);
  EXPECT_EQ(check_open_files(files_).seen,
            "soft limit 1024, hard 524288: enough for clusters of 149 nodes, of 1024 where `atoll run` starts them");
  put_limits("256 unlimited", "0 0", "unlimited unlimited");
  EXPECT_EQ(check_open_files(files_).health, Health::kWarning);
  put_limits("130 130", "0 0", "unlimited unlimited");
  EXPECT_EQ(check_open_files(files_).health, Health::kProblem);
  put_limits("64 64", "0 0", "unlimited unlimited");
  EXPECT_EQ(check_open_files(files_).health, Health::kProblem);
}

TEST_F(DoctorChecks, AddressSpaceIsReservedForEachNode) {
  put_limits("1024 4096", "0 0", "unlimited unlimited");
  EXPECT_EQ(check_address_space(files_).health, Health::kOk);
  EXPECT_THAT(check_address_space(files_).seen, HasSubstr("32 GiB for each node"));
  put_limits("1024 4096", "0 0", "1099511627776 unlimited");
  EXPECT_EQ(check_address_space(files_).health, Health::kWarning);
  put_limits("1024 4096", "0 0", "8589934592 8589934592");
  EXPECT_EQ(check_address_space(files_).health, Health::kProblem);
}

TEST_F(DoctorChecks, LimitsThatCannotBeReadAreSaidToBeUnknown) {
  EXPECT_EQ(check_open_files(files_).health, Health::kWarning);
  EXPECT_EQ(check_locked_memory(files_, options_).health, Health::kWarning);
  EXPECT_EQ(check_address_space(files_).health, Health::kWarning);
}

TEST_F(DoctorChecks, NoRdmaDeviceIsNoHarm) {
  const auto found = check_rdma(files_);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].health, Health::kOk);
  EXPECT_THAT(found[0].seen, StartsWith("none"));
}

TEST_F(DoctorChecks, RdmaPortsShowTheirGids) {
  put_rdma_port("4: ACTIVE", "Ethernet", {kLinkLocal, kOfIpv4, kOfIpv4, kOfIpv6, kNoGid, ""});
  put("/dev/infiniband/rdma_cm", "");
  put("/dev/infiniband/uverbs0", "");
  put("/dev/infiniband/issm0", "");
  const auto found = check_rdma(files_);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].what, "rxe0 port 1");
  EXPECT_EQ(found[0].health, Health::kOk);
  EXPECT_EQ(found[0].seen, "4: ACTIVE, Ethernet, 100 Gb/sec (4X EDR), GIDs of 10.77.0.1, fd00::7, 1 more");
  EXPECT_EQ(found[1].health, Health::kOk);
  EXPECT_EQ(found[1].seen, "rdma_cm, uverbs0 may be used");
}

TEST_F(DoctorChecks, RdmaPortsThatCannotBeUsedAreToldApart) {
  put_rdma_port("4: ACTIVE", "Ethernet", {kLinkLocal, kNoGid});
  EXPECT_EQ(check_rdma(files_)[0].health, Health::kWarning);
  EXPECT_THAT(check_rdma(files_)[0].remedy, HasSubstr("IP address"));
  put_rdma_port("4: ACTIVE", "InfiniBand", {kLinkLocal});  // the subnet manager's will do
  EXPECT_EQ(check_rdma(files_)[0].health, Health::kOk);
  put_rdma_port("1: DOWN", "Ethernet", {kOfIpv4});
  EXPECT_EQ(check_rdma(files_)[0].health, Health::kWarning);
  EXPECT_THAT(check_rdma(files_)[0].remedy, HasSubstr("ip link set"));
}

TEST_F(DoctorChecks, RdmaNeedsItsFiles) {
  put_rdma_port("4: ACTIVE", "Ethernet", {kOfIpv4});
  EXPECT_EQ(check_rdma(files_)[1].health, Health::kWarning);
  EXPECT_EQ(check_rdma(files_)[1].seen, "none may be used");
  put("/dev/infiniband/uverbs0", "");  // and no rdma_cm
  EXPECT_EQ(check_rdma(files_)[1].health, Health::kWarning);
  EXPECT_THAT(check_rdma(files_)[1].remedy, HasSubstr("rdma_ucm"));
}

TEST_F(DoctorChecks, ClockSourcesAreFastOrSlow) {
  const std::string folder = "/sys/devices/system/clocksource/clocksource0";
  EXPECT_EQ(check_clock_source(files_).health, Health::kWarning);
  put(folder + "/available_clocksource", "tsc hpet acpi_pm\n");
  put(folder + "/current_clocksource", "tsc\n");
  EXPECT_EQ(check_clock_source(files_).health, Health::kOk);
  put(folder + "/current_clocksource", "hpet\n");
  EXPECT_EQ(check_clock_source(files_).health, Health::kWarning);
  EXPECT_EQ(check_clock_source(files_).seen, "hpet (of tsc hpet acpi_pm)");
}

TEST_F(DoctorChecks, TheBootClockGoes) {
  const Finding found = check_boot_clock();
  EXPECT_NE(found.health, Health::kProblem) << found.seen;
  EXPECT_THAT(found.seen, StartsWith("resolution "));
}

TEST_F(DoctorChecks, PortsOfNodesAreARange) {
  EXPECT_EQ(check_port_range(files_).health, Health::kWarning);
  put("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
  EXPECT_EQ(check_port_range(files_).health, Health::kOk);
  EXPECT_THAT(check_port_range(files_).seen, StartsWith("32768 to 60999"));
  put("/proc/sys/net/ipv4/ip_local_port_range", "50000\t50100\n");
  EXPECT_EQ(check_port_range(files_).health, Health::kWarning);
}

TEST_F(DoctorChecks, APortThatIsTakenIsAProblem) {
  EXPECT_EQ(check_listen("127.0.0.1:0").health, Health::kOk);
  const cluster::TcpListener taken = cluster::listen_tcp({"127.0.0.1", 0});
  const Finding found = check_listen(taken.address.text());
  EXPECT_EQ(found.health, Health::kProblem);
  EXPECT_THAT(found.seen, HasSubstr("Address already in use"));
  EXPECT_EQ(check_listen("192.0.2.7:7470").health, Health::kProblem);  // of no host
}

TEST_F(DoctorChecks, AMasterThatDoesNotAnswerIsAProblem) {
  (void)::unsetenv("ATOLL_KEY_FILE");
  (void)::unsetenv("ATOLL_KEY");
  const cluster::TcpListener silent = cluster::listen_tcp({"127.0.0.1", 0});
  Finding found = check_master(silent.address.text(), 200ms);
  EXPECT_EQ(found.health, Health::kProblem);
  EXPECT_THAT(found.seen, HasSubstr("can be reached, but there is no cluster key"));
  const auto key = cluster::Key::generate();
  (void)::setenv("ATOLL_KEY", key.reveal().c_str(), 1);
  found = check_master(silent.address.text(), 200ms);
  EXPECT_EQ(found.health, Health::kProblem);
  EXPECT_THAT(found.seen, HasSubstr("did not finish the handshake in time"));
  EXPECT_THAT(found.seen, testing::Not(HasSubstr(key.reveal())));
  found = check_master("127.0.0.1:1", 200ms);
  EXPECT_EQ(found.health, Health::kProblem);
  EXPECT_THAT(found.remedy, HasSubstr("atoll master"));
  (void)::unsetenv("ATOLL_KEY");
  EXPECT_THAT(check_master("127.0.0.1:1", 200ms).seen, HasSubstr("Connection refused"));
  EXPECT_EQ(check_master("nonsense", 200ms).health, Health::kProblem);
}

TEST_F(DoctorChecks, TransportsThatAreRequiredMustBeThere) {
  EXPECT_TRUE(check_transport(files_, "shm", "", true).usable);
  EXPECT_TRUE(check_transport(files_, "tcp", "", false).usable);
  const std::string elsewhere = "192.0.2.7";
  EXPECT_EQ(check_transport(files_, "tcp", elsewhere, false).finding.health, Health::kWarning);
  EXPECT_THAT(check_transport(files_, "tcp", elsewhere, false).finding.remedy, HasSubstr("Is 192.0.2.7 an address"));
  const FoundTransport missing = check_transport(files_, "no-such-provider", "", true);
  EXPECT_FALSE(missing.usable);
  EXPECT_EQ(missing.finding.health, Health::kProblem);
  EXPECT_THAT(missing.finding.remedy, HasSubstr("no-such-provider"));
  EXPECT_EQ(check_transport(files_, "verbs", elsewhere, false).finding.health, Health::kOk);  // it has no device
  put_rdma_port("4: ACTIVE", "Ethernet", {kOfIpv4});
  EXPECT_EQ(check_transport(files_, "verbs", elsewhere, false).finding.health, Health::kWarning);
  EXPECT_EQ(check_transport(files_, "verbs", elsewhere, true).finding.health, Health::kProblem);
}

TEST_F(DoctorChecks, LibfabricTellsItsVersionAndProviders) {
  EXPECT_THAT(check_libfabric("").seen, testing::ContainsRegex("^[0-9]+\\.[0-9]+; providers that will do: .*tcp"));
}

}  // namespace
}  // namespace atoll::tools
