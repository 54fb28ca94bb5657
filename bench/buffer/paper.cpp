// The experiments of the paper on single accesses: memory and files, here and at another node.
#include <utility>

#include "bench/buffer/work.hpp"

namespace atoll::bench {
namespace {

constexpr std::uint64_t kWords = (8u << 20) / sizeof(std::uint64_t);
constexpr std::uint64_t kFilePages = 2048;  // less than have room at the home
constexpr int kWarmRounds = 3;

/// All numbers below a power of two, each once, in an order that nobody reads ahead in.
class Shuffled {
 public:
  explicit Shuffled(std::uint64_t count) : mask_(count - 1) {}
  std::uint64_t next() noexcept { return at_ = (at_ * 1664525 + 1013904223) & mask_; }

 private:
  std::uint64_t mask_, at_ = 0;
};

/// The paper's accesses, of 8 bytes each, one of every line or page.
///
/// Thread-safety: none; `fill` is called by both nodes alike, the others by node 0.
class Accesses {
 public:
  explicit Accesses(BufferWork& work)
      : work_(work),
        stride_(work.node.line_bytes() / sizeof(std::uint64_t)),
        count_(kWords / stride_),
        native_(kWords),
        near_(share("near", 0)),
        far_(share("far", 1)),
        near_file_(open(0)),
        far_file_(open(1)) {}

  /// The homes write all of it: what other nodes have of it is gone, and pages are in memory.
  void fill() {
    work_.together();
    const global_ptr<std::uint64_t>& area = work_.measures() ? near_ : far_;
    for (std::uint64_t i = 0; i < count_; ++i) {
      work_.node.write(area + std::int64_t(i * stride_), i).or_throw();
    }
    File& file = work_.measures() ? near_file_ : far_file_;
    for (std::uint64_t page = 0; page < kFilePages; ++page) write_page(file, page);
    work_.node.fence().or_throw();
    work_.together();
  }

  /// Has all of the other node's memory here, and the pages of its file: what is locked is fetched, not used in place.
  void fetch(LockMode mode) {
    const auto lock = [&](GlobalAddress at) {
      const std::uint64_t bytes = sizeof(std::uint64_t);
      (mode == LockMode::kRead ? work_.node.read_lock(at, bytes) : work_.node.write_lock(at, bytes)).or_throw();
      work_.node.unlock(at, bytes).or_throw();
    };
    for (std::uint64_t i = 0; i < count_; ++i) lock((far_ + std::int64_t(i * stride_)).address());
    for (std::uint64_t page = 0; page < kFilePages; ++page) {
      lock(far_file_.address() + std::int64_t(page * kPageBytes));
    }
  }
  double native_read_ns() {
    return each_ns(count_, [&](std::uint64_t i) { keep(native_[i * stride_]); });
  }
  double native_write_ns() {
    return each_ns(count_, [&](std::uint64_t i) {
      native_[i * stride_] = i;
      keep(native_);
    });
  }
  double read_ns(bool remote) {
    const global_ptr<std::uint64_t>& area = remote ? far_ : near_;
    return each_ns(count_, [&](std::uint64_t i) {
      const Result<std::uint64_t> found = work_.node.read(area + std::int64_t(i * stride_));
      if (found.value() != i) expect_sum(found.value(), i);
    });
  }
  /// Each is waited for, as in the paper.
  double write_ns(bool remote) {
    const global_ptr<std::uint64_t>& area = remote ? far_ : near_;
    return each_ns(count_, [&](std::uint64_t i) {
      const Status status = work_.node.write(area + std::int64_t(i * stride_), i, Consistency::kTso);
      if (!status.ok()) status.or_throw();
    });
  }
  double file_read_ns(bool remote) {
    const File& file = remote ? far_file_ : near_file_;
    return each_ns(kFilePages, [&](std::uint64_t page) {
      std::uint64_t word = 0;
      file.read(page * kPageBytes, std::as_writable_bytes(std::span(&word, 1))).or_throw();
      expect_sum(word, page);
    });
  }
  /// File::write returns at once where it can; so it is waited for, once for all.
  double file_write_ns(bool remote) {
    File& file = remote ? far_file_ : near_file_;
    const Clock::time_point begun = Clock::now();
    (void)each_ns(kFilePages, [&](std::uint64_t page) { write_page(file, page); });
    work_.node.fence().or_throw();
    return seconds_since(begun) * 1e9 / double(kFilePages);
  }

 private:
  global_ptr<std::uint64_t> share(const char* name, NodeId home) {
    if (work_.node.id() == home) {
      const auto area = work_.node.allocate<std::uint64_t>(kWords, Placement::local()).value();
      work_.node.publish(name, area.address()).or_throw();
    }
    return global_ptr<std::uint64_t>(work_.node.lookup(name).value());
  }
  File open(NodeId home) {
    const std::string path = work_.folder + "/of-" + std::to_string(home);
    if (work_.node.id() == home) make_page_file(path, kFilePages);
    work_.together();
    FileOptions options;
    options.node = home;
    return work_.node.open_file(path, options).value();
  }
  static void write_page(File& file, std::uint64_t page) {
    file.write(page * kPageBytes, std::as_bytes(std::span(&page, 1))).or_throw();
  }
  template <typename Access>
  static double each_ns(std::uint64_t count, Access&& access) {
    Shuffled order(count);
    return time_ns(count, [&] {
      for (std::uint64_t i = 0; i < count; ++i) access(order.next());
    });
  }

  BufferWork& work_;
  const std::uint64_t stride_, count_;
  std::vector<std::uint64_t> native_;
  global_ptr<std::uint64_t> near_, far_;
  File near_file_, far_file_;
};

/// The values of one repetition, each beside what it is compared with.
class Rows {
 public:
  void add(const std::string& name, double value, double baseline) {
    const auto found =
        std::find_if(samples_.begin(), samples_.end(), [&](const Samples& one) { return one.name == name; });
    Samples& samples = found != samples_.end() ? *found : samples_.emplace_back(Samples{name, 2, {}, {}});
    samples.values.push_back(value);
    samples.baselines.push_back(baseline);
  }
  [[nodiscard]] const std::vector<Samples>& all() const noexcept { return samples_; }

 private:
  std::vector<Samples> samples_;
};

/// The last of several rounds.
template <typename Round>
double warm(Round&& round) {
  for (int i = 0; i < kWarmRounds; ++i) (void)round();
  return round();
}

}  // namespace

void run_paper(BufferWork& work) {
  Accesses accesses(work);
  Rows rows;
  for (int i = 0; i <= work.repetitions; ++i) {
    Rows found;
    accesses.fill();
    work.alone([&] {
      const double read = warm([&] { return accesses.read_ns(false); });
      found.add("mem_read_local", read, warm([&] { return accesses.native_read_ns(); }));
      found.add("mem_read_remote", accesses.read_ns(true), read);
      accesses.fetch(LockMode::kRead);
      found.add("mem_read_cached", warm([&] { return accesses.read_ns(true); }), read);
    });
    accesses.fill();
    work.alone([&] {
      const double write = warm([&] { return accesses.write_ns(false); });
      found.add("mem_write_local", write, warm([&] { return accesses.native_write_ns(); }));
      found.add("mem_write_remote", accesses.write_ns(true), write);
      accesses.fetch(LockMode::kWrite);
      found.add("mem_write_cached", warm([&] { return accesses.write_ns(true); }), write);
    });
    accesses.fill();
    work.alone([&] {
      const double memory = warm([&] { return accesses.read_ns(false); });
      const double file = warm([&] { return accesses.file_read_ns(false); });
      found.add("file_read_local", file, memory);
      found.add("file_read_remote", accesses.file_read_ns(true), file);
      accesses.fetch(LockMode::kRead);
      found.add("file_read_cached", warm([&] { return accesses.file_read_ns(true); }), file);
    });
    accesses.fill();
    work.alone([&] {
      const double memory = warm([&] { return accesses.write_ns(false); });
      const double file = warm([&] { return accesses.file_write_ns(false); });
      found.add("file_write_local", file, memory);
      found.add("file_write_remote", accesses.file_write_ns(true), file);
    });
    if (i == 0) continue;  // the first one touches all memory, and counts for nothing
    for (const Samples& one : found.all()) rows.add(one.name, one.values.front(), one.baselines.front());
  }
  if (!work.measures()) return;
  for (const Samples& samples : rows.all()) work.report(samples);
}

}  // namespace atoll::bench
