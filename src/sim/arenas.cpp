// Where what the workload uses is: an arena of each node, in the heap or in a region with larger lines.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "atoll/detail/line.hpp"
#include "sim/workload.hpp"

namespace atoll::sim {

Workload::Object Workload::make_object(GlobalAddress address, std::uint32_t bytes, std::uint32_t line_bytes) {
  Object object;
  object.address = address;
  object.bytes = bytes;
  for (std::uint32_t at = 0; at < bytes;) {
    const GlobalAddress from = address + at;
    const auto room = std::uint32_t(line_bytes - from.offset() % line_bytes);
    const std::uint32_t piece = std::min(room, bytes - at);
    object.cells.emplace_back(from, piece, at);
    at += piece;
  }
  return object;
}

/// Each node brings an arena; what is shared is spread over them.
void Workload::lay_out() {
  const NodeId nodes = cluster_.options().nodes;
  const std::uint32_t cold = options_.cold_lines / nodes + 1;
  const std::uint32_t lines = options_.hot_lines + 5 * (options_.blobs + options_.locked) + cold + 8;
  arenas_.resize(nodes);
  for (NodeId node = 0; node < nodes; ++node) {
    cluster_.spawn(node, [this, node, lines](Node& on) {
      const std::uint64_t bytes = std::uint64_t(lines) * line_bytes_;
      arenas_[node] =
          options_.larger == 0 ? on.allocate(bytes, Placement::on(node)).value() : on.allocate_region(bytes).value();
      register_functions(on);
    });
  }
  cluster_.run();
  arena_bytes_ = std::uint64_t(lines) * line_bytes_;
  if (options_.larger > 0) set_arena_lines(line_bytes_);
  for (const GlobalAddress arena : arenas_) claim_range(arena, std::uint64_t(lines) * line_bytes_);
  base::Random& random = cluster_.machine().random();
  std::vector<std::uint64_t> next(nodes);  // line of the arena, from its first whole one on
  const auto take_lines = [&](NodeId node, std::uint32_t count) {
    const std::uint64_t first = (arenas_[node].bits() + line_bytes_ - 1) / line_bytes_ * line_bytes_;
    next[node] += count;
    return GlobalAddress(first + (next[node] - count) * line_bytes_);
  };
  std::vector<GlobalAddress> hot;
  for (std::uint32_t i = 0; i < options_.hot_lines; ++i) hot.push_back(take_lines(NodeId(random.below(nodes)), 1));
  for (std::uint32_t i = 0; i < options_.hot_words; ++i) {  // each in eight bytes of its own
    const GlobalAddress place = hot[i % hot.size()] + i / hot.size() * 8 % line_bytes_;
    if (i / hot.size() * 8 >= line_bytes_ - 48) break;
    words_.push_back(make_object(place, std::uint32_t(1) << random.below(4)));
  }
  counters_.push_back(hot[0] + (line_bytes_ - 8));
  counters_.push_back(take_lines(NodeId(random.below(nodes)), 1));
  counted_.assign(counters_.size(), 0);
  maybe_counted_.assign(counters_.size(), 0);
  counts_found_.resize(counters_.size());
  triples_.push_back(hot.back() + (line_bytes_ - 32));
  const GlobalAddress tallies = take_lines(NodeId(random.below(nodes)), 1);
  for (std::uint32_t i = 0; i < options_.blobs; ++i) {
    const auto bytes = std::uint32_t(1 + random.below(3 * line_bytes_));
    blobs_.push_back(make_object(take_lines(NodeId(random.below(nodes)), 4) + random.below(line_bytes_), bytes));
  }
  for (std::uint32_t i = 0; i < options_.locked; ++i) {
    const auto bytes = std::uint32_t(1 + random.below(2 * line_bytes_));
    locked_.push_back(make_object(take_lines(NodeId(random.below(nodes)), 3) + random.below(line_bytes_), bytes));
  }
  for (NodeId node = 0; node < nodes; ++node) {
    cold_starts_.push_back(std::uint32_t(cold_.size()));
    for (std::uint32_t i = 0; i < cold; ++i) cold_.push_back(make_object(take_lines(node, 1), 8));
  }
  cold_starts_.push_back(std::uint32_t(cold_.size()));
  for (int i = 0; i < 2; ++i) lay_out_elements(take_lines(NodeId(random.below(nodes)), 1));
  lay_out_tallies(hot[0] + (line_bytes_ - 48), tallies, take_lines(NodeId(random.below(nodes)), 1));
  lay_out_guarded(take_lines(NodeId(random.below(nodes)), 1));
}

/// What every life of a node does first.
void Workload::register_functions(Node& node) {
  const Status status = node.register_atomic("add to all", [](std::span<std::byte> data, std::span<const std::byte>) {
    for (std::size_t at = 0; at + 8 <= data.size(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, data.data() + at, 8);
      ++word;
      std::memcpy(data.data() + at, &word, 8);
    }
  });
  if (!status.ok()) throw Failure("a function could not be registered: " + status.to_string());
  register_operators(node);
}

/// All nodes together change the lines of all arenas, as those who make arrays do.
void Workload::set_arena_lines(std::uint32_t line_bytes) {
  constexpr std::uint64_t kGrain = detail::kGrainBytes;
  const std::uint64_t bytes = (arena_bytes_ + kGrain - 1) / kGrain * kGrain;
  const auto on_all = [&](auto&& change) {
    for (NodeId node = 0; node < cluster_.options().nodes; ++node) {
      cluster_.spawn(node, [this, change](Node& on) {
        for (const GlobalAddress arena : arenas_) {
          if (const Status status = change(on, arena); !status.ok()) {
            throw Failure(fmt::format("node {} could not change the lines of {}: {}", on.id(), arena.to_string(),
                                      status.to_string()));
          }
        }
      });
    }
    cluster_.run();
  };
  on_all([=](Node& on, GlobalAddress arena) { return on.close_region(arena, bytes); });
  on_all([=](Node& on, GlobalAddress arena) {
    return arena.node() == on.id() ? on.open_region(arena, bytes, line_bytes) : Status();
  });
  on_all([=](Node& on, GlobalAddress arena) {
    return arena.node() == on.id() ? Status() : on.open_region(arena, bytes, line_bytes);
  });
}

void Workload::give_arenas_back() {
  if (options_.larger > 0) set_arena_lines(cluster_.options().node.line_bytes);
  for (NodeId node = 0; node < cluster_.options().nodes; ++node) {
    cluster_.spawn(node, [this, node](Node& on) {
      if (!on.free(arenas_[node]).ok()) throw Failure("an arena could not be freed");
    });
  }
  cluster_.run();
}

}  // namespace atoll::sim
