// A copy of a node's memory on disk, from which it begins its next life; the log has what changed since.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "atoll/status.hpp"
#include "base/host.hpp"
#include "log/checkpoint_format.hpp"
#include "log/record.hpp"
#include "storage/disk.hpp"

namespace atoll::log {

struct CheckpointShape {
  std::uint64_t memory_bytes = 0;  // a multiple of line_bytes
  std::uint32_t line_bytes = 0;
  NodeId node = 0;
  bool is_synced = true;  // false: it need not survive more than the process, and what is written does
};

/// Brings the checkpoint up to date, in place: only what has changed need be written.
///
/// Thread-safety: none; one thread's at a time.
/// Invariants:
///   1. Whenever process or machine end, the checkpoint that was committed last counts, with the log from its
///      redo_from on: what was written over it since is in that log, and is done again (docs/formats.md).
///   2. A commit is all or nothing.
///   3. After a sync has failed it does nothing any more.
class CheckpointWriter {
 public:
  /// Goes on where the last life stopped. Throws Error: the disk fails, or the checkpoint is of another shape.
  CheckpointWriter(storage::Disk& disk, const CheckpointShape& shape);

  /// `redo_from`: all that is logged with lower sequences is in what will be written, or was before.
  /// The log must be kept from the redo_from of the last commit on until this one is committed.
  [[nodiscard]] Status begin(Sequence redo_from);
  /// REQUIRES: in mode power, that the records of these bytes are durable. What is not in the log must not be here.
  [[nodiscard]] Status write_memory(std::uint64_t offset, std::span<const std::byte> bytes);
  [[nodiscard]] Status write_lines(std::uint64_t first, std::span<const LineMeta> lines);
  /// Small things, as a whole: those of the last commit are not kept. Names have up to 255 bytes.
  void set_blob(const std::string& name, std::span<const std::byte> bytes);
  /// Behind the last set_blob: all that commit() would still need room for has it from then on. Or commit() does it.
  [[nodiscard]] Status write_blobs();
  /// When it has returned Ok the checkpoint counts, and is durable if it is synced.
  /// kStorageFull, as by the others: begin() again, later.
  [[nodiscard]] Status commit();

  /// The disk has what was written, in any mode.
  [[nodiscard]] Status sync_all();

  /// How many there have been; 0: none yet.
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }

 private:
  [[nodiscard]] Status written(Status status) noexcept;
  [[nodiscard]] Status sync(storage::File& file);

  const CheckpointShape shape_;
  std::unique_ptr<storage::File> header_;
  std::unique_ptr<storage::File> memory_;
  std::unique_ptr<storage::File> lines_;
  std::array<std::unique_ptr<storage::File>, 2> blob_files_;
  std::uint64_t generation_ = 0;
  Sequence redo_from_ = 0;
  bool begun_ = false;
  CheckpointHeader next_;  // as far as write_blobs() knows it
  Blobs blobs_;
  Status failed_;
};

/// Who loads a checkpoint's memory: so many threads, each of which may do something to a large piece before it is read.
struct LoadHelp {
  base::Host& host = base::Host::real();
  unsigned threads = 1;
  std::function<void(std::span<std::byte>)> prepare{};
};

/// Thread-safety: none.
class CheckpointReader {
 public:
  /// The checkpoint that counts, if one was ever committed. Throws Error: the disk fails, or what is there is damaged.
  [[nodiscard]] static std::optional<CheckpointReader> open(storage::Disk& disk);

  [[nodiscard]] std::uint64_t generation() const noexcept { return header_.generation; }
  [[nodiscard]] Sequence redo_from() const noexcept { return header_.redo_from; }
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept { return header_.memory_bytes; }
  [[nodiscard]] std::uint32_t line_bytes() const noexcept { return header_.line_bytes; }
  [[nodiscard]] NodeId node() const noexcept { return header_.node; }
  [[nodiscard]] std::uint64_t lines() const noexcept { return header_.memory_bytes / header_.line_bytes; }
  [[nodiscard]] const Blobs& blobs() const noexcept { return blobs_; }

  /// Any part of the memory; what was never written is zeros.
  [[nodiscard]] Status read_memory(std::uint64_t offset, std::span<std::byte> into);
  /// All of it, into memory that is all zeros; what was never written is not touched. In large pieces, of which the
  /// next are on their way while some are copied.
  [[nodiscard]] Status load_memory(std::span<std::byte> into, const LoadHelp& help = {});
  [[nodiscard]] Status read_lines(std::uint64_t first, std::span<LineMeta> into);

 private:
  CheckpointReader() = default;

  CheckpointHeader header_;
  std::unique_ptr<storage::File> memory_;
  std::unique_ptr<storage::File> lines_;
  Blobs blobs_;
};

}  // namespace atoll::log
