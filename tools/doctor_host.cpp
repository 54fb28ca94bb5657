// The machine itself: processors, memory, limits.
#include <fmt/format.h>
#include <linux/membarrier.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "atoll/detail/line.hpp"
#include "base/units.hpp"
#include "cluster/control.hpp"
#include "doctor_checks.hpp"
#include "memory/segment.hpp"

namespace atoll::tools {
namespace {

constexpr std::uint64_t kHugePage = 2 << 20;
constexpr std::uint64_t kOfiBuffers = 4 << 20;  // what a node registers besides its segment, in a cluster of a few
constexpr std::uint64_t kUnlimited = UINT64_MAX;
constexpr unsigned kIpcLock = 14;  // the capability to lock any amount
// As `atoll run` reckons: so many open files for each node of the cluster, and some for everything else.
constexpr std::uint64_t kFilesPerNode = 6, kOtherFiles = 128;
constexpr std::uint64_t kUsualFiles = 1024;

std::uint64_t number_in(const std::string& text, int base = 10) {
  std::uint64_t value = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

struct Limit {
  std::uint64_t soft = kUnlimited, hard = kUnlimited;
};

/// A row of /proc/self/limits; none where it cannot be read.
std::optional<Limit> limit_of(const HostFiles& files, const std::string& row) {
  const std::string text = files.value_of("/proc/self/limits", row);
  if (text.empty()) return {};
  const auto number = [](const std::string& word) {
    return word.starts_with("unlimited") ? kUnlimited : number_in(word);
  };
  const std::size_t blank = text.find(' ');
  return Limit{number(text), blank == std::string::npos ? kUnlimited : number(trimmed(text.substr(blank)))};
}

Finding unreadable(const char* what) {
  return {Health::kWarning, what, "/proc/self/limits does not say", "mount /proc"};
}

std::string bytes_text(std::uint64_t limit) {
  return limit == kUnlimited ? "unlimited" : base::format_bytes(limit);
}

std::string count_text(std::uint64_t limit) {
  return limit == kUnlimited ? "unlimited" : std::to_string(limit);
}

std::string sizes_text(const Options& options) {
  return fmt::format("memory {}, cache {}", base::format_bytes(options.memory_bytes),
                     base::format_bytes(options.cache_bytes));
}

/// How large a cluster may be with so many open files.
std::uint64_t nodes_with(std::uint64_t files) {
  if (files < kOtherFiles) return 0;
  return std::min<std::uint64_t>((files - kOtherFiles) / kFilesPerNode, cluster::kMaxNodes);
}

/// The word in brackets of "always [madvise] never"; empty where there is none.
std::string chosen_in(const std::string& text) {
  const std::size_t begin = text.find('['), end = text.find(']');
  return begin == std::string::npos || end == std::string::npos || end < begin
             ? ""
             : text.substr(begin + 1, end - begin - 1);
}

struct HugePages {
  std::uint64_t pool = 0, free = 0;
};

HugePages huge_pages(const HostFiles& files) {
  const std::string folder = "/sys/kernel/mm/hugepages/hugepages-2048kB";
  return {number_in(files.line(folder + "/nr_hugepages")), number_in(files.line(folder + "/free_hugepages"))};
}

std::uint64_t pages_for(std::uint64_t bytes) {
  return (bytes + kHugePage - 1) / kHugePage;
}

/// Is there memory for a segment of so many bytes?
Finding check_room(const HostFiles& files, const Options& options, std::uint64_t bytes) {
  const std::uint64_t available = number_in(files.value_of("/proc/meminfo", "MemAvailable:")) << 10;
  std::string seen = fmt::format("a node ({}) has a segment of {}; available: {}", sizes_text(options),
                                 base::format_bytes(bytes), available == 0 ? "?" : base::format_bytes(available));
  struct statvfs shm {};
  if (::statvfs((files.root + "/dev/shm").c_str(), &shm) == 0) {
    seen += fmt::format("; /dev/shm, which is not used: {}, {} free", base::format_bytes(shm.f_blocks * shm.f_frsize),
                        base::format_bytes(shm.f_bavail * shm.f_frsize));
  }
  const bool enough = available == 0 || available >= bytes || huge_pages(files).free >= pages_for(bytes);
  return {enough ? Health::kOk : Health::kWarning, "memory", std::move(seen),
          "less ATOLL_MEMORY and ATOLL_CACHE, or more memory: a node that uses all of its segment will be killed"};
}

Finding check_huge_pages(const HostFiles& files, std::uint64_t bytes) {
  const auto [pool, free] = huge_pages(files);
  const std::string transparent = chosen_in(files.line("/sys/kernel/mm/transparent_hugepage/enabled"));
  const std::uint64_t wanted = pages_for(bytes);
  const bool joined = pool == 0 && !transparent.empty() && transparent != "never";  // as good, for the cache
  return {
      free >= wanted || joined ? Health::kOk : Health::kWarning, "huge pages",
      fmt::format("{} of 2 MiB set aside, {} free; a node's segment takes {}, if there are so many; transparent: {}",
                  pool, free, wanted, transparent.empty() ? "not offered" : transparent),
      fmt::format("sysctl vm.nr_hugepages={}, for one more node: random access is faster with them",
                  pool - std::min(pool, free) + wanted)};
}

}  // namespace

std::string HostFiles::line(const std::string& path) const {
  std::ifstream file(root + path);
  std::string text;
  std::getline(file, text);
  return trimmed(text);
}

std::string HostFiles::value_of(const std::string& path, const std::string& word) const {
  std::ifstream file(root + path);
  for (std::string text; std::getline(file, text);) {
    if (text.starts_with(word)) return trimmed(text.substr(word.size()));
  }
  return {};
}

std::vector<std::string> HostFiles::names(const std::string& path) const {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root + path, error)) {
    found.push_back(entry.path().filename().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

Finding check_processors(const HostFiles& files, unsigned processors) {
  const double load = std::strtod(files.line("/proc/loadavg").c_str(), nullptr);
  const bool busy = load >= processors;
  return {processors > 1 && !busy ? Health::kOk : Health::kWarning, "processors",
          fmt::format("{} for this process, load {:.1f}", processors, load),
          busy ? "other work takes them: whatever is measured here will be better without it"
               : "give nodes two or more: with one, each waits for the other's time slice"};
}

Finding check_membarrier() {
  const long barriers = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  const bool there = barriers > 0 && (barriers & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
  return {there ? Health::kOk : Health::kWarning, "membarrier", there ? "yes" : "no: every access costs a fence",
          "a kernel from 4.14 on that has it, and let the container's seccomp filter pass it"};
}

std::vector<Finding> check_memory(const HostFiles& files, const Options& options) {
  try {
    const std::uint64_t bytes = memory::Segment::create(options, 2).layout().total_bytes;
    return {check_room(files, options, bytes), check_huge_pages(files, bytes)};
  } catch (const Error& error) {
    return {{Health::kProblem, "memory", error.what(), "less ATOLL_MEMORY and ATOLL_CACHE, or higher limits"}};
  }
}

Finding check_open_files(const HostFiles& files) {
  const auto limit = limit_of(files, "Max open files");
  if (!limit) return unreadable("open files");
  const std::uint64_t here = nodes_with(limit->hard), elsewhere = nodes_with(limit->soft);
  const Health health = here < 2 ? Health::kProblem : limit->soft < kUsualFiles ? Health::kWarning : Health::kOk;
  return {
      health, "open files",
      fmt::format("soft limit {}, hard {}: enough for clusters of {} nodes, of {} where `atoll run` starts them",
                  count_text(limit->soft), count_text(limit->hard), elsewhere, here),
      fmt::format("ulimit -n {}, or LimitNOFILE={} in the systemd unit",
                  cluster::kMaxNodes * kFilesPerNode + kOtherFiles, cluster::kMaxNodes * kFilesPerNode + kOtherFiles)};
}

Finding check_locked_memory(const HostFiles& files, const Options& options) {
  const auto limit = limit_of(files, "Max locked memory");
  if (!limit) return unreadable("locked memory");
  const std::uint64_t wanted = options.memory_bytes + options.cache_bytes + kOfiBuffers;
  const bool any = (number_in(files.value_of("/proc/self/status", "CapEff:"), 16) >> kIpcLock & 1) != 0;
  const bool devices = !files.names("/sys/class/infiniband").empty();
  const bool enough = limit->soft >= wanted || any;
  std::string seen = fmt::format("limit {}{}; over RDMA a node ({}) locks {}", bytes_text(limit->soft),
                                 any && limit->soft < wanted ? ", which does not bind this user (CAP_IPC_LOCK)" : "",
                                 sizes_text(options), base::format_bytes(wanted));
  if (!enough && !devices) seen += ", and there is no RDMA device";
  return {enough || !devices ? Health::kOk : Health::kProblem, "locked memory", std::move(seen),
          "ulimit -l unlimited (/etc/security/limits.conf: memlock), or LimitMEMLOCK=infinity in the systemd unit"};
}

Finding check_address_space(const HostFiles& files) {
  const auto limit = limit_of(files, "Max address space");
  if (!limit) return unreadable("address space");
  constexpr std::uint64_t kPerNode = 2 * sizeof(detail::HotWord) << (GlobalAddress::kNodeShift - detail::kHotShift);
  const std::uint64_t nodes = limit->soft / kPerNode;
  const Health health = limit->soft == kUnlimited ? Health::kOk : nodes < 2 ? Health::kProblem : Health::kWarning;
  return {health, "address space",
          fmt::format("limit {}; each node reserves {} for each node of its cluster", bytes_text(limit->soft),
                      base::format_bytes(kPerNode)),
          "ulimit -v unlimited: address space that is reserved takes no memory"};
}

}  // namespace atoll::tools
