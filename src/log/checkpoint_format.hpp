// The bytes of a checkpoint, for the one who writes it and those who read it. docs/formats.md has the same in words,
// and why a checkpoint may be changed in place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/crc32c.hpp"
#include "log/record.hpp"
#include "storage/disk.hpp"

namespace atoll::log {

inline constexpr const char* kCheckpointName = "checkpoint";
inline constexpr const char* kMemoryName = "checkpoint.memory";
inline constexpr const char* kLinesName = "checkpoint.lines";
inline constexpr std::array<const char*, 2> kBlobNames = {"checkpoint.blobs.0", "checkpoint.blobs.1"};

inline constexpr std::uint64_t kCheckpointMagic = 0x504b434c4c4f5441;  // "ATOLLCKP"
inline constexpr std::uint32_t kCheckpointVersion = 1;
inline constexpr std::uint64_t kCheckpointSlotBytes = 4096;

/// One of two, of which the one with the higher generation counts; generation % 2 says which.
struct CheckpointHeader {
  std::uint64_t magic = kCheckpointMagic;
  std::uint32_t version = kCheckpointVersion;
  std::uint32_t line_bytes = 0;
  std::uint64_t generation = 0;
  std::uint64_t redo_from = 0;  // recovery does again what was logged from here on
  std::uint64_t memory_bytes = 0;
  std::uint64_t blob_bytes = 0;  // in the file kBlobNames[generation % 2]
  std::uint32_t blob_crc = 0;
  NodeId node = 0;
  std::uint16_t zero = 0;
  std::uint32_t zero_too = 0;
  std::uint32_t crc = 0;  // of all before it
};
static_assert(sizeof(CheckpointHeader) == 64 && offsetof(CheckpointHeader, crc) == 60);

/// What a home knows of one of its lines.
struct LineMeta {
  std::uint64_t tenure = 0;
  NodeId owner = kNoNode;
  friend bool operator==(const LineMeta&, const LineMeta&) = default;
};

/// The same on disk, where what was never written is zeros and means the same as LineMeta().
struct LineEntry {
  std::uint64_t tenure = 0;
  std::uint16_t not_owner = 0;  // the bits of the owner, turned round
  std::array<std::uint16_t, 3> zero{};
};
static_assert(sizeof(LineEntry) == 16 && offsetof(LineEntry, not_owner) == 8);

using Blobs = std::map<std::string, std::vector<std::byte>>;

[[nodiscard]] std::uint32_t crc_of(const CheckpointHeader& header) noexcept;
[[nodiscard]] std::vector<std::byte> encode_blobs(const Blobs& blobs);
/// Nothing where the bytes are none.
[[nodiscard]] std::optional<Blobs> decode_blobs(std::span<const std::byte> bytes);

/// Of the file kCheckpointName: the header that counts, if a checkpoint was ever finished. kStorage: it is damaged in a
/// way in which no crash damages it.
[[nodiscard]] Result<std::optional<CheckpointHeader>> read_checkpoint_header(storage::File& file);

}  // namespace atoll::log
