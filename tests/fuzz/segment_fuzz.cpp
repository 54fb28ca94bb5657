// A peer's segment: whatever its file holds, it is refused, or all parts of it lie inside the mapping. A peer may also
// write to its header afterwards; the parts stay where they were.
//
//   input = how the file is made (1 byte) | its size (8 bytes) | the header that it begins with | a later header
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <span>

#include "atoll/status.hpp"
#include "fuzz.hpp"
#include "memory/segment.hpp"
#include "mutate.hpp"

namespace atoll::fuzz {
namespace {

using memory::Segment;
using memory::SegmentLayout;

enum How : std::uint8_t {
  kSealed = 1,
  kOwnSize = 2,   // as long as the header says
  kReadOnly = 4,  // the descriptor cannot be written through
  kLater = 8,     // the header is written over once the segment is open
};
constexpr std::size_t kLayoutBytes = sizeof(SegmentLayout);
constexpr std::uint64_t kMostBytes = 1ull << 40;  // the file is sparse; mapping costs address space alone

struct Script {
  std::uint8_t how;
  std::uint64_t bytes;
  std::array<char, kLayoutBytes> header{};
  std::array<char, kLayoutBytes> later{};
};

std::uint64_t total_bytes(const std::array<char, kLayoutBytes>& header) {
  std::uint64_t total = 0;
  std::memcpy(&total, header.data() + offsetof(SegmentLayout, total_bytes), sizeof(total));
  return total;
}

base::Fd make_file(const Script& script) {
  base::Fd fd(::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::uint64_t bytes = (script.how & kOwnSize) != 0 ? total_bytes(script.header) : script.bytes;
  (void)!::ftruncate(fd.get(), off_t(bytes % (kMostBytes + 1)));
  // Not beyond its end: that would make a small file larger.
  const std::uint64_t room = std::min<std::uint64_t>(bytes % (kMostBytes + 1), kLayoutBytes);
  (void)!::pwrite(fd.get(), script.header.data(), room, 0);
  if ((script.how & kSealed) != 0) (void)::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  if ((script.how & kReadOnly) == 0) return fd;
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  return base::Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

/// All that a node does with a peer's segment goes through these pointers. Looking at the ends of each part is enough:
/// the mapping has no holes.
void check_parts(const Segment& segment) {
  const std::uint64_t nodes = segment.layout().nodes, line_bytes = segment.layout().line_bytes;
  const auto look = [](const std::byte* at, std::uint64_t bytes) {
    if (bytes == 0) return;
    const volatile std::byte* const part = at;
    (void)part[0];
    (void)part[bytes - 1];
  };
  constexpr std::uint64_t kRing = 128 + 1024 * 64;  // as in segment.cpp
  look(segment.rings(), nodes * kRing);
  look(segment.directory(), segment.memory_bytes() / line_bytes * 32);
  look(segment.cache(), segment.cache_bytes());
  look(segment.memory(), segment.memory_bytes());
  ATOLL_FUZZ_CHECK(segment.memory_bytes() >= (1 << 20) && segment.cache_bytes() >= 64 * line_bytes);
}

}  // namespace
}  // namespace atoll::fuzz

using namespace atoll;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  fuzz::Script script;
  script.how = input.byte();
  script.bytes = input.take<std::uint64_t>();
  script.header = input.take<decltype(script.header)>();
  script.later = input.take<decltype(script.later)>();
  const base::Fd fd = fuzz::make_file(script);
  try {
    const memory::Segment segment = memory::Segment::open(fd);
    // A file that can shrink under its mapping would kill whoever touches it.
    ATOLL_FUZZ_CHECK((script.how & fuzz::kSealed) != 0);
    if ((script.how & fuzz::kLater) != 0) (void)!::pwrite(fd.get(), script.later.data(), script.later.size(), 0);
    fuzz::check_parts(segment);
  } catch (const Error& error) {
    ATOLL_FUZZ_CHECK(*error.what() != '\0');
  }
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  static constexpr std::array<fuzz::Field, 12> kFields = {
      {{0, 8}, {8, 4}, {12, 4}, {16, 4}, {20, 4}, {24, 8}, {32, 8}, {40, 8}, {48, 8}, {56, 8}, {64, 8}, {72, 8}}};
  const fuzz::Records form{9, fuzz::kLayoutBytes, kFields};
  return fuzz::mutate_records(form, data, size, max_size, seed);
}
