#include "explorer/protocol_docs.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "coherence/cache_table.hpp"
#include "coherence/directory_table.hpp"
#include "coherence/element_table.hpp"
#include "wire/kinds.hpp"

namespace atoll::explorer {
namespace {

template <typename Item, std::size_t N>
std::string joined(const std::array<Item, N>& items, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", to_string(items[i]));
  return text;
}

template <typename RowType, std::size_t N>
std::string table_of(const RowType (&rows)[N]) {
  std::string text = "| state | event | next | actions | why |\n|---|---|---|---|---|\n";
  for (const RowType& row : rows) {
    const std::string next = row.never ? "*never*" : std::string(to_string(row.next));
    const std::string actions = row.action_count == 0 ? "–" : joined(row.actions, row.action_count);
    text += fmt::format("| {} | {} | {} | {} | {} |\n", to_string(row.state), joined(row.events, row.event_count), next,
                        actions, row.why);
  }
  return text;
}

/// One arrow per pair of states, with all the events that lead from one to the other.
template <typename RowType, std::size_t N>
std::string diagram_of(const RowType (&rows)[N]) {
  std::map<std::pair<int, int>, std::string> arrows;
  for (const RowType& row : rows) {
    if (row.never || row.state == row.next) continue;
    std::string& label = arrows[{int(row.state), int(row.next)}];
    label += (label.empty() ? "" : ", ") + joined(row.events, row.event_count);
  }
  using State = decltype(rows[0].state);
  std::string text = fmt::format("```mermaid\nstateDiagram-v2\n  [*] --> {}\n", to_string(State(0)));
  for (const auto& [pair, label] : arrows) {
    text += fmt::format("  {} --> {}: {}\n", to_string(State(pair.first)), to_string(State(pair.second)), label);
  }
  return text + "```\n";
}

std::string kinds_table() {
  std::string text = "| message | direction | meaning |\n|---|---|---|\n";
  for (std::uint8_t k = 1; k < wire::kKinds; ++k) {
    const wire::Kind kind{k};
    text += fmt::format("| {} | {} | {} |\n", wire::to_string(kind), wire::direction(kind), wire::meaning(kind));
  }
  return text;
}

}  // namespace

std::string protocol_tables() {
  return "### Messages\n\n" + kinds_table() +
         "\n### The home's side\n\nTransitions from one state to another; what stays in its state is in the table "
         "only.\n\n" +
         diagram_of(coherence::kDirRows) + "\n" + table_of(coherence::kDirRows) + "\n### The requester's side\n\n" +
         diagram_of(coherence::kCacheRows) + "\n" + table_of(coherence::kCacheRows) +
         "\n### The lock of an element\n\n" + diagram_of(coherence::kElementRows) + "\n" +
         table_of(coherence::kElementRows);
}

}  // namespace atoll::explorer
