// What history_node left in a directory, put together and judged.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "support/history_log.hpp"
#include "verify/linearizability.hpp"
#include "verify/serializability.hpp"

namespace atoll::test {

struct Histories {
  std::vector<verify::Operation> operations;
  std::vector<verify::Transaction> transactions;
};

/// REQUIRES: nobody writes there any more.
inline Histories load_histories(const std::string& directory) {
  Histories all{load<OperationSlot, verify::Operation>(directory, "operations."),
                load<TransactionSlot, verify::Transaction>(directory, "transactions.")};
  std::set<std::uint16_t> processes;
  for (const auto& operation : all.operations) processes.insert(operation.process);
  for (const std::uint16_t process : processes) {
    if (std::filesystem::exists(directory + "/done." + std::to_string(process))) continue;
    std::int64_t last = 0;  // it lived until then at least
    for (const auto& one : all.operations) {
      if (one.process == process) last = std::max({last, one.invoked, one.pending() ? 0 : one.responded});
    }
    verify::release_by_death(all.operations, process, last);
  }
  return all;
}

/// All as text, in the order of calls.
template <typename Record>
std::string text_of(std::vector<Record> history) {
  std::sort(history.begin(), history.end(), [](const auto& a, const auto& b) { return a.invoked < b.invoked; });
  std::string text;
  for (const auto& one : history) text += verify::to_string(one) + "\n";
  return text;
}

}  // namespace atoll::test
