#include "bench/harness.hpp"

#include <fmt/color.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace atoll::bench {
namespace {

/// Four digits that matter, whatever the magnitude.
std::string number(double value) {
  if (value == 0 || !std::isfinite(value)) return fmt::format("{}", value);
  const int magnitude = int(std::floor(std::log10(std::fabs(value))));
  return fmt::format("{:.{}f}", value, std::clamp(3 - magnitude, 0, 6));
}

nlohmann::ordered_json to_object(const Record& record) {
  return {{"bench", record.bench},       {"case", record.name},
          {"nodes", record.nodes},       {"threads", record.threads},
          {"value", record.value},       {"unit", record.unit},
          {"baseline", record.baseline}, {"baseline_value", record.baseline_value},
          {"ratio", record.ratio},       {"best", record.best},
          {"median", record.median},     {"better", record.more_is_better ? "more" : "less"},
          {"bar", record.bar},           {"ok", record.ok}};
}

std::string verdict(const Record& record, bool color) {
  if (record.bar.empty()) return "";
  if (!color) return record.ok ? "PASS" : "MISS";
  return record.ok ? fmt::format(fg(fmt::terminal_color::green), "PASS")
                   : fmt::format(fg(fmt::terminal_color::red), "MISS");
}

}  // namespace

std::string Bar::text() const {
  switch (side) {
    case Side::kNone: return "";
    case Side::kAtMost: return fmt::format("<= {:g} x", limit);
    case Side::kBelow: return fmt::format("< {:g} x", limit);
    case Side::kAtLeast: return fmt::format(">= {:g} x", limit);
  }
  return "";
}

bool Bar::met_by(double ratio) const {
  switch (side) {
    case Side::kNone: return true;
    case Side::kAtMost: return ratio <= limit;
    case Side::kBelow: return ratio < limit;
    case Side::kAtLeast: return ratio >= limit;
  }
  return true;
}

void to_json(nlohmann::json& out, const Samples& samples) {
  out = {
      {"case", samples.name}, {"nodes", samples.nodes}, {"values", samples.values}, {"baselines", samples.baselines}};
}

void from_json(const nlohmann::json& in, Samples& samples) {
  in.at("case").get_to(samples.name);
  in.at("nodes").get_to(samples.nodes);
  in.at("values").get_to(samples.values);
  in.at("baselines").get_to(samples.baselines);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Record make_record(std::string_view bench, const CaseInfo& info, const Samples& samples) {
  const auto [least, most] = std::minmax_element(samples.values.begin(), samples.values.end());
  Record record;
  record.bench = bench;
  record.name = samples.name;
  record.nodes = samples.nodes;
  record.value = record.median = median(samples.values);
  record.unit = info.unit;
  record.baseline = info.baseline;
  record.baseline_value = median(samples.baselines);
  record.ratio = record.value / record.baseline_value;
  record.best = info.more_is_better ? *most : *least;
  record.more_is_better = info.more_is_better;
  record.bar = info.bar.text();
  record.ok = info.bar.met_by(record.ratio);
  return record;
}

void expect_sum(std::uint64_t found, std::uint64_t expected) {
  if (found != expected) throw Error(fmt::format("read {} where {} was written", found, expected));
}

void print_table(const std::vector<Record>& records) {
  const bool color = ::isatty(STDOUT_FILENO) == 1;
  std::size_t name_width = 4, baseline_width = 8;
  for (const Record& record : records) {
    name_width = std::max(name_width, record.name.size());
    baseline_width = std::max(baseline_width, record.baseline.size());
  }
  fmt::print("{:<{}}  nodes  {:>10}  {:>10}  {:<6}  better  {:<{}}  {:>10}  {:>8}  {:<9}\n", "case", name_width,
             "median", "best", "unit", "baseline", baseline_width, "median", "ratio", "bar");
  for (const Record& record : records) {
    fmt::print("{:<{}}  {:>5}  {:>10}  {:>10}  {:<6}  {:<6}  {:<{}}  {:>10}  {:>8}  {:<9}  {}\n", record.name,
               name_width, record.nodes, number(record.value), number(record.best), record.unit,
               record.more_is_better ? "more" : "less", record.baseline, baseline_width, number(record.baseline_value),
               number(record.ratio), record.bar, verdict(record, color));
  }
  std::fflush(stdout);
}

std::string json_line(const Record& record) {
  return to_object(record).dump();
}

void write_json_lines(const std::string& path, const std::vector<Record>& records) {
  std::ofstream file(path);
  for (const Record& record : records) file << json_line(record) << '\n';
  file.close();
  if (!file) throw Error(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

void warn_if_busy() {
  constexpr double kIdle = 0.5;
  double load = 0;
  if (::getloadavg(&load, 1) != 1 || load < kIdle) return;
  fmt::print(stderr,
             "atoll bench: the load average is {:.1f}: other work shares the CPUs, trust no ratio of this run\n", load);
}

Progress::Progress(int done, int total) : done_(done), total_(total), terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (terminal_) fmt::print(stderr, "\r\033[K");
}

void Progress::begin(std::string_view name) {
  ++done_;
  name_ = name;
  if (terminal_) {
    fmt::print(stderr, "\r\033[K[{}/{}] {} …", done_, total_, name_);
  } else {
    fmt::print(stderr, "[{}/{}] {}\n", done_, total_, name_);
  }
}

void Progress::step(int repetition, int repetitions) {
  if (terminal_) fmt::print(stderr, "\r\033[K[{}/{}] {} {}/{} …", done_, total_, name_, repetition, repetitions);
}

void Progress::tell(std::string_view what) {
  if (terminal_) fmt::print(stderr, "\r\033[K[{}/{}] {}: {} …", done_, total_, name_, what);
}

}  // namespace atoll::bench
