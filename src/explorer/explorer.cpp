#include "explorer/explorer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "explorer/visited.hpp"

namespace atoll::explorer {
namespace {

/// Encoded states one after the other, each behind its length.
class Frontier {
 public:
  void push(std::uint32_t number, const std::vector<std::uint8_t>& bytes) {
    for (unsigned shift = 0; shift < 32; shift += 8) data_.push_back(std::uint8_t(number >> shift));
    data_.push_back(std::uint8_t(bytes.size()));
    data_.push_back(std::uint8_t(bytes.size() >> 8));
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    ++count_;
  }
  bool pop(std::uint32_t& number, std::span<const std::uint8_t>& bytes) noexcept {
    if (at_ == data_.size()) return false;
    number = 0;
    for (unsigned shift = 0; shift < 32; shift += 8) number |= std::uint32_t{data_[at_++]} << shift;
    const std::size_t size = data_[at_] | std::size_t{data_[at_ + 1]} << 8;
    bytes = std::span(data_).subspan(at_ + 2, size);
    at_ += 2 + size;
    --count_;
    return true;
  }
  void clear() noexcept {
    data_.clear();
    at_ = 0;
    count_ = 0;
  }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

 private:
  std::vector<std::uint8_t> data_;
  std::size_t at_ = 0;
  std::uint64_t count_ = 0;
};

WorldOptions world_options(const ExploreOptions& options, const coherence::Tables& tables) {
  return {options.nodes,  options.lines,   options.threads,   options.ops,   options.locks_held, &tables,
          options.logged, options.crashes, options.late_acks, options.power, options.files,      options.failures};
}

/// One walk, breadth first: the first violation found has the shortest chart.
///
/// Progress is shown by the drain of each state: the path that takes the first delivery there is, or else the
/// first unlock, and starts nothing new. Every drain must end in a quiet state; then nothing is ever stuck and
/// there is a way to rest from everywhere.
///
/// Thread-safety: none.
class Walk {
 public:
  explicit Walk(const ExploreOptions& options)
      : options_(options),
        tables_(options.tables != nullptr ? *options.tables : coherence::Tables{}),
        world_(world_options(options, tables_)) {
    tables_.coverage = &result_.coverage;
  }

  ExploreResult run() {
    world_.encode(bytes_);
    next_.push(visited_.insert(bytes_, Visited::kNone, 0).first, bytes_);
    while (next_.count() != 0 && !result_.violation && visited_.size() < options_.max_states) {
      std::swap(current_, next_);
      next_.clear();
      expand_level();
      ++result_.depth;
    }
    result_.states = visited_.size();
    result_.complete = !result_.violation && next_.count() == 0 && current_.count() == 0;
    if (result_.complete) check_drains();
    return std::move(result_);
  }

 private:
  void expand_level() {
    std::uint32_t number = 0;
    std::span<const std::uint8_t> state;
    while (visited_.size() < options_.max_states && current_.pop(number, state)) {
      if (!expand(number, state)) return;
      if (options_.progress && number % 65536 == 0) {
        options_.progress({visited_.size(), result_.transitions, current_.count() + next_.count(), result_.depth});
      }
    }
  }

  bool expand(std::uint32_t number, std::span<const std::uint8_t> state) {
    world_.decode(state);
    world_.enumerate(steps_);
    const bool drains = !steps_.empty() && is_drain(steps_.front());
    if (!drains && !world_.is_quiet())
      return report(number, nullptr, "nothing can happen any more, but something waits");
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (i != 0) world_.decode(state);
      const bool done = world_.apply(steps_[i]);
      if (!done && !world_.violated()) {
        // Nothing was to be done, but something may have been: an access was taken back to look at a lock.
        world_.encode(bytes_);
        if (std::equal(bytes_.begin(), bytes_.end(), state.begin(), state.end())) continue;
      }
      ++result_.transitions;
      world_.check();
      if (world_.violated()) return report(number, &steps_[i], world_.violation());
      world_.encode(bytes_);
      const auto [target, is_new] = visited_.insert(bytes_, number, steps_[i].pack());
      if (is_new) next_.push(target, bytes_);
      if (i == 0 && drains) visited_[number].drain = target;
    }
    return true;
  }

  static bool is_drain(const Step& step) {
    switch (step.kind) {
      case StepKind::kFile: return step.peer != 0;
      case StepKind::kLoaded:
      case StepKind::kDeliver:
      case StepKind::kUnlock:
      case StepKind::kTell:
      case StepKind::kLearn:
      case StepKind::kReturn:
      case StepKind::kSettle: return true;
      case StepKind::kOperation:
      case StepKind::kCancel:
      case StepKind::kEvict:
      case StepKind::kReadAhead:
      case StepKind::kWriteHome:
      case StepKind::kDrop:
      case StepKind::kFetchHome:
      case StepKind::kCrash: break;
    }
    return false;
  }

  /// Follows every drain to its end once.
  void check_drains() {
    std::vector<std::uint8_t> seen(visited_.size(), 0);  // 1: on the path that is being followed, 2: ends well
    std::vector<std::uint32_t> path;
    for (std::uint32_t start = 0; start < visited_.size(); ++start) {
      std::uint32_t at = start;
      path.clear();
      for (; at != Visited::kNone && seen[at] == 0; at = visited_[at].drain) {
        seen[at] = 1;
        path.push_back(at);
      }
      if (at != Visited::kNone && seen[at] == 1) {
        report(at, nullptr, "deliveries and unlocks alone go round in a circle from here, and nothing comes to rest");
        return;
      }
      for (std::uint32_t number : path) seen[number] = 2;
    }
  }

  /// Always false, so that the caller can stop with it. `last` leads from the state to the violation.
  bool report(std::uint32_t number, const Step* last, std::string what) {
    std::vector<Step> path;
    if (last != nullptr) path.push_back(*last);
    for (; visited_[number].parent != Visited::kNone; number = visited_[number].parent) {
      path.push_back(Step::unpack(visited_[number].step));
    }
    std::reverse(path.begin(), path.end());
    result_.violated = std::move(what);
    result_.violation = chart(path);
    result_.complete = false;
    return false;
  }

  std::string chart(const std::vector<Step>& path) {
    World world(world_options(options_, tables_));
    std::string text;
    for (std::size_t i = 0; i < path.size(); ++i) {
      const std::string what = world.describe(path[i]);
      world.apply(path[i]);
      text += fmt::format("{:3}  {:<52} {}\n", i + 1, what, world.summary());
    }
    return text + "     violated: " + result_.violated + "\n";
  }

  const ExploreOptions& options_;
  ExploreResult result_;
  coherence::Tables tables_;
  World world_;
  Visited visited_;
  Frontier current_;
  Frontier next_;
  std::vector<Step> steps_;
  std::vector<std::uint8_t> bytes_;
};

template <typename Table, typename Counts>
void add_rows(const char* side, const Table& table, const Counts& counts, bool never, std::vector<std::string>& out) {
  using State = typename Table::StateType;
  using Event = typename Table::EventType;
  for (std::size_t s = 0; s < table.cells.size(); ++s) {
    for (std::size_t e = 0; e < table.cells[s].size(); ++e) {
      if (table.cells[s][e].never != never || (counts[s][e] != 0) != never) continue;
      out.push_back(fmt::format("{} {} + {}", side, to_string(State(s)), to_string(Event(e))));
    }
  }
}

}  // namespace

std::vector<std::string> ExploreResult::unused_rows(const coherence::Tables& tables) const {
  std::vector<std::string> out;
  add_rows("home", tables.directory, coverage.directory, false, out);
  add_rows("cache", tables.cache, coverage.cache, false, out);
  return out;
}

std::vector<std::string> ExploreResult::never_rows_used(const coherence::Tables& tables) const {
  std::vector<std::string> out;
  add_rows("home", tables.directory, coverage.directory, true, out);
  add_rows("cache", tables.cache, coverage.cache, true, out);
  return out;
}

ExploreResult explore(const ExploreOptions& options) {
  return Walk(options).run();
}

}  // namespace atoll::explorer
