#include "cluster/job.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/fd.hpp"
#include "cluster/launcher.hpp"

namespace atoll::cluster {
namespace {

constexpr const char* kJobVariable = "ATOLL_JOB";

/// A file that is gone when this object is.
class TemporaryFile {
 public:
  TemporaryFile() : path_((std::filesystem::temp_directory_path() / "atoll-job-XXXXXX").string()) {
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

/// None when nothing is logged.
std::optional<LogSpec> log_of(const Options& options) {
  switch (options.log) {
    case LogMode::kOff: return std::nullopt;
    case LogMode::kProcess:
      return LogSpec{"process", options.log_dir, options.log_bytes, options.recover, options.recover_after_reboot};
    case LogMode::kPower:
      return LogSpec{"power", options.log_dir, options.log_bytes, options.recover, options.recover_after_reboot};
  }
  return std::nullopt;
}

}  // namespace

std::vector<nlohmann::json> run_job(const std::vector<std::string>& arguments, NodeId nodes, const Options& options,
                                    nlohmann::json job) {
  const TemporaryFile results;
  job["results"] = results.path();
  LaunchSpec spec;
  spec.argv = {"/proc/self/exe"};
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  spec.nodes = nodes;
  spec.options = options;
  // What is measured or tested does not ask how nodes reach each other: the environment may say it for all of it.
  const Options surroundings = Options::from_environment();
  if (options.transport == Options().transport) spec.options.transport = surroundings.transport;
  if (options.address.empty()) spec.options.address = surroundings.address;
  spec.log = log_of(options);
  spec.prefix_output = false;
  spec.environment[kJobVariable] = job.dump();
  if (const int code = launch(spec); code != 0) {
    throw LaunchFailed(fmt::format("a cluster of {} nodes failed with code {}", nodes, code), code);
  }
  std::vector<nlohmann::json> found;
  std::ifstream file(results.path());
  for (std::string line; std::getline(file, line);) found.push_back(nlohmann::json::parse(line));
  return found;
}

std::string job_variable(const nlohmann::json& job) {
  return fmt::format("{}={}", kJobVariable, job.dump());
}

nlohmann::json current_job() {
  const char* text = std::getenv(kJobVariable);
  if (text == nullptr) throw Error("this subcommand is started by `atoll` itself, not by hand");
  return nlohmann::json::parse(text);
}

void report(const nlohmann::json& job, const nlohmann::json& result) {
  const auto path = job.at("results").get<std::string>();
  std::ofstream file(path, std::ios::app);
  file << result.dump() << '\n';
  file.close();
  if (!file) throw Error(fmt::format("cannot write {}", path));
}

}  // namespace atoll::cluster
