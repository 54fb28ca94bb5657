#include "cluster/record_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cluster/lease_frames.hpp"

namespace atoll::cluster {
namespace {

constexpr std::size_t kMaxRecordBytes = 1 << 20;

Error cannot(const char* what, const std::string& path) {
  return Error(fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)));
}

void write_whole(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t done = ::write(fd, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw cannot("write", path);
    text.remove_prefix(std::size_t(done));
  }
}

}  // namespace

RecordFile::RecordFile(std::string path, NodeId nodes) : path_(std::move(path)) {
  const std::string lock = path_ + ".lock";
  lock_ = base::Fd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_.valid()) throw cannot("open", lock);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) throw Error(fmt::format("another master runs with {}", path_));
    throw cannot("lock", lock);
  }
  read(nodes);
}

void RecordFile::read(NodeId nodes) {
  std::ifstream file(path_);
  if (!file) {
    if (std::filesystem::exists(path_)) throw Error(fmt::format("cannot read {}", path_));
    return;
  }
  std::string text(kMaxRecordBytes, '\0');
  file.read(text.data(), std::streamsize(text.size()));
  text.resize(std::size_t(file.gcount()));
  const Json body = Json::parse(text, nullptr, false);
  std::string why = "it is no JSON object";
  if (body.is_object()) found_ = record_of(body, nodes, why);
  if (!found_) {
    throw Error(
        fmt::format("{} is no record of a cluster of {} nodes: {}. If the cluster that it was of is over, "
                    "remove it",
                    path_, nodes, why));
  }
}

void RecordFile::write(const LeaseRecord& record) {
  const std::string next = path_ + ".next";
  const base::Fd file(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid()) throw cannot("open", next);
  write_whole(file.get(), to_json(record).dump() + "\n", next);
  if (::fsync(file.get()) != 0) throw cannot("write", next);
  if (::rename(next.c_str(), path_.c_str()) != 0) throw cannot("replace", path_);
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  const base::Fd directory(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || ::fsync(directory.get()) != 0) throw cannot("write the folder of", path_);
}

void RecordFile::remove() noexcept {
  (void)::unlink(path_.c_str());
}

}  // namespace atoll::cluster
