#include "bench/job.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/fd.hpp"
#include "cluster/launcher.hpp"

namespace atoll::bench {
namespace {

constexpr const char* kJobVariable = "ATOLL_BENCH_JOB";

/// A file that is gone when this object is.
class TemporaryFile {
 public:
  TemporaryFile() : path_((std::filesystem::temp_directory_path() / "atoll-bench-XXXXXX").string()) {
    const base::Fd fd(::mkstemp(path_.data()));
    if (!fd.valid()) throw Error(fmt::format("cannot make {}: {}", path_, std::strerror(errno)));
  }
  ~TemporaryFile() { (void)::unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace

std::vector<nlohmann::json> run_job(std::string_view suite, NodeId nodes, const Options& options, nlohmann::json job) {
  const TemporaryFile results;
  job["results"] = results.path();
  cluster::LaunchSpec spec;
  spec.argv = {"/proc/self/exe", "bench-node", std::string(suite)};
  spec.nodes = nodes;
  spec.options = options;
  spec.prefix_output = false;
  spec.environment[kJobVariable] = job.dump();
  if (const int code = cluster::launch(spec); code != 0) {
    throw LaunchFailed(fmt::format("a cluster of {} nodes failed with code {}", nodes, code), code);
  }
  std::vector<nlohmann::json> found;
  std::ifstream file(results.path());
  for (std::string line; std::getline(file, line);) found.push_back(nlohmann::json::parse(line));
  return found;
}

nlohmann::json current_job() {
  const char* text = std::getenv(kJobVariable);
  if (text == nullptr) throw Error("bench-node is started by `atoll bench`, not by hand");
  return nlohmann::json::parse(text);
}

void report(const nlohmann::json& job, const nlohmann::json& result) {
  const auto path = job.at("results").get<std::string>();
  std::ofstream file(path, std::ios::app);
  file << result.dump() << '\n';
  file.close();
  if (!file) throw Error(fmt::format("cannot write {}", path));
}

}  // namespace atoll::bench
