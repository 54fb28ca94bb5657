// What every suite needs: samples, records, the progress line, the table and the JSON lines.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/status.hpp"

namespace atoll::bench {

/// What the command line says to every suite.
struct Settings {
  bool quick = false;
  int repetitions = 0;             // 0: the suite's own choice
  std::vector<std::string> cases;  // empty: all
  std::string json;                // file for one JSON object per result; empty: none
};

/// How a ratio to the baseline is judged.
struct Bar {
  enum class Side { kNone, kAtMost, kBelow, kAtLeast };
  Side side = Side::kNone;
  double limit = 0;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool met_by(double ratio) const;
};

/// What was measured for one case, one value per repetition; ours and the baseline took turns.
struct Samples {
  std::string name;
  NodeId nodes = 1;
  std::vector<double> values;
  std::vector<double> baselines;
};
void to_json(nlohmann::json& out, const Samples& samples);
void from_json(const nlohmann::json& in, Samples& samples);

/// What is known of a case before it runs.
struct CaseInfo {
  std::string_view name;
  std::string_view unit;
  std::string_view baseline;
  bool more_is_better = false;
  Bar bar;
};

/// One result, as the table and the JSON lines show it.
struct Record {
  std::string bench, name;
  NodeId nodes = 1;
  unsigned threads = 1;
  double value = 0;  // the median
  std::string unit;
  std::string baseline;
  double baseline_value = 0;  // the median
  double ratio = 0;           // value / baseline_value
  double best = 0, median = 0;
  bool more_is_better = false;
  std::string bar;
  bool ok = true;  // the bar is met, or there is none
};

/// REQUIRES: `values` is not empty.
[[nodiscard]] double median(std::vector<double> values);
/// REQUIRES: `samples` has at least one value and one baseline.
[[nodiscard]] Record make_record(std::string_view bench, const CaseInfo& info, const Samples& samples);

/// An aligned table on stdout.
void print_table(const std::vector<Record>& records);
[[nodiscard]] std::string json_line(const Record& record);
/// One JSON object per line. Throws Error when the file cannot be written.
void write_json_lines(const std::string& path, const std::vector<Record>& records);

/// Tells the user, on stderr, when other work on this machine spoils what is about to be measured.
void warn_if_busy();

/// "[3/12] read_cached 2/5" on stderr: rewritten in place on a terminal, else one line per case.
///
/// Thread-safety: none.
class Progress {
 public:
  /// `done`: cases of the run that came before this object.
  Progress(int done, int total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin(std::string_view name);
  void step(int repetition, int repetitions);
  /// What is done before it is measured.
  void tell(std::string_view what);

 private:
  int done_;
  int total_;
  bool terminal_;
  std::string name_;
};

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// ns per operation of `work`, which does `operations`.
template <typename Work>
double time_ns(std::uint64_t operations, Work&& work) {
  const Clock::time_point start = Clock::now();
  work();
  return seconds_since(start) * 1e9 / double(operations);
}

/// Throws Error when memory does not hold what was written.
void expect_sum(std::uint64_t found, std::uint64_t expected);

/// Makes the compiler believe that somebody looks at `value`, and at all memory.
template <typename T>
inline void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

/// Numbers for random places, as cheap as can be: what is measured is the access, not the generator. (A linear
/// congruence; its upper bits are good enough for that.)
class Lcg {
 public:
  explicit Lcg(std::uint64_t seed) : state_(seed) {}
  /// 32 random bits.
  std::uint64_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ >> 32;
  }

 private:
  std::uint64_t state_;
};

}  // namespace atoll::bench
