#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "atoll/atoll.hpp"
#include "base/random.hpp"
#include "bench/gam.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {
namespace {

using Lines = std::vector<GlobalAddress>;

/// The memory of a run: for each node, lines of its own on every home; and lines for all, spread over all homes.
///
/// Thread-safety: none; made by all nodes together.
class Memory {
 public:
  Memory(Node& node, std::uint64_t working_set) : node_(node), lines_(working_set / node.line_bytes()) {
    const std::uint64_t remote_homes = std::max(1, node.count() - 1);
    for (NodeId home = 0; home < node.count(); ++home) {
      own_.push_back(allocate(home, home == node.id() ? lines_ : lines_ / remote_homes + 1));
    }
    const std::uint64_t each = lines_ / node.count() + 1;
    node.publish(shared_name(node.id()), allocate(node.id(), each).front()).or_throw();
    for (NodeId home = 0; home < node.count(); ++home) {
      shared_.push_back(lines_from(node.lookup(shared_name(home)).value(), each));
    }
  }

  /// The lines that this node accesses at `point`: so many of them are shared that a uniform choice yields the sharing
  /// ratio, and of the others so many are remote that it yields the remote ratio.
  [[nodiscard]] Lines working_set(const GamPoint& point) const {
    const auto shared = std::uint64_t(double(lines_) * point.sharing + 0.5);
    const double remote_ratio = node_.count() == 1 ? 0 : point.remote_ratio;
    const auto remote = std::uint64_t(double(lines_ - shared) * remote_ratio + 0.5);
    Lines lines;
    for (std::uint64_t i = 0; i < shared; ++i) lines.push_back(shared_[i % shared_.size()][i / shared_.size()]);
    for (std::uint64_t i = 0; i < remote; ++i) {
      const std::uint64_t homes = node_.count() - 1u;
      const std::uint64_t home = (node_.id() + 1 + i % homes) % node_.count();
      lines.push_back(own_[home][i / homes]);
    }
    for (std::uint64_t i = shared + remote; i < lines_; ++i) lines.push_back(own_[node_.id()][i - shared - remote]);
    return lines;
  }

 private:
  static std::string shared_name(NodeId home) { return fmt::format("shared{}", home); }

  [[nodiscard]] Lines allocate(NodeId home, std::uint64_t count) {
    const std::uint64_t line = node_.line_bytes();
    const GlobalAddress at = node_.allocate((count + 1) * line, Placement::on(home)).value();
    return lines_from(GlobalAddress((at.bits() + line - 1) / line * line), count);
  }
  [[nodiscard]] Lines lines_from(GlobalAddress first, std::uint64_t count) const {
    Lines lines;
    for (std::uint64_t i = 0; i < count; ++i) lines.push_back(first + std::int64_t(i * node_.line_bytes()));
    return lines;
  }

  Node& node_;
  const std::uint64_t lines_;
  std::vector<Lines> own_;     // by home
  std::vector<Lines> shared_;  // by home
};

/// One operation of the paper: 8 bytes, read or written, plainly or locked.
void operate(Node& node, const GamPoint& point, GlobalAddress at, bool reads) {
  constexpr std::uint64_t kBytes = sizeof(std::uint64_t);
  if (point.workload != Workload::kReadWrite) {
    (reads ? node.read_lock(at, kBytes) : node.write_lock(at, kBytes)).or_throw();
  }
  if (point.workload != Workload::kLock) {
    if (reads) {
      keep(node.read<std::uint64_t>(at).value());
    } else {
      node.write<std::uint64_t>(at, at.bits(), point.consistency).or_throw();
    }
  }
  if (point.workload != Workload::kReadWrite) node.unlock(at, kBytes).or_throw();
}

/// Accesses one working set at random, as Table 3's parameters say.
class Driver {
 public:
  Driver(Node& node, const GamPoint& point, Lines lines)
      : node_(node), point_(point), lines_(std::move(lines)), random_(node.id() + 1u) {}

  /// Each line once, in a random order: fills the cache.
  void warm_up() {
    Lines order = lines_;
    std::shuffle(order.begin(), order.end(), random_);
    for (const GlobalAddress line : order) operate(node_, point_, line, random_.chance(point_.read_ratio));
    node_.fence().or_throw();
  }

  void some(std::uint64_t operations) {
    const std::uint64_t words = node_.line_bytes() / sizeof(std::uint64_t);
    for (std::uint64_t i = 0; i < operations; ++i) {
      if (!random_.chance(point_.locality)) line_ = lines_[random_.below(lines_.size())];
      const auto at = std::int64_t(random_.below(words) * sizeof(std::uint64_t));
      operate(node_, point_, line_ + at, random_.chance(point_.read_ratio));
    }
  }

 private:
  Node& node_;
  const GamPoint& point_;
  const Lines lines_;
  base::Random random_;
  GlobalAddress line_ = lines_.front();
};

/// Million operations per second of this node: `operations` of them, or, when that is 0, for `seconds`.
double run_once(Node& node, Driver& driver, std::uint64_t operations, double seconds) {
  constexpr std::uint64_t kBatch = 32;
  node.barrier().or_throw();
  const Clock::time_point start = Clock::now();
  std::uint64_t done = 0;
  while (operations > 0 ? done < operations : seconds_since(start) < seconds) {
    const std::uint64_t batch = operations > 0 ? std::min(kBatch, operations - done) : kBatch;
    driver.some(batch);
    done += batch;
  }
  node.fence().or_throw();
  return double(done) / seconds_since(start) / 1e6;
}

/// The sum of `mine` over all nodes.
double sum_over_nodes(Node& node, global_ptr<double> board, double mine) {
  node.write(board + node.id(), mine).or_throw();
  node.barrier().or_throw();
  double total = 0;
  for (NodeId i = 0; i < node.count(); ++i) total += node.read(board + i).value();
  node.barrier().or_throw();
  return total;
}

}  // namespace

void run_gam_node() {
  const nlohmann::json job = cluster::current_job();
  const auto points = job.at("points").get<std::vector<GamPoint>>();
  const auto labels = job.at("labels").get<std::vector<std::string>>();
  const auto operations = job.at("operations").get<std::uint64_t>();
  const auto seconds = job.at("seconds").get<double>();
  const int repetitions = job.at("repetitions").get<int>();
  Node node;
  const bool tells = node.id() == 0;
  if (tells) node.publish("board", node.allocate<double>(node.count()).value().address()).or_throw();
  const global_ptr<double> board(node.lookup("board").value());
  const Memory memory(node, job.at("working_set").get<std::uint64_t>());
  Progress progress(job.at("done").get<int>(), job.at("total").get<int>());
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (tells) progress.begin(labels[i]);
    Driver driver(node, points[i], memory.working_set(points[i]));
    node.barrier().or_throw();
    driver.warm_up();
    Samples samples{labels[i], node.count(), {}, {}};
    for (int repetition = 0; repetition < repetitions; ++repetition) {
      if (tells) progress.step(repetition + 1, repetitions);
      samples.values.push_back(sum_over_nodes(node, board, run_once(node, driver, operations, seconds)));
    }
    if (tells) cluster::report(job, samples);
  }
}

}  // namespace atoll::bench
