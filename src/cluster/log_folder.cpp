#include "cluster/log_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/log.hpp"
#include "base/units.hpp"
#include "cluster/control.hpp"
#include "cluster/output.hpp"

namespace atoll::cluster {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFileBytes = 64 * 1024;
constexpr std::size_t kMaxModeBytes = 16;

Error cannot(const char* what, const std::string& path) {
  return Error(fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)));
}

std::string file_of(const std::string& folder) {
  return folder + "/cluster.json";
}

/// Makes a folder, and those above it.
void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw Error(fmt::format("cannot make {}: {}", path, error.message()));
}

/// A start that failed leaves folders in which nothing was logged. `here`: as in ClusterShape.
bool has_logs(const std::string& folder, bool here) {
  if (!here) return fs::exists(file_of(folder));
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with("node-") || !entry.is_directory()) continue;
    for (const auto& file : fs::directory_iterator(entry.path(), error)) {
      const std::string name = file.path().filename().string();
      if (name.starts_with("log.") || name.starts_with("checkpoint")) return true;
    }
  }
  return false;
}

struct Recorded {
  ClusterShape shape;
  std::string mode;
};

Recorded read_shape(const std::string& path) {
  std::ifstream file(path);
  std::string text(kMaxFileBytes, '\0');
  file.read(text.data(), std::streamsize(text.size()));
  text.resize(std::size_t(file.gcount()));
  const Json body = Json::parse(text, nullptr, false);
  if (!body.is_object()) throw Error(fmt::format("{} does not say what the cluster was: it is no JSON object", path));
  Fields fields(body);
  ClusterShape shape;
  shape.nodes = NodeId(fields.number("nodes", kMaxNodes));
  shape.line_bytes = std::uint32_t(fields.number("line", UINT32_MAX));
  shape.memory_bytes = fields.number("memory");
  const std::string mode = fields.text("mode", kMaxModeBytes);
  if (!fields.ok()) throw Error(fmt::format("{} does not say what the cluster was: {}", path, fields.why()));
  return {shape, mode};
}

std::string json_of(const LogSpec& spec, const ClusterShape& shape) {
  const Json body = {
      {"nodes", shape.nodes}, {"line", shape.line_bytes}, {"memory", shape.memory_bytes}, {"mode", spec.mode}};
  return body.dump();
}

/// Nobody who had chosen power should lose it by a word that was forgotten.
void warn_of_mode(const std::string& was, const LogSpec& spec) {
  if (was != "power" || spec.mode != "process") return;
  spdlog::warn(
      "the logs in {} were written with --log power; with --log process, from here on, a power cut may take "
      "what was fenced",
      spec.directory);
}

void sync_folder(const std::string& path) {
  const base::Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid() || ::fsync(folder.get()) != 0) throw cannot("write the folder", path);
}

}  // namespace

LogFolder::LogFolder(const LogSpec& spec, const ClusterShape& shape)
    : path_(fs::absolute(spec.directory).lexically_normal().string()) {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  if (spec.recover && !has_logs(path_, shape.here)) {
    throw Error(fmt::format("there are no logs of a cluster in {}: without --recover a new one begins there", path_));
  }
  if (spec.recover && !fs::exists(file_of(path_))) {
    throw Error(
        fmt::format("{} is missing, which says of what cluster the logs in {} are: put it back, or write it "
                    "anew, as {}, if that is what they are of",
                    file_of(path_), path_, json_of(spec, shape)));
  }
  make_folder(path_);
  const std::string lock = path_ + "/lock";
  lock_ = base::Fd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_.valid()) throw cannot("open", lock);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) throw Error(fmt::format("another cluster runs with the logs in {}", path_));
    throw cannot("lock", lock);
  }
  if (spec.recover) {
    compare(spec, shape);
  } else {
    make(spec, shape);
  }
  write(spec, shape);
}

std::string LogFolder::of_node(NodeId node) const {
  return fmt::format("{}/node-{}", path_, node);
}

/// Before cluster.json: where that is, all folders are.
void LogFolder::make(const LogSpec& spec, const ClusterShape& shape) const {
  if (has_logs(path_, shape.here)) {
    throw Error(
        fmt::format("{} has the logs of a cluster already: go on from them with --recover, give another "
                    "--log-dir, or remove what is in it",
                    spec.directory));
  }
  for (NodeId k = 0; k < shape.nodes && shape.here; ++k) make_folder(of_node(k));
}

void LogFolder::compare(const LogSpec& spec, const ClusterShape& shape) const {
  const Recorded recorded = read_shape(file_of(path_));
  const ClusterShape& was = recorded.shape;
  const auto differ = [&](const std::string& theirs, const std::string& ours, const std::string& give) {
    return Error(
        fmt::format("the logs in {} are of a cluster with {}, this one has {}: give {}", path_, theirs, ours, give));
  };
  if (was.nodes != shape.nodes) {
    throw differ(fmt::format("{} nodes", was.nodes), std::to_string(shape.nodes), fmt::format("-n {}", was.nodes));
  }
  if (was.line_bytes != shape.line_bytes) {
    throw differ(fmt::format("lines of {} bytes", was.line_bytes), fmt::format("lines of {}", shape.line_bytes),
                 fmt::format("--line {}", was.line_bytes));
  }
  if (was.memory_bytes != shape.memory_bytes) {
    throw differ(fmt::format("{} of memory on each node", base::format_bytes(was.memory_bytes)),
                 base::format_bytes(shape.memory_bytes),
                 fmt::format("--memory {}", base::bytes_option(was.memory_bytes)));
  }
  for (NodeId k = 0; k < shape.nodes && shape.here; ++k) {
    if (!fs::is_directory(of_node(k))) throw Error(fmt::format("the log of node {} is not in {}", k, path_));
  }
  warn_of_mode(recorded.mode, spec);
}

/// The file is whole at any time.
void LogFolder::write(const LogSpec& spec, const ClusterShape& shape) const {
  const std::string path = file_of(path_), next = path + ".next";
  const base::Fd file(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid()) throw cannot("open", next);
  if (!write_all(file.get(), json_of(spec, shape) + "\n") || ::fsync(file.get()) != 0) throw cannot("write", next);
  if (::rename(next.c_str(), path.c_str()) != 0) throw cannot("replace", path);
  sync_folder(path_);
}

}  // namespace atoll::cluster
