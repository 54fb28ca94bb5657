#include "verify/serializability.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace atoll::verify {
namespace {

enum EdgeKind : std::uint8_t {
  kWriteWrite = 1,  // overwrote what the other wrote
  kWriteRead = 2,   // read what the other wrote
  kReadWrite = 4,   // read what the other then overwrote
  kRealTime = 8,    // ended before the other began
};

struct Edge {
  std::uint32_t to = 0;
  EdgeKind kind = kWriteWrite;
  std::uint64_t key = 0;
};

/// Nodes with edges of kinds, and the search for a cycle among some of the kinds.
class Graph {
 public:
  std::uint32_t add_node() {
    edges_.emplace_back();
    return std::uint32_t(edges_.size() - 1);
  }
  void add_edge(std::uint32_t from, std::uint32_t to, EdgeKind kind, std::uint64_t key) {
    if (from != to) edges_[from].push_back({to, kind, key});
  }
  struct Step {
    std::uint32_t from = 0;
    Edge edge;
  };
  /// A short cycle with edges of `kinds`; empty when there is none.
  [[nodiscard]] std::vector<Step> find_cycle(unsigned kinds) const {
    const std::vector<bool> live = nodes_that_lead_on(kinds);
    std::vector<std::uint32_t> starts;
    for (std::uint32_t node = 0; node < live.size(); ++node) {
      if (live[node]) starts.push_back(node);
    }
    if (starts.empty()) return {};
    std::vector<Step> best = shortest_cycle(some_cycle_node(starts.front(), kinds, live), kinds, live);
    // A shorter one is easier to read; to try some hundred starts is enough for that.
    const std::size_t stride = starts.size() / 300 + 1;
    for (std::size_t i = 0; i < starts.size() && best.size() > 2; i += stride) {
      std::vector<Step> other = shortest_cycle(starts[i], kinds, live);
      if (!other.empty() && other.size() < best.size()) best = std::move(other);
    }
    return best;
  }

 private:
  /// Each live node has an edge to a live one: a walk must come back to where it was.
  [[nodiscard]] std::uint32_t some_cycle_node(std::uint32_t at, unsigned kinds, const std::vector<bool>& live) const {
    std::vector<bool> seen(edges_.size(), false);
    while (!seen[at]) {
      seen[at] = true;
      at = std::find_if(edges_[at].begin(), edges_[at].end(), [&](const Edge& edge) {
             return (edge.kind & kinds) != 0 && live[edge.to];
           })->to;
    }
    return at;
  }
  /// Without those, again and again, from which no edge goes on.
  [[nodiscard]] std::vector<bool> nodes_that_lead_on(unsigned kinds) const {
    std::vector<std::uint32_t> out(edges_.size(), 0);
    std::vector<std::vector<std::uint32_t>> back(edges_.size());
    for (std::uint32_t node = 0; node < edges_.size(); ++node) {
      for (const Edge& edge : edges_[node]) {
        if ((edge.kind & kinds) == 0) continue;
        ++out[node];
        back[edge.to].push_back(node);
      }
    }
    std::vector<bool> live(edges_.size(), true);
    std::vector<std::uint32_t> ends;
    for (std::uint32_t node = 0; node < edges_.size(); ++node) {
      if (out[node] == 0) ends.push_back(node);
    }
    while (!ends.empty()) {
      const std::uint32_t node = ends.back();
      ends.pop_back();
      live[node] = false;
      for (const std::uint32_t before : back[node]) {
        if (--out[before] == 0) ends.push_back(before);
      }
    }
    return live;
  }
  /// The shortest through `start`; empty when none goes through it.
  [[nodiscard]] std::vector<Step> shortest_cycle(std::uint32_t start, unsigned kinds,
                                                 const std::vector<bool>& live) const {
    std::unordered_map<std::uint32_t, Step> came_by;
    std::deque<std::uint32_t> queue{start};
    while (!queue.empty() && !came_by.contains(start)) {
      const std::uint32_t node = queue.front();
      queue.pop_front();
      for (const Edge& edge : edges_[node]) {
        if ((edge.kind & kinds) == 0 || !live[edge.to]) continue;
        if (came_by.try_emplace(edge.to, Step{node, edge}).second) queue.push_back(edge.to);
      }
    }
    std::vector<Step> cycle;
    if (!came_by.contains(start)) return cycle;
    for (std::uint32_t node = start; cycle.empty() || node != start; node = cycle.back().from) {
      cycle.push_back(came_by.at(node));
    }
    std::reverse(cycle.begin(), cycle.end());
    return cycle;
  }

  std::vector<std::vector<Edge>> edges_;
};

/// A value of a key, which names its version since no value is written twice.
using Version = std::pair<std::uint64_t, std::uint64_t>;
struct HashVersion {
  std::size_t operator()(const Version& version) const noexcept {
    return std::size_t((version.first * 0x9e3779b97f4a7c15 + version.second) * 0xbf58476d1ce4e5b9);
  }
};
struct Written {
  std::uint32_t by = 0;
  bool last = true;                          // the writer did not overwrite it itself
  std::vector<std::uint32_t> overwriters{};  // that read this version and then wrote the key
};

/// Judges one history.
///
/// Thread-safety: none.
/// Invariants: 1. Nodes below `history_.size()` of the graph are transactions; those above are moments.
class Checker {
 public:
  Checker(std::span<const Transaction> history, const SerializabilityOptions& options)
      : history_(history), options_(options), counted_(history.size(), false) {}

  SerializabilityReport run() {
    if (!collect_writes()) return std::move(report_);
    count_those_seen();
    for (std::uint32_t i = 0; i < history_.size(); ++i) {
      if (!counted_[i]) continue;
      ++report_.counted;
      if (!check_reads(i)) return std::move(report_);
    }
    build();
    look_for_cycles();
    return std::move(report_);
  }

 private:
  void finish(Verdict verdict, Anomaly anomaly, std::vector<std::size_t> concerned, const std::string& why) {
    report_.verdict = verdict;
    report_.anomaly = anomaly;
    report_.explanation = anomaly == Anomaly::kNone ? why + "\n" : fmt::format("{}: {}\n", to_string(anomaly), why);
    for (const std::size_t i : concerned) report_.explanation += fmt::format("  T{}  {}\n", i, to_string(history_[i]));
    report_.cycle = std::move(concerned);
  }
  bool collect_writes() {
    for (std::uint32_t i = 0; i < history_.size(); ++i) {
      if (const char* wrong = what_is_wrong(history_[i]); wrong != nullptr) {
        finish(Verdict::kUnknown, Anomaly::kNone, {i}, wrong);
        return false;
      }
      std::unordered_map<std::uint64_t, std::uint64_t> mine;
      for (const Access& access : history_[i].accesses) {
        if (!access.is_write) continue;
        const auto [at, is_new] = written_.try_emplace({access.key, access.value}, Written{i});
        if (!is_new || access.value == options_.initial) {
          finish(Verdict::kUnknown, Anomaly::kNone, {at->second.by, i},
                 fmt::format("{} is written to key {} twice, or is its first value", access.value, access.key));
          return false;
        }
        if (const auto before = mine.find(access.key); before != mine.end()) {
          written_.at({access.key, before->second}).last = false;
        }
        mine[access.key] = access.value;
      }
    }
    return true;
  }
  /// Committed transactions, and those of unknown fate whose writes were seen by one that counts.
  void count_those_seen() {
    std::vector<std::uint32_t> todo;
    for (std::uint32_t i = 0; i < history_.size(); ++i) {
      counted_[i] = history_[i].outcome == Outcome::kCommitted;
      if (counted_[i]) todo.push_back(i);
    }
    while (!todo.empty()) {
      const std::uint32_t i = todo.back();
      todo.pop_back();
      for (const Access& access : history_[i].accesses) {
        const auto found = access.is_write ? written_.end() : written_.find({access.key, access.value});
        if (found == written_.end() || counted_[found->second.by]) continue;
        if (history_[found->second.by].outcome != Outcome::kUnknown) continue;
        counted_[found->second.by] = true;
        todo.push_back(found->second.by);
      }
    }
  }
  /// What can be wrong with a read by itself; and notes who overwrote which version.
  bool check_reads(std::uint32_t i) {
    std::unordered_map<std::uint64_t, std::uint64_t> mine, base;  // key: what it wrote last, what it read last
    for (const Access& access : history_[i].accesses) {
      const auto own = mine.find(access.key);
      if (access.is_write) {
        if (own == mine.end()) {
          const auto read = base.find(access.key);
          if (read == base.end()) ++report_.blind_writes;
          note_overwriter(i, access.key, read == base.end() ? std::nullopt : std::optional(read->second));
        }
        mine[access.key] = access.value;
        continue;
      }
      if (own != mine.end()) {
        if (own->second == access.value) continue;
        finish(Verdict::kRejected, Anomaly::kInternal, {i},
               fmt::format("T{} wrote {} to key {} and then read {}", i, own->second, access.key, access.value));
        return false;
      }
      base[access.key] = access.value;
      if (access.value != options_.initial && !check_source(i, access)) return false;
    }
    return true;
  }
  bool check_source(std::uint32_t i, const Access& access) {
    const auto found = written_.find({access.key, access.value});
    if (found == written_.end()) {
      finish(Verdict::kRejected, Anomaly::kThinAir, {i},
             fmt::format("T{} read {} from key {}, which nobody wrote", i, access.value, access.key));
      return false;
    }
    const Written& source = found->second;
    if (source.by == i) {
      finish(Verdict::kRejected, Anomaly::kInternal, {i},
             fmt::format("T{} read {} from key {} before it wrote it", i, access.value, access.key));
      return false;
    }
    if (history_[source.by].outcome == Outcome::kAborted) {
      finish(Verdict::kRejected, Anomaly::kG1a, {source.by, i},
             fmt::format("T{} read {} from key {}, which T{} wrote and took back", i, access.value, access.key,
                         source.by));
      return false;
    }
    if (!source.last) {
      finish(
          Verdict::kRejected, Anomaly::kG1b, {source.by, i},
          fmt::format("T{} read {} from key {}, which T{} overwrote itself", i, access.value, access.key, source.by));
      return false;
    }
    return true;
  }
  void note_overwriter(std::uint32_t i, std::uint64_t key, std::optional<std::uint64_t> over) {
    if (!over || *over == options_.initial) {
      after_initial_[key].push_back(i);  // every version comes after the initial one
    } else if (const auto found = written_.find({key, *over}); found != written_.end()) {
      found->second.overwriters.push_back(i);
    }
  }

  void build() {
    for (std::uint32_t i = 0; i < history_.size(); ++i) graph_.add_node();
    for (const auto& [version, written] : written_) {
      if (!counted_[written.by]) continue;
      for (const std::uint32_t next : written.overwriters)
        graph_.add_edge(written.by, next, kWriteWrite, version.first);
    }
    for (std::uint32_t i = 0; i < history_.size(); ++i) {
      if (counted_[i]) add_reads(i);
    }
    if (options_.strict) add_moments();
  }
  void add_reads(std::uint32_t i) {
    for (const Access& access : history_[i].accesses) {
      if (access.is_write) continue;
      if (access.value == options_.initial) {
        for (const std::uint32_t next : after_initial_[access.key]) graph_.add_edge(i, next, kReadWrite, access.key);
        continue;
      }
      const Written& source = written_.at({access.key, access.value});
      graph_.add_edge(source.by, i, kWriteRead, access.key);
      if (source.by == i) continue;  // who comes after its own write comes after it anyway
      for (const std::uint32_t next : source.overwriters) graph_.add_edge(i, next, kReadWrite, access.key);
    }
  }
  /// A node for each end, in order of time: who ended leads to it, and it leads to who begins until the next. So there
  /// are as many edges as transactions, not their square.
  void add_moments() {
    struct Event {
      std::int64_t time;
      bool is_end;
      std::uint32_t who;
    };
    std::vector<Event> events;
    for (std::uint32_t i = 0; i < history_.size(); ++i) {
      if (!counted_[i]) continue;
      events.push_back({history_[i].invoked, false, i});
      const bool ended = history_[i].outcome == Outcome::kCommitted && history_[i].responded != kNever;
      if (ended) events.push_back({history_[i].responded, true, i});
    }
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      return std::pair(a.time, a.is_end) < std::pair(b.time, b.is_end);  // at one time nobody comes before the other
    });
    std::optional<std::uint32_t> moment;
    for (const Event& event : events) {
      if (!event.is_end) {
        if (moment) graph_.add_edge(*moment, event.who, kRealTime, 0);
        continue;
      }
      const std::uint32_t next = graph_.add_node();
      graph_.add_edge(event.who, next, kRealTime, 0);
      if (moment) graph_.add_edge(*moment, next, kRealTime, 0);
      moment = next;
    }
  }

  void look_for_cycles() {
    for (const unsigned kinds : {1u, 3u, 7u, 15u}) {
      const auto cycle = graph_.find_cycle(kinds);
      if (!cycle.empty()) return describe(cycle);
    }
  }
  void describe(const std::vector<Graph::Step>& cycle) {
    unsigned kinds = 0;
    std::vector<std::size_t> concerned;
    std::string way;
    // Begin at a transaction, so that moments stand between two of them.
    std::size_t start = 0;
    while (cycle[start].from >= history_.size()) ++start;
    for (std::size_t k = 0; k < cycle.size(); ++k) {
      const Graph::Step& step = cycle[(start + k) % cycle.size()];
      kinds |= step.edge.kind;
      if (step.from >= history_.size()) continue;  // a moment
      concerned.push_back(step.from);
      way += fmt::format("T{}", step.from);
      switch (step.edge.kind) {
        case kWriteWrite: way += fmt::format(" -ww key {}-> ", step.edge.key); break;
        case kWriteRead: way += fmt::format(" -wr key {}-> ", step.edge.key); break;
        case kReadWrite: way += fmt::format(" -rw key {}-> ", step.edge.key); break;
        case kRealTime: way += " -ended before-> "; break;
      }
    }
    report_.real_time = (kinds & kRealTime) != 0;
    const Anomaly anomaly = (kinds & kReadWrite) != 0   ? Anomaly::kG2
                            : (kinds & kWriteRead) != 0 ? Anomaly::kG1c
                                                        : Anomaly::kG0;
    const std::size_t first = concerned.front();
    finish(
        Verdict::kRejected, anomaly, std::move(concerned),
        fmt::format("{}each must come before the next: {}T{}", report_.real_time ? "in real time " : "", way, first));
  }

  std::span<const Transaction> history_;
  SerializabilityOptions options_;
  SerializabilityReport report_;
  std::vector<bool> counted_;
  std::unordered_map<Version, Written, HashVersion> written_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> after_initial_;
  Graph graph_;
};

}  // namespace

const char* to_string(Anomaly anomaly) noexcept {
  switch (anomaly) {
    case Anomaly::kNone: return "nothing";
    case Anomaly::kThinAir: return "out of thin air";
    case Anomaly::kInternal: return "internal";
    case Anomaly::kG0: return "G0 (write cycle)";
    case Anomaly::kG1a: return "G1a (aborted read)";
    case Anomaly::kG1b: return "G1b (intermediate read)";
    case Anomaly::kG1c: return "G1c (circular information flow)";
    case Anomaly::kG2: return "G2 (anti-dependency cycle)";
  }
  return "?";
}

SerializabilityReport check_serializable(std::span<const Transaction> history, const SerializabilityOptions& options) {
  return Checker(history, options).run();
}

}  // namespace atoll::verify
