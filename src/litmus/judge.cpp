#include "litmus/judge.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "litmus/model.hpp"

namespace atoll::litmus {
namespace {

std::string cell(const std::vector<Verdict>& verdicts, const Case& test, Consistency mode) {
  const auto found = std::find_if(verdicts.begin(), verdicts.end(),
                                  [&](const Verdict& v) { return v.test == test && v.mode == mode; });
  if (found == verdicts.end()) return fmt::format("{:>20}", "-");
  const char* mark = found->ok() ? " " : "!";
  return fmt::format("{:>10}{:>9}{}", found->allowed ? "allowed" : "forbidden", found->seen, mark);
}

}  // namespace

Verdict judge(const Case& test, Consistency mode, Consistency model, const Histogram& histogram) {
  const std::set<Outcome> allowed = allowed_outcomes(test, model);
  Verdict verdict;
  verdict.test = test;
  verdict.mode = mode;
  verdict.allowed = std::any_of(allowed.begin(), allowed.end(),
                                [&](Outcome outcome) { return test.shape->interesting.holds(outcome); });
  verdict.must_be_seen = must_be_seen(test, mode);
  for (const auto& [outcome, count] : histogram) {
    verdict.runs += count;
    if (test.shape->interesting.holds(outcome)) verdict.seen += count;
    if (!allowed.contains(outcome)) verdict.forbidden.emplace_back(outcome, count);
  }
  return verdict;
}

std::vector<std::string> complaints(const Verdict& verdict) {
  std::vector<std::string> lines;
  const std::string what = fmt::format("{} under {}", verdict.test.name(), to_string(verdict.mode));
  for (const auto& [outcome, count] : verdict.forbidden) {
    lines.push_back(fmt::format("{}: the forbidden outcome {} was seen {} times in {} runs", what,
                                to_text(*verdict.test.shape, outcome), count, verdict.runs));
  }
  if (verdict.missing()) {
    lines.push_back(fmt::format("{}: {} is allowed and must be seen, but was not in {} runs", what,
                                verdict.test.shape->asks, verdict.runs));
  }
  return lines;
}

std::string table_of(const std::vector<Verdict>& verdicts) {
  std::string text = fmt::format("{:<6}{:<8}{:<11}", "shape", "variant", "layout");
  for (const Consistency mode : kModes) text += fmt::format("{:>10}{:>9} ", to_string(mode), "seen");
  text += '\n';
  for (const Case& test : all_cases()) {
    const auto is_this = [&test](const Verdict& verdict) { return verdict.test == test; };
    if (std::none_of(verdicts.begin(), verdicts.end(), is_this)) continue;
    text += fmt::format("{:<6}{:<8}{:<11}", test.shape->name, to_string(test.variant), to_string(test.layout));
    for (const Consistency mode : kModes) text += cell(verdicts, test, mode);
    text += '\n';
  }
  return text;
}

}  // namespace atoll::litmus
