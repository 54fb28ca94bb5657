#include "bench/buffer/raw_reads.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/fd.hpp"
#include "bench/buffer/pages.hpp"
#include "bench/buffer/work.hpp"

namespace atoll::bench {
namespace {

/// Where a file system knows no O_DIRECT (tmpfs), the pool reads through the page cache too.
base::Fd open_direct(const std::string& path) {
  base::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  if (!fd.valid()) fd = base::Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) throw Error(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  return fd;
}

/// One thread's ring, with `depth` reads under way as long as it runs.
///
/// Thread-safety: none.
class Ring {
 public:
  Ring(const RawReads& reads, std::uint64_t seed)
      : fd_(open_direct(reads.path)),
        random_(reads.pages, seed),
        wanted_(reads.depth),
        memory_(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, reads.depth * kPageBytes)), &std::free) {
    if (const int made = ::io_uring_queue_init(reads.depth, &ring_, 0); made < 0) {
      throw Error(fmt::format("there is no io_uring here: {}", std::strerror(-made)));
    }
  }
  ~Ring() {
    io_uring_cqe* cqe = nullptr;
    while (under_way_ > 0 && ::io_uring_submit(&ring_) >= 0 && ::io_uring_wait_cqe(&ring_, &cqe) == 0) seen(cqe);
    ::io_uring_queue_exit(&ring_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// How many reads it did.
  std::uint64_t run(double seconds) {
    const Clock::time_point begun = Clock::now();
    std::uint64_t done = 0;
    for (unsigned slot = 0; slot < wanted_.size(); ++slot) begin(slot);
    while (seconds_since(begun) < seconds) {
      wait();
      for (io_uring_cqe* cqe = nullptr; ::io_uring_peek_cqe(&ring_, &cqe) == 0; ++done) begin(end(cqe));
    }
    return done;
  }

 private:
  void wait() {
    if (const int sent = ::io_uring_submit_and_wait(&ring_, 1); sent < 0 && sent != -EINTR) {
      throw Error(fmt::format("io_uring_submit_and_wait failed: {}", std::strerror(-sent)));
    }
  }
  void begin(unsigned slot) {
    wanted_[slot] = random_.next();
    io_uring_sqe* const sqe = ::io_uring_get_sqe(&ring_);
    ::io_uring_prep_read(sqe, fd_.get(), memory_.get() + std::size_t(slot) * kPageBytes, kPageBytes,
                         wanted_[slot] * kPageBytes);
    ::io_uring_sqe_set_data64(sqe, slot);
    ++under_way_;
  }
  void seen(io_uring_cqe* cqe) {
    ::io_uring_cqe_seen(&ring_, cqe);
    --under_way_;
  }
  unsigned end(io_uring_cqe* cqe) {
    const auto slot = unsigned(::io_uring_cqe_get_data64(cqe));
    const int got = cqe->res;
    seen(cqe);
    if (got != int(kPageBytes)) throw Error(fmt::format("a read of a page ended with {}", got));
    expect_sum(sum_of_line(memory_.get() + std::size_t(slot) * kPageBytes), line_sum(wanted_[slot]));
    return slot;
  }

  base::Fd fd_;
  RandomPages random_;
  std::vector<std::uint64_t> wanted_;  // by slot
  unsigned under_way_ = 0;
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
  io_uring ring_{};
};

}  // namespace

double uring_reads_per_s(const RawReads& reads) {
  std::vector<std::unique_ptr<Ring>> rings;
  for (unsigned t = 0; t < reads.threads; ++t) rings.push_back(std::make_unique<Ring>(reads, t + 1));
  std::atomic<std::uint64_t> done{0};
  const double seconds = in_threads_s(reads.threads, [&](unsigned t) { done += rings[t]->run(reads.seconds); });
  return double(done) / seconds;
}

std::optional<double> fio_reads_per_s(const RawReads& reads) {
  const std::string command = fmt::format(
      "fio --name=reads --filename='{}' --readonly --rw=randread --norandommap --bs={} --direct=1 --ioengine=io_uring "
      "--iodepth={} --numjobs={} --thread --group_reporting --time_based --runtime={}ms --size={} "
      "--output-format=json 2>/dev/null",
      reads.path, kPageBytes, reads.depth, reads.threads, std::lround(reads.seconds * 1e3), reads.pages * kPageBytes);
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  char piece[4096];
  for (std::size_t got; (got = std::fread(piece, 1, sizeof(piece), pipe)) > 0;) text.append(piece, got);
  if (::pclose(pipe) != 0) return std::nullopt;
  // It may say something before the object.
  const nlohmann::json said = nlohmann::json::parse(text.substr(std::min(text.find('{'), text.size())), nullptr, false);
  if (said.is_discarded() || !said.contains("jobs") || said["jobs"].empty()) return std::nullopt;
  const double found = said["jobs"][0]["read"].value("iops", 0.0);
  return found > 0 ? std::optional(found) : std::nullopt;
}

}  // namespace atoll::bench
