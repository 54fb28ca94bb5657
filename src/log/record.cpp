#include "log/record.hpp"

#include <fmt/format.h>

#include <cstring>

namespace atoll::log {
namespace {

/// A name may be any bytes; on a screen it is letters.
std::string quoted(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    const char letter = char(byte);
    if (letter >= ' ' && letter <= '~' && letter != '"' && letter != '\\') {
      text += letter;
    } else {
      text += fmt::format("\\x{:02x}", unsigned(byte));
    }
  }
  return "\"" + text + "\"";
}

std::string details(const Record& record) {
  const RecordHead& head = record.head;
  const std::size_t bytes = record.payload.size();
  switch (head.type) {
    case RecordType::kNone: return "";
    case RecordType::kWrite:
    case RecordType::kImage: return fmt::format("tenure {}, {} bytes", head.number, bytes);
    case RecordType::kGrant: return fmt::format("tenure {} to node {}", head.number, head.node);
    case RecordType::kTaken: return fmt::format("tenure {} from node {}, {} bytes", head.number, head.node, bytes);
    case RecordType::kReturned: return fmt::format("tenure {}", head.number);
    case RecordType::kUndo: return fmt::format("tenure {}, was granted to node {}", head.number, head.node);
    case RecordType::kAllocate: return fmt::format("{} bytes", head.number);
    case RecordType::kFree: return "freed";
    case RecordType::kRegion: {
      std::uint64_t line = 0;
      if (bytes != 0) std::memcpy(&line, record.payload.data(), std::min(sizeof(line), bytes));
      return fmt::format("{} bytes in lines of {}", head.number, line);
    }
    case RecordType::kName: return quoted(record.payload);
    case RecordType::kPeer: return fmt::format("node {}, {} bytes of memory", record.head.node, record.head.number);
  }
  return "";
}

}  // namespace

const char* to_string(RecordType type) noexcept {
  switch (type) {
    case RecordType::kNone: return "none";
    case RecordType::kWrite: return "write";
    case RecordType::kImage: return "image";
    case RecordType::kGrant: return "grant";
    case RecordType::kTaken: return "taken";
    case RecordType::kReturned: return "returned";
    case RecordType::kUndo: return "undo";
    case RecordType::kAllocate: return "allocate";
    case RecordType::kFree: return "free";
    case RecordType::kRegion: return "region";
    case RecordType::kName: return "name";
    case RecordType::kPeer: return "peer";
  }
  return nullptr;
}

std::string to_string(const Record& record) {
  const char* const type = to_string(record.head.type);
  std::string text = fmt::format("{} {} {} {}, epoch {}", record.sequence, type != nullptr ? type : "unknown",
                                 GlobalAddress(record.head.address).to_string(), details(record), record.head.epoch);
  if (record.head.flags != 0) text += fmt::format(", flags {:#x}", record.head.flags);
  return text;
}

}  // namespace atoll::log
