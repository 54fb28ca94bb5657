// What a histogram says about the memory model.
#pragma once

#include <utility>

#include "litmus/runner.hpp"

namespace atoll::litmus {

struct Verdict {
  Case test;
  Consistency mode = Consistency::kPso;  // that the cluster ran in
  std::uint64_t runs = 0;
  bool allowed = false;    // may the interesting outcome be seen?
  std::uint64_t seen = 0;  // how often it was
  bool must_be_seen = false;
  std::vector<std::pair<Outcome, std::uint64_t>> forbidden;  // every outcome that the model does not allow

  [[nodiscard]] bool missing() const { return must_be_seen && seen == 0; }
  [[nodiscard]] bool ok() const { return forbidden.empty() && !missing(); }
};

/// Judges by the model of `model`, which is `mode` but for those who want to see a run fail.
[[nodiscard]] Verdict judge(const Case& test, Consistency mode, Consistency model, const Histogram& histogram);

/// One line for each forbidden outcome and for a missing one, ready to print; nothing when all is well.
[[nodiscard]] std::vector<std::string> complaints(const Verdict& verdict);

/// A line for each test with a pair of columns for each mode: allowed or forbidden, and how often seen.
[[nodiscard]] std::string table_of(const std::vector<Verdict>& verdicts);

}  // namespace atoll::litmus
