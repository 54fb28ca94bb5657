// The bytes of a log file, for the one who writes it and the one who reads it. docs/formats.md has the same in words.
//
//   | file header, 4096 bytes | block | block | ...          block = | block header, 64 bytes | record | record | ...
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/crc32c.hpp"
#include "log/record.hpp"
#include "storage/disk.hpp"

namespace atoll::log {

static_assert(std::endian::native == std::endian::little, "what is on disk has its low byte first");

inline constexpr std::uint64_t kLogMagic = 0x474f4c4c4c4f5441;  // "ATOLLLOG"
inline constexpr std::uint32_t kLogVersion = 2;
inline constexpr std::uint64_t kFileHeaderBytes = 4096;
inline constexpr std::array<std::uint64_t, 2> kTruncationAt = {512, 1024};  // sectors of their own
inline constexpr std::uint64_t kEndingAt = 1536;

/// At the beginning of the file; written once, before anything else.
struct FileHeader {
  std::uint64_t magic = kLogMagic;
  std::uint32_t version = kLogVersion;
  std::uint32_t block_bytes = 0;
  std::uint64_t blocks = 0;
  std::uint64_t generation = 0;  // which life of the node
  std::uint64_t first = 0;       // no record has a lower sequence
  storage::BootId boot{};        // of the machine, when the log was made
  NodeId node = 0;
  std::uint8_t mode = 0;  // LogMode
  std::uint8_t zero = 0;
  std::uint32_t crc = 0;  // of all before it
};
static_assert(sizeof(FileHeader) == 64 && offsetof(FileHeader, boot) == 40 && offsetof(FileHeader, crc) == 60);

/// Records below `before` are not needed any more. Written in turn to two places: the higher valid one counts.
struct Truncation {
  std::uint64_t before = 0;
  std::uint32_t zero = 0;
  std::uint32_t crc = 0;  // of the generation, and all before it
};
static_assert(sizeof(Truncation) == 16 && offsetof(Truncation, crc) == 12);

/// Written when the node has ended in order: the disk has all of the log, and of the checkpoint.
struct Ending {
  std::uint64_t last = 0;  // the highest sequence
  std::uint32_t zero = 0;
  std::uint32_t crc = 0;  // of the generation, and all before it
};
static_assert(sizeof(Ending) == 16 && offsetof(Ending, crc) == 12);

inline constexpr std::uint64_t kBlockMagic = 0x4b4c424c4c4f5441;  // "ATOLLBLK"

/// Begins a block; written anew each time that a writer takes the block.
struct BlockHeader {
  std::uint64_t magic = kBlockMagic;
  std::uint64_t stamp = 0;  // different each time that any block of the file is taken
  std::uint64_t first = 0;  // no record in it has a lower sequence
  std::uint32_t index = 0;  // which block of the file
  std::uint32_t crc = 0;    // of the file's generation, and all before it
  std::array<std::uint64_t, 4> zero{};
};
static_assert(sizeof(BlockHeader) == 64 && offsetof(BlockHeader, crc) == 28);

/// Begins a record; the payload follows, with zeros up to a multiple of 8.
struct RecordHeader {
  std::uint32_t crc = 0;     // of the block's generation and stamp (see record_seed), and all behind it, zeros included
  std::uint32_t length = 0;  // of the payload
  RecordType type = RecordType::kNone;
  std::uint8_t flags = 0;
  NodeId node = 0;
  std::uint32_t epoch = 0;
  std::uint64_t sequence = 0;
  std::uint64_t address = 0;
  std::uint64_t number = 0;
};
static_assert(sizeof(RecordHeader) == 40 && offsetof(RecordHeader, length) == 4 && offsetof(RecordHeader, type) == 8 &&
              offsetof(RecordHeader, flags) == 9 && offsetof(RecordHeader, node) == 10 &&
              offsetof(RecordHeader, epoch) == 12 && offsetof(RecordHeader, sequence) == 16 &&
              offsetof(RecordHeader, address) == 24 && offsetof(RecordHeader, number) == 32);

[[nodiscard]] constexpr std::uint64_t padded(std::uint64_t bytes) noexcept {
  return (bytes + 7) & ~std::uint64_t{7};
}

[[nodiscard]] inline std::uint32_t crc_of(const FileHeader& header) noexcept {
  return base::crc32c(0, std::as_bytes(std::span(&header, 1)).first(offsetof(FileHeader, crc)));
}
[[nodiscard]] inline std::uint32_t crc_of(const Truncation& truncation, std::uint64_t generation) noexcept {
  return base::crc32c(base::crc32c_of(0, generation),
                      std::as_bytes(std::span(&truncation, 1)).first(offsetof(Truncation, crc)));
}
[[nodiscard]] inline std::uint32_t crc_of(const Ending& ending, std::uint64_t generation) noexcept {
  return base::crc32c(base::crc32c_of(0, generation),
                      std::as_bytes(std::span(&ending, 1)).first(offsetof(Ending, crc)));
}
[[nodiscard]] inline std::uint32_t crc_of(const BlockHeader& header, std::uint64_t generation) noexcept {
  return base::crc32c(base::crc32c_of(0, generation),
                      std::as_bytes(std::span(&header, 1)).first(offsetof(BlockHeader, crc)));
}
/// What the checksum of each record in a block begins with. Two uses of a block have different ones, and then no bytes
/// have the same checksum in both: what is left of the earlier use is never taken for a record.
[[nodiscard]] inline std::uint32_t record_seed(std::uint64_t generation, std::uint64_t stamp) noexcept {
  return base::crc32c_of(base::crc32c_of(0, generation), stamp);
}

}  // namespace atoll::log
