#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/mutex.hpp"
#include "log/checkpoint.hpp"

namespace atoll::log {
namespace {

constexpr std::uint64_t kPiece = 4 << 20;
constexpr std::uint64_t kAhead = 4 * kPiece;  // read while pieces are copied
constexpr std::size_t kLinesAtOnce = 4096;

/// What of the file is in [offset, offset + into.size()); the rest is left alone.
Status read_data(storage::File& file, std::uint64_t offset, std::span<std::byte> into) {
  const std::uint64_t end = offset + into.size();
  for (std::uint64_t at = offset; at < end;) {
    const auto extent = file.next_extent(at);
    if (!extent.ok()) return extent.status();
    if (extent->bytes == 0 || extent->offset >= end) return {};
    const std::uint64_t stop = std::min(extent->offset + extent->bytes, end);
    if (const Status status = file.read(extent->offset, into.subspan(extent->offset - offset, stop - extent->offset));
        !status.ok()) {
      return status;
    }
    at = stop;
  }
  return {};
}

/// Hands out the pieces of a file that are no holes, to whoever asks.
/// Thread-safety: every method may be called from any thread.
class Pieces {
 public:
  Pieces(storage::File& file, std::uint64_t end) : file_(file), end_(end) {}

  /// The next; what will be wanted soon is on its way when it returns. Nothing: there is no more, or reading has
  /// failed.
  [[nodiscard]] std::optional<storage::Extent> next() {
    const base::MutexLock lock(mutex_);
    if (!status_.ok() || at_ >= end_) return std::nullopt;
    if (at_ >= extent_end_) {
      const auto extent = file_.next_extent(at_);
      if (!extent.ok()) status_ = extent.status();
      if (!extent.ok() || extent->bytes == 0 || extent->offset >= end_) {
        at_ = end_;
        return std::nullopt;
      }
      at_ = ahead_ = extent->offset;
      extent_end_ = std::min(extent->offset + extent->bytes, end_);
    }
    const std::uint64_t to = std::min((at_ / kPiece + 1) * kPiece, extent_end_);
    const std::uint64_t wanted = std::min(to + kAhead, extent_end_);
    if (wanted > ahead_) file_.read_ahead(ahead_, wanted - ahead_);
    ahead_ = std::max(ahead_, wanted);
    const std::uint64_t from = std::exchange(at_, to);
    return storage::Extent{from, to - from};
  }
  void fail(Status status) {
    const base::MutexLock lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
  }
  [[nodiscard]] Status status() const {
    const base::MutexLock lock(mutex_);
    return status_;
  }

 private:
  storage::File& file_;
  const std::uint64_t end_;
  mutable base::Mutex mutex_;
  std::uint64_t at_ ATOLL_GUARDED_BY(mutex_) = 0;
  std::uint64_t extent_end_ ATOLL_GUARDED_BY(mutex_) = 0;
  std::uint64_t ahead_ ATOLL_GUARDED_BY(mutex_) = 0;  // up to where it was asked to be read
  Status status_ ATOLL_GUARDED_BY(mutex_);
};

/// A part of a checkpoint, which its first writer has made so long.
std::unique_ptr<storage::File> open_part(storage::Disk& disk, const char* name, std::uint64_t bytes) {
  const char* const remedy = "put it back from a copy, or, where its memory may be lost, start without --recover";
  if (!disk.exists(name)) {
    throw Error(fmt::format("{}/{}, a part of the checkpoint, is missing: {}", disk.path(), name, remedy),
                Errc::kStorage);
  }
  auto file = disk.open(name, storage::OpenMode::kRead);
  const std::uint64_t size = file->size().value();
  if (size >= bytes) return file;
  throw Error(fmt::format("{}/{}, a part of the checkpoint, has {} bytes instead of {}: {}", disk.path(), name, size,
                          bytes, remedy),
              Errc::kStorage);
}

Blobs read_blobs(storage::Disk& disk, const CheckpointHeader& header) {
  const char* const name = kBlobNames[header.generation % 2];
  const auto file = open_part(disk, name, header.blob_bytes);
  std::vector<std::byte> bytes(header.blob_bytes);
  if (!bytes.empty()) file->read(0, bytes).or_throw();
  std::optional<Blobs> blobs;
  if (base::crc32c(0, bytes) == header.blob_crc) blobs = decode_blobs(bytes);
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
  reader.memory_ = open_part(disk, kMemoryName, reader.memory_bytes());
  reader.lines_ = open_part(disk, kLinesName, reader.lines() * sizeof(LineEntry));
  reader.blobs_ = read_blobs(disk, reader.header_);
  return reader;
}

Status CheckpointReader::read_memory(std::uint64_t offset, std::span<std::byte> into) {
  ATOLL_CHECK(offset <= memory_bytes() && into.size() <= memory_bytes() - offset);
  if (into.empty()) return {};
  std::memset(into.data(), 0, into.size());
  return read_data(*memory_, offset, into);
}

Status CheckpointReader::load_memory(std::span<std::byte> into, const LoadHelp& help) {
  ATOLL_CHECK(into.size() == memory_bytes());
  Pieces pieces(*memory_, into.size());
  const auto work = [&] {
    while (const auto piece = pieces.next()) {
      const std::span<std::byte> to = into.subspan(piece->offset, piece->bytes);
      if (help.prepare && to.size() >= kPiece / 2) help.prepare(to);
      if (Status status = memory_->read(piece->offset, to); !status.ok()) pieces.fail(std::move(status));
    }
  };
  std::vector<std::unique_ptr<base::Host::Thread>> others;
  const std::uint64_t threads = std::min<std::uint64_t>(help.threads, into.size() / kPiece);
  for (std::uint64_t k = 1; k < threads; ++k) others.push_back(help.host.start(work));
  work();
  others.clear();  // when they have ended
  return pieces.status();
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
