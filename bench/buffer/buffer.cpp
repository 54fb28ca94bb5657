#include "bench/buffer/buffer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "atoll/options.hpp"
#include "bench/buffer/work.hpp"
#include "bench/folder.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {
namespace {

constexpr const char* kSuite = "buffer";

constexpr Bar kNoBar{};
constexpr Bar at_most(double limit) {
  return {Bar::Side::kAtMost, limit};
}
constexpr Bar at_least(double limit) {
  return {Bar::Side::kAtLeast, limit};
}

struct BufferCase {
  const char* group;
  CaseInfo info;
  unsigned threads = 1;
};
/// In the order of the table; docs/benchmarks.md explains them.
constexpr BufferCase kCases[] = {
    {"paper", {"mem_read_local", "ns", "native loop", false, kNoBar}},
    {"paper", {"mem_read_remote", "ns", "mem_read_local", false, kNoBar}},
    {"paper", {"mem_read_cached", "ns", "mem_read_local", false, kNoBar}},
    {"paper", {"mem_write_local", "ns", "native loop", false, kNoBar}},
    {"paper", {"mem_write_remote", "ns", "mem_write_local", false, kNoBar}},
    {"paper", {"mem_write_cached", "ns", "mem_write_local", false, kNoBar}},
    {"paper", {"file_read_local", "ns", "mem_read_local", false, kNoBar}},
    {"paper", {"file_read_remote", "ns", "file_read_local", false, kNoBar}},
    {"paper", {"file_read_cached", "ns", "file_read_local", false, kNoBar}},
    {"paper", {"file_write_local", "ns", "mem_write_local", false, kNoBar}},
    {"paper", {"file_write_remote", "ns", "file_write_local", false, kNoBar}},
    {"hash", {"hash_insert_fits", "us", "update, fits", false, kNoBar}},
    {"hash", {"hash_insert", "us", "a table that fits", false, kNoBar}},
    {"hash", {"hash_update", "us", "a table that fits", false, kNoBar}},
    {"hash_alone", {"hash_insert_alone", "us", "a table that fits", false, kNoBar}},
    {"hash_alone", {"hash_update_alone", "us", "a table that fits", false, kNoBar}},
    {"frames", {"frames_1_30", "us", "a read of the disk", false, kNoBar}},
    {"frames", {"frames_31_60", "us", "a read of the disk", false, kNoBar}},
    {"frames", {"frames_61_300", "us", "a read of the disk", false, kNoBar}},
    {"frames", {"frames_set_30", "us", "a read of the disk", false, kNoBar}},
    {"frames", {"frames_set_60", "us", "a read of the disk", false, kNoBar}},
    {"frames", {"frames_set_300", "us", "a read of the disk", false, kNoBar}},
    {"hits", {"hit", "ns", "30 ns", false, at_most(1)}},
    {"hits", {"hit_read", "ns", "optimistic read", false, at_most(3)}},
    {"hits", {"hit_mutex", "ns", "std::shared_mutex", false, kNoBar}},
    {"hits", {"hit_threads", "Mops/s", "1 thread", true, at_least(1.8)}, 2},
    {"hits", {"hit_threads_shared", "Mops/s", "1 thread", true, kNoBar}, 2},
    {"hits", {"read_threads_shared", "Mops/s", "1 thread", true, kNoBar}, 2},
    {"hits", {"mutex_threads", "Mops/s", "1 thread", true, kNoBar}, 2},
    {"disk", {"disk_1", "kIOPS", "io_uring", true, at_least(0.85)}},
    {"disk", {"disk_8", "kIOPS", "io_uring", true, at_least(0.85)}},
    {"disk", {"disk_32", "kIOPS", "io_uring", true, at_least(0.85)}},
    {"disk", {"disk_8_threads", "kIOPS", "io_uring", true, at_least(0.85)}, 2},
    {"disk", {"disk_32_threads", "kIOPS", "io_uring", true, at_least(0.85)}, 2},
    {"disk", {"disk_1_pages", "kops/s", "io_uring", true, kNoBar}},
    {"disk", {"disk_8_pages", "kops/s", "io_uring", true, kNoBar}},
    {"disk", {"disk_32_pages", "kops/s", "io_uring", true, kNoBar}},
    {"disk", {"disk_1_fio", "kIOPS", "fio", true, kNoBar}},
    {"disk", {"disk_8_fio", "kIOPS", "fio", true, kNoBar}},
    {"disk", {"disk_32_fio", "kIOPS", "fio", true, kNoBar}},
    {"remote", {"remote_frame", "us", "from the disk", false, kNoBar}},
    {"set", {"set_reads", "/1000", "1 node", false, at_most(0)}},
    {"set", {"set_rate", "kops/s", "1 node", true, kNoBar}},
    {"set_equal", {"set_equal_reads", "/1000", "1 node", false, kNoBar}},
    {"set_equal", {"set_equal_rate", "kops/s", "1 node", true, kNoBar}},
    {"rivals", {"mmap_4x", "kops/s", "mmap", true, kNoBar}},
    {"rivals", {"lmdb_key_4x", "kops/s", "LMDB", true, kNoBar}},
    {"rivals", {"lmdb_tree_4x", "kops/s", "LMDB", true, kNoBar}},
    {"rivals", {"lmdb_key_fits", "kops/s", "LMDB", true, kNoBar}},
    {"rivals", {"lmdb_tree_fits", "kops/s", "LMDB", true, kNoBar}},
};

/// What a group's nodes are started with. `frames`: pages that have room in the memory of their home.
struct GroupInfo {
  const char* name;
  NodeId nodes;
  std::uint64_t frames, quick_frames;
};
constexpr std::uint64_t kLeastFrames = 32;  // no node can have fewer
constexpr GroupInfo kGroups[] = {
    {"paper", 2, 4096, 4096},      {"hash", 2, 4096, 1024},
    {"hash_alone", 1, 4096, 1024}, {"frames", 2, kLeastFrames, kLeastFrames},
    {"hits", 1, 4096, 4096},       {"disk", 1, 16384, 4096},
    {"remote", 2, 512, 512},       {"set", 2, 2048, 512},
    {"set_equal", 2, 2048, 512},   {"rivals", 1, 16384, 2048},
};

/// The launches of one `atoll bench buffer`, and what came out of them.
///
/// Thread-safety: none.
class BufferRun {
 public:
  explicit BufferRun(const BufferSettings& settings) : settings_(settings.common), where_(settings.directory) {
    repetitions_ = settings_.repetitions > 0 ? settings_.repetitions : (settings_.quick ? 3 : 5);
    for (const BufferCase& one : kCases) {
      const auto& wanted = settings_.cases;
      const std::string name(one.info.name);
      if (wanted.empty() || std::count(wanted.begin(), wanted.end(), name) > 0) cases_[one.group].push_back(name);
    }
  }

  /// 0, or the code of the first launch that failed; that does not keep the others from running.
  int run() {
    Progress progress(0, int(cases_.size()));
    for (const GroupInfo& group : kGroups) {
      if (cases_.count(group.name) == 0) continue;
      progress.begin(group.name);
      try {
        run_group(group, progress);
      } catch (const cluster::LaunchFailed& failure) {
        fmt::print(stderr, "atoll bench: {}: {}\n", group.name, failure.what());
        if (code_ == 0) code_ = failure.code();
        if (failure.interrupted()) break;
      }
    }
    return code_;
  }

  [[nodiscard]] std::vector<Record> records() const {
    std::vector<Record> result;
    for (const BufferCase& one : kCases) {
      const auto found = samples_.find(std::string(one.info.name));
      if (found == samples_.end() || found->second.values.empty()) continue;
      result.push_back(make_record(kSuite, one.info, found->second));
      result.back().threads = one.threads;
    }
    return result;
  }

 private:
  [[nodiscard]] std::uint64_t frames_of(const GroupInfo& group) const {
    return settings_.quick ? group.quick_frames : group.frames;
  }

  /// Every node has the same memory for pages: as frames for its own files, and as a cache for pages of others; but
  /// where that cache shall not be what there is too little of.
  [[nodiscard]] Options options_of(const GroupInfo& group) const {
    Options options;
    options.memory_bytes = 32u << 20;
    options.file_space_bytes = 4ull << 30;
    options.file_memory_bytes = frames_of(group) * kPageBytes;
    options.cache_bytes = options.file_memory_bytes;
    options.evict_below_percent = 0;  // all of the cache may be used
    const std::string_view name = group.name;
    if (name == "remote" || name == "paper") options.cache_bytes = 32u << 20;  // all that there is
    if (name == "set") options.cache_bytes *= 2;
    return options;
  }

  void run_group(const GroupInfo& group, Progress& progress) {
    if (std::string_view(group.name).starts_with("set")) return run_sets(group, progress);
    for (const nlohmann::json& result : launch(group, group.nodes)) {
      auto samples = result.get<Samples>();
      samples_[samples.name] = samples;
    }
  }

  std::vector<nlohmann::json> launch(const GroupInfo& group, NodeId nodes) {
    const Folder folder(where_);
    const nlohmann::json job = {{"group", group.name},         {"cases", cases_.at(group.name)},
                                {"repetitions", repetitions_}, {"quick", settings_.quick},
                                {"frames", frames_of(group)},  {"folder", folder.path()}};
    return cluster::run_job({"bench-node", kSuite}, nodes, options_of(group), job);
  }

  /// Two nodes and one take turns.
  void run_sets(const GroupInfo& group, Progress& progress) {
    const std::string name = group.name;
    Samples reads{name + "_reads", group.nodes, {}, {}}, rate{name + "_rate", group.nodes, {}, {}};
    for (int i = 0; i < repetitions_; ++i) {
      progress.step(i + 1, repetitions_);
      const nlohmann::json two = launch(group, group.nodes).at(0), one = launch(group, 1).at(0);
      reads.values.push_back(two.at("reads").get<double>());
      reads.baselines.push_back(one.at("reads").get<double>());
      rate.values.push_back(two.at("rate").get<double>());
      rate.baselines.push_back(one.at("rate").get<double>());
    }
    for (const Samples& samples : {reads, rate}) {
      const auto& wanted = cases_.at(group.name);
      if (std::count(wanted.begin(), wanted.end(), samples.name) > 0) samples_[samples.name] = samples;
    }
  }

  const Settings& settings_;
  const std::string where_;
  int repetitions_ = 1;
  int code_ = 0;
  std::map<std::string, std::vector<std::string>> cases_;  // by group
  std::map<std::string, Samples> samples_;
};

}  // namespace

std::vector<std::string> buffer_cases() {
  std::vector<std::string> names;
  for (const BufferCase& one : kCases) names.emplace_back(one.info.name);
  return names;
}

int run_buffer(const BufferSettings& settings) {
  const std::string& json = settings.common.json;
  if (!json.empty()) write_json_lines(json, {});  // complain now, not after a minute
  warn_if_busy();
  BufferRun run(settings);
  const int code = run.run();
  const std::vector<Record> records = run.records();
  if (!records.empty()) print_table(records);
  if (!json.empty()) write_json_lines(json, records);
  return code;
}

void run_buffer_node() {
  const nlohmann::json job = cluster::current_job();
  const auto group = job.at("group").get<std::string>();
  Node node;
  BufferWork work(node, job);
  if (group == "hits") return run_hits(work);
  if (group == "disk") return run_disk(work);
  if (group == "frames") return run_frames(work);
  if (group == "remote") return run_remote(work);
  if (group == "set" || group == "set_equal") return run_set(work);
  if (group == "paper") return run_paper(work);
  if (group == "hash" || group == "hash_alone") return run_hash(work);
  if (group == "rivals") return run_rivals(work);
  throw Error(fmt::format("there is no group {}", group));
}

}  // namespace atoll::bench
