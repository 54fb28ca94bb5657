// What tests of the log have in common.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "log/log.hpp"
#include "log/reader.hpp"
#include "storage/faulty_disk.hpp"

namespace atoll::log {

/// 16 blocks of 4 KiB: small enough to be full soon.
inline LogConfig small_log(LogMode mode, Sequence after = 0) {
  LogConfig config;
  config.mode = mode;
  config.bytes = 4096 + 16 * 4096;
  config.max_payload = 1024;
  config.block_bytes = 4096;
  config.node = 3;
  config.after = after;
  return config;
}

inline RecordHead write_head(std::uint64_t address, std::uint64_t tenure = 1) {
  return {RecordType::kWrite, 0, 3, 1, address, tenure};
}

inline std::span<const std::byte> bytes_of(const std::uint64_t& value) {
  return std::as_bytes(std::span(&value, 1));
}

inline std::uint64_t word_of(std::span<const std::byte> payload) {
  std::uint64_t word = 0;
  std::memcpy(&word, payload.data(), std::min(sizeof(word), payload.size()));
  return word;
}

inline LoadedLog load_all(storage::Disk& disk, ReadOptions options = {false}) {
  return read_logs(disk, options).value();
}

inline std::vector<Sequence> sequences_of(const LoadedLog& loaded) {
  std::vector<Sequence> sequences;
  for (std::size_t k = 0; k < loaded.size(); ++k) sequences.push_back(loaded[k].sequence);
  return sequences;
}

}  // namespace atoll::log
