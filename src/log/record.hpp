// What stands in a log: records. See docs/formats.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "atoll/address.hpp"
#include "atoll/status.hpp"

namespace atoll::log {

/// The number of a record: one more for each that a node logs, over all its threads and lives. 0 is none.
using Sequence = std::uint64_t;

enum class RecordType : std::uint8_t {
  kNone = 0,      // what memory that was never written reads as
  kWrite = 1,     // some bytes of a line. address: the first; number: the tenure; payload: the bytes
  kImage = 2,     // a line, as its owner has it. address: the line; number: the tenure; payload: all of it
  kGrant = 3,     // the home gives a line away. address: the line; number: the new tenure; node: the new owner
  kTaken = 4,     // the home has the line back. number: its own new tenure; node: who had it; payload: all of it, or
                  // nothing where it was not changed
  kReturned = 5,  // the home has acknowledged the line: records of it up to this tenure are not needed. number: tenure
  kUndo = 6,      // the home takes a grant back that nobody has made use of. number: its own new tenure; node: to whom
  kAllocate = 7,  // address; number: bytes
  kFree = 8,      // address
  kRegion = 9,    // a region with lines of its own. address; number: bytes; payload: bytes of a line (8 bytes)
  kName = 10,     // address; payload: its name
  kPeer = 11,  // a node of the cluster. node: which; number: bytes of its memory; payload: slots of its cache (8 bytes)
  kTogether = 12,  // writes of several lines, all or none. address: the first; number: how many; payload: see Part
};
inline constexpr std::uint8_t kLastType = std::uint8_t(RecordType::kTogether);

/// What a record is about; its sequence, length and checksum are the log's business.
struct RecordHead {
  RecordType type = RecordType::kNone;
  std::uint8_t flags = 0;  // for whoever logs
  NodeId node = 0;         // kGrant, kTaken, kUndo: the other node; else who logs
  std::uint32_t epoch = 0;
  std::uint64_t address = 0;  // bits of a GlobalAddress
  std::uint64_t number = 0;   // tenure, bytes: what the type says
};

struct Record {
  RecordHead head;
  Sequence sequence = 0;
  std::span<const std::byte> payload;
};

/// One of the writes that a record of kTogether has.
struct Part {
  std::uint64_t address = 0;  // of the first byte
  std::uint64_t tenure = 0;   // of its line
  std::span<const std::byte> bytes;
};
/// What a part takes in the payload.
[[nodiscard]] constexpr std::uint64_t part_bytes(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t kHead = 24;  // address, tenure, length, zero
  return kHead + ((bytes + 7) & ~std::uint64_t{7});
}
void append_part(std::vector<std::byte>& payload, const Part& part);
/// The parts of a payload, which must outlive them; nothing where it is no such payload.
[[nodiscard]] std::optional<std::vector<Part>> parts_of(std::span<const std::byte> payload);

/// "write", "image" and so on; nullptr for what is no type.
[[nodiscard]] const char* to_string(RecordType type) noexcept;
/// One line: "17 write 2:0x1a40 tenure 3, 8 bytes, epoch 1".
[[nodiscard]] std::string to_string(const Record& record);

}  // namespace atoll::log
