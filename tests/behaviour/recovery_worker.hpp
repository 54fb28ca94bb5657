// What the loads of a kill test have in common.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "atoll/atoll.hpp"
#include "behaviour/recovery_load.hpp"

namespace atoll::test {

struct LoadSize {
  unsigned threads = 2;
  unsigned lines = 6;  // of accounts, of each node
  unsigned keys = 2000;
  std::uint64_t seed = 1;
};

/// What a thread does again and again. Throws Error when Atoll fails.
class Worker {
 public:
  virtual ~Worker() = default;
  virtual void step() = 0;
};

/// Thread-safety: `make_worker` may be called by any thread, all else by one.
class Load {
 public:
  Load(Node& node, const Journal& journal, std::string directory, const LoadSize& size)
      : node_(node), journal_(journal), directory_(std::move(directory)), size_(size) {}
  virtual ~Load() = default;
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  [[nodiscard]] const LoadSize& size() const noexcept { return size_; }
  /// Makes what is needed, or finds it, and puts right what was cut.
  virtual void begin() = 0;
  [[nodiscard]] virtual std::unique_ptr<Worker> make_worker(unsigned thread) = 0;
  /// Writes down all that there is, as this node reads it. REQUIRES: all workers of all nodes rest.
  virtual void dump(const std::string& path) = 0;

 protected:
  [[nodiscard]] unsigned worker_of(unsigned thread) const noexcept { return node_.id() * size_.threads + thread; }
  [[nodiscard]] unsigned workers() const noexcept { return node_.count() * size_.threads; }
  /// What must not be: the judge counts it as a loss.
  void complain(const std::string& what) const {
    append_line(complaints_path(directory_, node_.id()), "node " + std::to_string(node_.id()) + " found: " + what);
  }
  [[nodiscard]] GlobalAddress await(const std::string& name) {
    return node_.lookup(name, std::chrono::minutes(2)).value();
  }
  /// Of one worker, as the journal has them.
  [[nodiscard]] std::vector<Record> journal_of(unsigned worker) const {
    std::vector<Record> all = load_journal(directory_, node_.id());
    std::erase_if(all, [worker](const Record& record) { return record.worker != worker; });
    return all;
  }

  Node& node_;
  const Journal& journal_;
  const std::string directory_;
  const LoadSize size_;
};

/// A file that is there only when it is complete.
template <typename T>
void save_file(const std::string& path, const std::vector<T>& values) {
  const std::string hidden = path + ".part";
  const int file = ::open(hidden.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) throw Error("cannot make " + hidden);
  const char* at = reinterpret_cast<const char*>(values.data());
  for (std::size_t left = values.size() * sizeof(T); left > 0;) {
    const ssize_t done = ::write(file, at, left);
    if (done <= 0) throw Error("cannot write " + hidden);
    at += done;
    left -= std::size_t(done);
  }
  ::close(file);
  if (::rename(hidden.c_str(), path.c_str()) != 0) throw Error("cannot make " + path);
}

}  // namespace atoll::test
