// What stands in a log: records. See docs/formats.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

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
};
inline constexpr std::uint8_t kLastType = std::uint8_t(RecordType::kPeer);

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

/// "write", "image" and so on; nullptr for what is no type.
[[nodiscard]] const char* to_string(RecordType type) noexcept;
/// One line: "17 write 2:0x1a40 tenure 3, 8 bytes, epoch 1".
[[nodiscard]] std::string to_string(const Record& record);

}  // namespace atoll::log
