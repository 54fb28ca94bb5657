// The judge of wire messages, and what it promises of those that it lets through.
#include <array>

#include "fuzz.hpp"
#include "mutate.hpp"
#include "wire/message.hpp"

namespace atoll::fuzz {
namespace {

using wire::Kind;
using wire::Message;

constexpr NodeId kMostNodes = 5;
constexpr std::array<std::uint32_t, kMostNodes> kSlots = {64, 1, 100, 0, UINT32_MAX / 2};
constexpr std::array<std::uint64_t, kMostNodes> kMemory = {1 << 20, 2 << 20, 1ull << 40, 64 << 20, 3 << 20};
constexpr std::array<std::uint32_t, kMostNodes> kEpochs = {1, 1, 1, 1, 1};
constexpr std::size_t kHeaderBytes = 4;

constexpr std::array<Field, 11> kFields = {
    {{4, 4}, {8, 1}, {9, 1}, {10, 1}, {11, 1}, {12, 2}, {14, 2}, {16, 8}, {24, 8}, {32, 4}, {60, 4}}};

/// Once more what docs/protocol.md says of a good message, written another way than in the judge.
void check_good(const Message& m, NodeId from, const wire::Limits& limits) {
  ATOLL_FUZZ_CHECK(m.kind > Kind::kNone && m.kind < Kind::kCount);
  ATOLL_FUZZ_CHECK(m.from == from && m.requester < limits.nodes && m.version == wire::kVersion);
  ATOLL_FUZZ_CHECK(wire::to_string(m.kind) != "unknown" && !wire::meaning(m.kind).empty());
  if (m.kind == Kind::kElementLock || m.kind == Kind::kElementAnswer) {
    const GlobalAddress element(m.line);
    ATOLL_FUZZ_CHECK(element.node() == (m.kind == Kind::kElementLock ? limits.self : from));
    ATOLL_FUZZ_CHECK(element.offset() < limits.memory_bytes[element.node()]);
    ATOLL_FUZZ_CHECK(m.kind == Kind::kElementLock ? m.requester == from : m.slots[0] < wire::kElementAnswers);
  }
  if (!wire::is_line_kind(m.kind)) return;
  ATOLL_FUZZ_CHECK(m.count >= 1 && m.count <= wire::kMaxRun);
  for (std::uint64_t i = 0; i < m.count; ++i) {
    const GlobalAddress line = wire::line_of(m, std::uint32_t(i), limits.line_bytes);
    ATOLL_FUZZ_CHECK(line.node() < limits.nodes && line.node() == GlobalAddress(m.line).node());
    ATOLL_FUZZ_CHECK(line.offset() % limits.line_bytes == 0);
    ATOLL_FUZZ_CHECK(line.offset() + limits.line_bytes <= limits.memory_bytes[line.node()]);
    ATOLL_FUZZ_CHECK(!wire::has_slots(m.kind) || m.slots[i] < limits.cache_slots[m.requester]);
  }
  if (m.kind != Kind::kWriteHome) return;
  const wire::SmallWrite write = wire::small_write(m);
  ATOLL_FUZZ_CHECK(m.count == 1 && write.bytes >= 1 && write.bytes <= sizeof(m.slots));
  ATOLL_FUZZ_CHECK(std::uint64_t{write.offset} + write.bytes <= limits.line_bytes);
  const bool guarded = (m.flags & wire::kGuarded) != 0;
  ATOLL_FUZZ_CHECK(!guarded || (write.bytes <= wire::GuardedWrite::kMaxBytes && write.guard < limits.line_bytes / 8));
}

}  // namespace
}  // namespace atoll::fuzz

using namespace atoll;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  wire::Limits limits;
  limits.nodes = NodeId(1 + input.below(fuzz::kMostNodes));
  limits.self = NodeId(input.below(limits.nodes));
  const auto from = NodeId(input.below(limits.nodes));
  limits.line_bytes = 64u << input.below(7);
  limits.epochs = fuzz::kEpochs.data();
  limits.cache_slots = fuzz::kSlots.data();
  limits.memory_bytes = fuzz::kMemory.data();
  while (!input.empty()) {
    const auto message = input.take<wire::Message>();
    const char* why = nullptr;
    const wire::Verdict verdict = wire::judge(message, from, limits, &why);
    ATOLL_FUZZ_CHECK((verdict == wire::Verdict::kMalformed) == (why != nullptr));
    if (why == nullptr) fuzz::check_good(message, from, limits);
    ATOLL_FUZZ_CHECK(!wire::to_string(message).empty());
    (void)wire::direction(message.kind);
  }
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  const fuzz::Records form{fuzz::kHeaderBytes, sizeof(wire::Message), fuzz::kFields};
  return fuzz::mutate_records(form, data, size, max_size, seed);
}
