// Writes of several lines at once, of which a crash leaves all or none: see docs/recovery.md.
//
// The newest bytes of a line are in the log of the node that may write it. Who holds all of the lines may therefore put
// all of the writes into one record of its own log, and nobody else has to agree.
#include <algorithm>
#include <vector>

#include "runtime/bytes.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

/// The parts, cut where lines end.
Result<std::vector<WritePart>> Runtime::cut_at_lines(std::span<const WritePart> parts) const {
  std::vector<WritePart> pieces;
  pieces.reserve(parts.size() + parts.size() / 2);
  for (const WritePart& part : parts) {
    if (const Status status = check_range(part.address, part.bytes.size()); !status.ok()) return status;
    GlobalAddress at = part.address;
    for (std::span<const std::byte> left = part.bytes; !left.empty();) {
      const std::uint64_t line_bytes = line_bytes_at(at);
      const std::size_t bytes = std::min<std::size_t>(left.size(), line_bytes - (at.offset() & (line_bytes - 1)));
      pieces.push_back({at, left.first(bytes)});
      at += std::int64_t(bytes);
      left = left.subspan(bytes);
    }
  }
  if (journal_ == nullptr) return pieces;
  std::uint64_t logged = 0;
  for (const WritePart& piece : pieces) logged += log::part_bytes(piece.bytes.size());
  if (logged <= journal_->most_together()) return pieces;
  return Status(Errc::kInvalidArgument,
                "what is written together must fit a block of the log: write less, or give a larger --log-size");
}

Status Runtime::write_together(std::span<const WritePart> parts) {
  const Result<std::vector<WritePart>> pieces = cut_at_lines(parts);
  if (!pieces.ok()) return pieces.status();
  ThreadState& thread = threads_.current();
  if (const Status status = fence_writes(thread); !status.ok()) return status;
  if (pieces->empty()) return {};
  // In the order of addresses, as all locks of ranges: so two of these do not wait for each other.
  std::vector<GlobalAddress> lines;
  lines.reserve(pieces->size());
  for (const WritePart& piece : *pieces) {
    lines.push_back(GlobalAddress(piece.address.bits() & ~(line_bytes_at(piece.address) - 1)));
  }
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  while (true) {
    Status status;
    std::size_t locked = 0;
    while (locked < lines.size() && status.ok()) {
      status = lock_line(thread, lines[locked], LockMode::kWrite, false);
      if (status.ok()) ++locked;
    }
    const Errc code = status.ok() ? store_together(thread, *pieces, lines) : Errc::kOk;
    for (std::size_t i = 0; i < locked; ++i) unlock_line(lines[i], LockMode::kWrite);
    if (!status.ok()) return status;
    if (code == Errc::kOk) return settle(thread);
    if (code != Errc::kStorageFull) return {code, "the log cannot be written any more", self_};
    // Nothing was changed. No line is held while this waits: that may take as long as a checkpoint, or as a full disk.
    if (status = wait_for_log(thread); !status.ok()) return status;
  }
}

/// All versions are taken before the record is logged and given back after the last store: so the log has the writes of
/// each line in the order in which they were done, whoever else on this node writes there, and who reads more than a
/// word sees all that changes in a line at once. REQUIRES: the thread has locked `lines` to write, and they are sorted.
Errc Runtime::store_together(ThreadState& thread, std::span<const WritePart> pieces,
                             std::span<const GlobalAddress> lines) {
  const auto line_at = [&](GlobalAddress address) -> detail::Line& {
    return *detail::find_line(lines_->table(), address.bits());
  };
  // The locks keep the lines here. The hazard is for checkpoints, which wait for writes that are logged and not stored.
  detail::enter_hazard_fenced(*thread.slot, lines.front().bits());
  for (const GlobalAddress line : lines) coherence::begin_write(line_at(line));
  Errc code = Errc::kOk;
  if (journal_ != nullptr) {
    std::vector<Journal::Change> changes;
    for (const WritePart& piece : pieces) {
      changes.push_back({place_of(line_at(piece.address), piece.address), piece.address, piece.bytes});
    }
    const Result<log::Sequence> logged = journal_->note_together(writer_of(thread), changes);
    code = logged.status().code();
    if (logged.ok()) thread.note_logged(*logged);
  }
  for (std::size_t i = 0; i < pieces.size() && code == Errc::kOk; ++i) {
    ATOLL_POINT();
    std::atomic_signal_fence(std::memory_order_seq_cst);  // in their order, as the processor keeps it
    const auto& [address, bytes] = pieces[i];
    std::byte* const into = line_at(address).byte_at(address);
    if (is_one_word(address.bits(), bytes.size())) {
      copy_word(into, bytes.data(), bytes.size());
    } else {
      copy_bytes(into, bytes.data(), bytes.size());
    }
  }
  for (const GlobalAddress line : lines) coherence::end_write(line_at(line));
  detail::leave_hazard(*thread.slot);
  return code;
}

}  // namespace atoll::runtime
