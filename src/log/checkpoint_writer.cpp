#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "log/checkpoint.hpp"

namespace atoll::log {
namespace {

constexpr std::size_t kLinesAtOnce = 4096;

/// What an unfinished first checkpoint has left is of no use: memory begins as zeros.
void remove_leftovers(storage::Disk& disk) {
  for (const char* const name : {kMemoryName, kLinesName}) {
    if (disk.exists(name)) disk.remove(name).or_throw();
  }
}

}  // namespace

CheckpointWriter::CheckpointWriter(storage::Disk& disk, const CheckpointShape& shape) : shape_(shape) {
  ATOLL_CHECK(shape.line_bytes >= 8 && shape.memory_bytes % shape.line_bytes == 0);
  header_ = disk.open(kCheckpointName, storage::OpenMode::kCreate);
  const auto found = read_checkpoint_header(*header_);
  found.status().or_throw();
  if (const auto& header = *found) {
    if (header->memory_bytes != shape.memory_bytes || header->line_bytes != shape.line_bytes ||
        header->node != shape.node) {
      throw Error(
          fmt::format("the checkpoint in {} is of node {} with {} bytes in lines of {}, not of node {} with {} "
                      "bytes in lines of {}",
                      disk.path(), header->node, header->memory_bytes, header->line_bytes, shape.node,
                      shape.memory_bytes, shape.line_bytes));
    }
    generation_ = header->generation;
    redo_from_ = header->redo_from;
  } else {
    remove_leftovers(disk);
  }
  memory_ = disk.open(kMemoryName, storage::OpenMode::kCreate);
  lines_ = disk.open(kLinesName, storage::OpenMode::kCreate);
  if (!*found) {  // at full length from the start, so that one that is shorter has been cut off
    memory_->extend(shape.memory_bytes).or_throw();
    lines_->extend(shape.memory_bytes / shape.line_bytes * sizeof(LineEntry)).or_throw();
  }
  for (std::size_t k = 0; k < 2; ++k) blob_files_[k] = disk.open(kBlobNames[k], storage::OpenMode::kCreate);
  disk.sync_directory().or_throw();
}

/// A disk that is full may have room later: what was written stays, and the rest is written again. After any other
/// failure, and after any of a sync, nobody knows what the disk has.
Status CheckpointWriter::written(Status status) noexcept {
  if (!status.ok() && status.code() != Errc::kStorageFull) failed_ = status;
  return status;
}

Status CheckpointWriter::sync(storage::File& file) {
  if (!shape_.is_synced) return failed_;
  const Status status = file.sync();
  if (!status.ok()) failed_ = Status(Errc::kStorage, status.what());
  return failed_;
}

Status CheckpointWriter::begin(Sequence redo_from) {
  ATOLL_CHECK(redo_from >= redo_from_);
  if (!failed_.ok()) return failed_;
  redo_from_ = redo_from;
  begun_ = true;
  blobs_.clear();
  next_ = {};
  return {};
}

Status CheckpointWriter::write_memory(std::uint64_t offset, std::span<const std::byte> bytes) {
  ATOLL_CHECK(begun_ && offset <= shape_.memory_bytes && bytes.size() <= shape_.memory_bytes - offset);
  if (!failed_.ok()) return failed_;
  return written(memory_->write(offset, bytes));
}

Status CheckpointWriter::write_lines(std::uint64_t first, std::span<const LineMeta> lines) {
  const std::uint64_t count = shape_.memory_bytes / shape_.line_bytes;
  ATOLL_CHECK(begun_ && first <= count && lines.size() <= count - first);
  if (!failed_.ok()) return failed_;
  std::vector<LineEntry> entries;
  while (!lines.empty()) {
    const auto some = lines.first(std::min(lines.size(), kLinesAtOnce));
    entries.clear();
    for (const LineMeta& line : some) entries.push_back({line.tenure, std::uint16_t(~line.owner), {}});
    const Status status = written(lines_->write(first * sizeof(LineEntry), std::as_bytes(std::span(entries))));
    if (!status.ok()) return status;
    first += some.size();
    lines = lines.subspan(some.size());
  }
  return {};
}

void CheckpointWriter::set_blob(const std::string& name, std::span<const std::byte> bytes) {
  ATOLL_CHECK(begun_ && name.size() <= 255);
  blobs_[name].assign(bytes.begin(), bytes.end());
}

Status CheckpointWriter::write_blobs() {
  ATOLL_CHECK(begun_);
  if (!failed_.ok()) return failed_;
  if (generation_ == 0) {  // both places, so that no header is written into a hole later
    const std::vector<std::byte> none(2 * kCheckpointSlotBytes);
    if (const Status status = written(header_->write(0, none)); !status.ok()) return status;
  }
  const std::vector<std::byte> bytes = encode_blobs(blobs_);
  next_ = {};
  next_.line_bytes = shape_.line_bytes;
  next_.memory_bytes = shape_.memory_bytes;
  next_.node = shape_.node;
  next_.generation = generation_ + 1;
  next_.redo_from = redo_from_;
  next_.blob_bytes = bytes.size();
  next_.blob_crc = base::crc32c(0, bytes);
  storage::File& file = *blob_files_[next_.generation % 2];
  return bytes.empty() ? Status() : written(file.write(0, bytes));
}

Status CheckpointWriter::sync_all() {
  if (!failed_.ok()) return failed_;
  for (storage::File* const file :
       {memory_.get(), lines_.get(), blob_files_[0].get(), blob_files_[1].get(), header_.get()}) {
    if (const Status status = file->sync(); !status.ok()) return failed_ = status;
  }
  return {};
}

Status CheckpointWriter::commit() {
  ATOLL_CHECK(begun_);
  if (!failed_.ok()) return failed_;
  if (next_.generation == 0) {
    if (const Status status = write_blobs(); !status.ok()) return status;
  }
  begun_ = false;
  CheckpointHeader header = std::exchange(next_, {});
  for (storage::File* const file : {memory_.get(), lines_.get(), blob_files_[header.generation % 2].get()}) {
    if (const Status status = sync(*file); !status.ok()) return status;
  }
  header.crc = crc_of(header);
  // Only now: a header that is there speaks of what is there.
  const std::uint64_t at = header.generation % 2 * kCheckpointSlotBytes;
  if (const Status status = written(header_->write(at, std::as_bytes(std::span(&header, 1)))); !status.ok()) {
    return status;
  }
  if (const Status status = sync(*header_); !status.ok()) return status;
  generation_ = header.generation;
  return {};
}

}  // namespace atoll::log
