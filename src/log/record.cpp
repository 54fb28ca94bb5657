#include "log/record.hpp"

#include <fmt/format.h>

#include <array>
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

std::string parts_text(const Record& record) {
  const auto parts = parts_of(record.payload);
  if (!parts) return "damaged";
  std::string text = fmt::format("{} writes:", parts->size());
  for (const Part& part : *parts) {
    text +=
        fmt::format(" {} tenure {} {} bytes;", GlobalAddress(part.address).to_string(), part.tenure, part.bytes.size());
  }
  text.pop_back();
  return text;
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
    case RecordType::kTogether: return parts_text(record);
  }
  return "";
}

}  // namespace

void append_part(std::vector<std::byte>& payload, const Part& part) {
  const std::array<std::uint64_t, 3> head{part.address, part.tenure, part.bytes.size()};
  const std::size_t at = payload.size();
  payload.resize(at + part_bytes(part.bytes.size()));
  std::memcpy(payload.data() + at, head.data(), sizeof(head));
  if (!part.bytes.empty()) std::memcpy(payload.data() + at + sizeof(head), part.bytes.data(), part.bytes.size());
}

std::optional<std::vector<Part>> parts_of(std::span<const std::byte> payload) {
  std::vector<Part> parts;
  while (!payload.empty()) {
    std::array<std::uint64_t, 3> head;
    if (payload.size() < sizeof(head)) return {};
    std::memcpy(head.data(), payload.data(), sizeof(head));
    const std::uint64_t bytes = head[2];
    if (bytes > payload.size() || part_bytes(bytes) > payload.size()) return {};
    parts.push_back({head[0], head[1], payload.subspan(sizeof(head), bytes)});
    payload = payload.subspan(part_bytes(bytes));
  }
  return parts;
}

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
    case RecordType::kTogether: return "together";
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
