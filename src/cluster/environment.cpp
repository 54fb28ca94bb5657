#include "cluster/environment.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "cluster/control.hpp"

namespace atoll::cluster {
namespace {

constexpr const char* kNode = "ATOLL_NODE";
constexpr const char* kNodes = "ATOLL_NODES";

struct Starter {
  const char* name;
  const char* rank;
  const char* size;  // nullptr: it does not say
  bool inherited;    // what it says may be of an outer start, and is then not about this process
};

// The first that is there counts. Slurm is the last: `mpirun` in a Slurm job leaves to its processes the variables of
// the batch script, or of the daemon that started them. PMIx tells a program how many there are only through its
// library.
constexpr std::array<Starter, 4> kStarters = {{
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", false},
    {"PMI", "PMI_RANK", "PMI_SIZE", false},
    {"PMIx", "PMIX_RANK", nullptr, false},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", true},
}};

std::optional<unsigned> number(const Environment& environment, const char* name, unsigned min, unsigned max) {
  const char* text = name == nullptr ? nullptr : environment(name);
  if (text == nullptr) return std::nullopt;
  unsigned value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || stop != end || value < min || value > max) {
    throw Error(fmt::format("{}=\"{}\": must be a number from {} to {}", name, clipped(text, 64), min, max));
  }
  return value;
}

std::optional<unsigned> rank_of(const Environment& environment, const Starter& starter) {
  return number(environment, starter.rank, 0, kMaxNodes - 1u);
}

std::optional<unsigned> size_of(const Environment& environment, const Starter& starter) {
  return number(environment, starter.size, 1, kMaxNodes);
}

Place checked(unsigned node, unsigned nodes, std::string source) {
  if (node >= nodes) throw Error(fmt::format("{}: node {} of {}, but nodes count from 0", source, node, nodes));
  return {NodeId(node), NodeId(nodes), std::move(source)};
}

[[noreturn]] void contradiction(const char* one, unsigned its, const char* other, unsigned others) {
  throw Error(fmt::format("{}={}, but {}={}: unset the one that is wrong, or set {} and {}, which come first", one, its,
                          other, others, kNode, kNodes));
}

[[noreturn]] void nothing_found(const Environment& environment) {
  std::string looked_for = fmt::format("{} and {}", kNode, kNodes);
  for (const Starter& starter : kStarters) {
    looked_for += fmt::format("; {} ({})", starter.rank, starter.name);
  }
  const std::string found = environment(kNodes) == nullptr ? "none of them" : fmt::format("only {}", kNodes);
  throw Error(
      fmt::format("ATOLL_MASTER is set, but nothing says which node this is. Looked for {}: {} is set. Start "
                  "the program with `atoll run`, srun or mpirun, or set {} and {}",
                  looked_for, found, kNode, kNodes));
}

struct Size {
  const char* variable;
  unsigned value;
};

/// From the starter itself, else from ATOLL_NODES, else from another starter that means the same process.
std::optional<Size> find_size(const Environment& environment, const Starter& chosen, unsigned rank) {
  const auto told = number(environment, kNodes, 1, kMaxNodes);
  if (const auto size = size_of(environment, chosen)) {
    if (told && *told != *size) contradiction(kNodes, *told, chosen.size, *size);
    return Size{chosen.size, *size};
  }
  if (told) return Size{kNodes, *told};
  for (const Starter& other : kStarters) {
    if (rank_of(environment, other) != rank) continue;
    if (const auto size = size_of(environment, other)) return Size{other.size, *size};
  }
  return std::nullopt;
}

/// Who starts processes itself must say the same as the others that do.
void check_others_agree(const Environment& environment, const Starter& chosen, unsigned rank, const Size& size) {
  for (const Starter& other : kStarters) {
    if (&other == &chosen || other.inherited) continue;
    const auto its_rank = rank_of(environment, other);
    if (its_rank && *its_rank != rank) contradiction(chosen.rank, rank, other.rank, *its_rank);
    const auto its_size = its_rank ? size_of(environment, other) : std::nullopt;
    if (its_size && *its_size != size.value) contradiction(size.variable, size.value, other.size, *its_size);
  }
}

Place place_from_starter(const Environment& environment, const Starter& chosen, unsigned rank) {
  const auto size = find_size(environment, chosen, rank);
  if (!size) {
    throw Error(fmt::format("{}={} says which node this is ({}), but nothing says of how many: set {}", chosen.rank,
                            rank, chosen.name, kNodes));
  }
  check_others_agree(environment, chosen, rank, *size);
  return checked(rank, size->value, fmt::format("{} ({}, {})", chosen.name, chosen.rank, size->variable));
}

}  // namespace

Place place_from(const Environment& environment) {
  if (const auto node = number(environment, kNode, 0, kMaxNodes - 1u)) {
    const auto nodes = number(environment, kNodes, 1, kMaxNodes);
    if (!nodes) throw Error(fmt::format("{}={} is set, but {} is not: they go together", kNode, *node, kNodes));
    return checked(*node, *nodes, fmt::format("{} and {}", kNode, kNodes));
  }
  for (const Starter& starter : kStarters) {
    if (const auto rank = rank_of(environment, starter)) return place_from_starter(environment, starter, *rank);
  }
  nothing_found(environment);
}

}  // namespace atoll::cluster
