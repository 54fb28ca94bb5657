// Work for clusters of this very program, as `atoll bench` and `atoll litmus` start them: what they shall do goes to
// them as JSON in the environment, what they found comes back as JSON lines in a file.
#pragma once

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "atoll/options.hpp"
#include "atoll/status.hpp"

namespace atoll::cluster {

/// Thrown when a cluster did not end well; `code` is what the command shall exit with.
class LaunchFailed : public Error {
 public:
  LaunchFailed(const std::string& what, int code) : Error(what), code_(code) {}
  [[nodiscard]] int code() const noexcept { return code_; }
  /// The user wants all of it to end.
  [[nodiscard]] bool interrupted() const noexcept {
    return code_ == 128 + SIGINT || code_ == 128 + SIGTERM || code_ == 128 + SIGHUP;
  }

 private:
  int code_;
};

/// Runs this program with the given arguments on `nodes` nodes with `job`, and returns the objects that they reported.
/// Where nodes log, `options.log_dir` is the folder of all of them. Throws LaunchFailed.
std::vector<nlohmann::json> run_job(const std::vector<std::string>& arguments, NodeId nodes, const Options& options,
                                    nlohmann::json job);

/// What a process of this program that is not a node of a cluster must have in its environment to find `job`:
/// NAME=VALUE.
std::string job_variable(const nlohmann::json& job);

/// In a node: what it was given. Throws Error when this process was not started by run_job.
nlohmann::json current_job();
/// In a node: hands `result` to run_job.
void report(const nlohmann::json& job, const nlohmann::json& result);

}  // namespace atoll::cluster
