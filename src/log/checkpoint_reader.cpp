#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.hpp"
#include "log/checkpoint.hpp"

namespace atoll::log {
namespace {

constexpr std::uint64_t kPiece = 4 << 20;
constexpr std::uint64_t kAhead = 4 * kPiece;  // read while a piece is copied
constexpr std::size_t kLinesAtOnce = 4096;

/// What of the file is in [offset, offset + into.size()); the rest is left alone.
Status read_data(storage::File& file, std::uint64_t offset, std::span<std::byte> into) {
  const std::uint64_t end = offset + into.size();
  for (std::uint64_t at = offset; at < end;) {
    const auto extent = file.next_extent(at);
    if (!extent.ok()) return extent.status();
    if (extent->bytes == 0 || extent->offset >= end) return {};
    const std::uint64_t stop = std::min(extent->offset + extent->bytes, end);
    file.read_ahead(extent->offset, std::min(stop - extent->offset, kAhead));
    for (at = extent->offset; at < stop;) {
      const std::uint64_t bytes = std::min(kPiece, stop - at);
      if (at + kAhead < stop) file.read_ahead(at + kAhead, std::min(kPiece, stop - at - kAhead));
      if (const Status status = file.read(at, into.subspan(at - offset, bytes)); !status.ok()) return status;
      at += bytes;
    }
  }
  return {};
}

Blobs read_blobs(storage::Disk& disk, const CheckpointHeader& header) {
  const char* const name = kBlobNames[header.generation % 2];
  const auto file = disk.open(name, storage::OpenMode::kRead);
  const std::uint64_t size = file->size().value();
  if (size < header.blob_bytes) throw Error(fmt::format("{}/{} ends too early", disk.path(), name), Errc::kStorage);
  std::vector<std::byte> bytes(header.blob_bytes);
  if (!bytes.empty()) file->read(0, bytes).or_throw();
  std::optional<Blobs> blobs;
  if (crc32c(0, bytes) == header.blob_crc) blobs = decode_blobs(bytes);
  if (!blobs) throw Error(fmt::format("{}/{} is damaged", disk.path(), name), Errc::kStorage);
  return std::move(*blobs);
}

}  // namespace

std::optional<CheckpointReader> CheckpointReader::open(storage::Disk& disk) {
  if (!disk.exists(kCheckpointName)) return std::nullopt;
  const auto file = disk.open(kCheckpointName, storage::OpenMode::kRead);
  const auto found = read_checkpoint_header(*file);
  found.status().or_throw();
  if (!*found) return std::nullopt;
  CheckpointReader reader;
  reader.header_ = **found;
  reader.memory_ = disk.open(kMemoryName, storage::OpenMode::kRead);
  reader.lines_ = disk.open(kLinesName, storage::OpenMode::kRead);
  reader.blobs_ = read_blobs(disk, reader.header_);
  return reader;
}

Status CheckpointReader::read_memory(std::uint64_t offset, std::span<std::byte> into) {
  ATOLL_CHECK(offset <= memory_bytes() && into.size() <= memory_bytes() - offset);
  if (into.empty()) return {};
  std::memset(into.data(), 0, into.size());
  return read_data(*memory_, offset, into);
}

Status CheckpointReader::load_memory(std::span<std::byte> into) {
  ATOLL_CHECK(into.size() == memory_bytes());
  return read_data(*memory_, 0, into);
}

Status CheckpointReader::read_lines(std::uint64_t first, std::span<LineMeta> into) {
  ATOLL_CHECK(first <= lines() && into.size() <= lines() - first);
  std::vector<LineEntry> entries;
  while (!into.empty()) {
    const auto some = into.first(std::min(into.size(), kLinesAtOnce));
    entries.assign(some.size(), LineEntry{});
    const Status status = read_data(*lines_, first * sizeof(LineEntry), std::as_writable_bytes(std::span(entries)));
    if (!status.ok()) return status;
    for (std::size_t k = 0; k < some.size(); ++k) some[k] = {entries[k].tenure, NodeId(~entries[k].not_owner)};
    first += some.size();
    into = into.subspan(some.size());
  }
  return {};
}

}  // namespace atoll::log
