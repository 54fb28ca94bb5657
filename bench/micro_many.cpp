#include "bench/micro_many.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "atoll/atoll.hpp"
#include "base/random.hpp"
#include "bench/harness.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {
namespace {

constexpr std::uint64_t kCrowdCache = 4u << 20;
constexpr std::uint64_t kCrowdSet = 2 * kCrowdCache;
constexpr int kCrowdCores = 2;

/// An array on node 0 with a word for each node.
global_ptr<std::uint64_t> shared_words(Node& node) {
  if (node.id() == 0) {
    node.publish("words", node.allocate<std::uint64_t>(node.count(), Placement::local()).value().address()).or_throw();
  }
  return global_ptr<std::uint64_t>(node.lookup("words").value());
}

/// The CPU time that a process has used so far, in seconds.
double cpu_seconds(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (const int error = ::clock_getcpuclockid(pid, &clock); error != 0) {
    throw Error(fmt::format("no CPU time of process {}: {}", pid, std::strerror(error)));
  }
  if (::clock_gettime(clock, &time) != 0) throw Error(fmt::format("no CPU time of process {}", pid));
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

double cpu_seconds(const std::vector<pid_t>& processes) {
  double total = 0;
  for (const pid_t pid : processes) total += cpu_seconds(pid);
  return total;
}

/// Keeps this process on the first two CPUs that it may use; its later threads inherit that.
void use_two_cores() {
  cpu_set_t allowed, chosen;
  CPU_ZERO(&chosen);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) throw Error("sched_getaffinity failed");
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&chosen) < kCrowdCores; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &chosen);
  }
  if (::sched_setaffinity(0, sizeof(chosen), &chosen) != 0) throw Error("sched_setaffinity failed");
}

/// A working set that is spread evenly over the other nodes' memory.
std::vector<global_ptr<std::uint64_t>> allocate_on_others(Node& node, std::uint64_t words_each) {
  std::vector<global_ptr<std::uint64_t>> parts;
  for (NodeId home = 0; home < node.count(); ++home) {
    if (home == node.id()) continue;
    parts.push_back(node.allocate<std::uint64_t>(words_each, Placement::on(home)).value());
  }
  return parts;
}

}  // namespace

Options idle_options() {
  Options options;
  options.memory_bytes = 64u << 20;
  options.cache_bytes = 16u << 20;
  return options;
}

Options crowd_options() {
  Options options;
  options.memory_bytes = 64u << 20;
  options.cache_bytes = kCrowdCache;
  return options;
}

void run_idle_node(const nlohmann::json& job) {
  const auto duration = std::chrono::duration<double>(job.at("seconds").get<double>());
  Node node;
  const auto pids = shared_words(node);
  node.write(pids + node.id(), std::uint64_t(::getpid())).or_throw();
  node.barrier().or_throw();
  if (node.id() == 0) {
    std::vector<pid_t> processes = {::getppid()};  // the launcher
    for (NodeId i = 0; i < node.count(); ++i) processes.push_back(pid_t(node.read(pids + i).value()));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until the others have fallen asleep
    Samples samples{"idle", node.count(), {}, {}};
    for (int i = 0; i < job.at("repetitions").get<int>(); ++i) {
      const double before = cpu_seconds(processes);
      const Clock::time_point start = Clock::now();
      std::this_thread::sleep_for(duration);
      samples.values.push_back((cpu_seconds(processes) - before) / seconds_since(start));
      samples.baselines.push_back(1.0);
    }
    cluster::report(job, samples);
  }
  node.barrier().or_throw();
}

void run_crowd_node(const nlohmann::json& job) {
  use_two_cores();
  const double duration = job.at("seconds").get<double>();
  Node node;
  const auto counts = shared_words(node);
  const std::uint64_t others = node.count() - 1u;
  const std::uint64_t words_each = kCrowdSet / sizeof(std::uint64_t) / others;
  const auto parts = allocate_on_others(node, words_each);
  base::Random random(node.id() + 1u);
  const auto read_some = [&](std::uint64_t reads) {
    std::uint64_t total = 0;
    for (std::uint64_t i = 0; i < reads; ++i) {
      total += node.read(parts[random.below(others)] + std::int64_t(random.below(words_each))).value();
    }
    keep(total);
  };
  // Half of the set, which fills the cache. (Reads alone would take their time: many are done in place.)
  for (const auto& part : parts) node.prefetch(part.address(), words_each / 2 * sizeof(std::uint64_t)).or_throw();
  read_some(2 * kCrowdCache / node.line_bytes());
  node.barrier().or_throw();
  const Clock::time_point start = Clock::now();
  std::uint64_t reads = 0;
  double took = 0;
  do {
    constexpr std::uint64_t kBatch = 64;
    read_some(kBatch);
    reads += kBatch;
    took = seconds_since(start);
  } while (took < duration);
  node.write(counts + node.id(), std::uint64_t(double(reads) / took)).or_throw();
  node.barrier().or_throw();
  if (node.id() != 0) return;
  double rate = 0;
  for (NodeId i = 0; i < node.count(); ++i) rate += double(node.read(counts + i).value()) / 1e6;
  cluster::report(job, Samples{"crowd", node.count(), {rate}, {}});
}

}  // namespace atoll::bench
