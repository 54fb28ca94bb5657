// Checkpoints: what the log would have to be replayed for is written down, so that the log and the time to recover stay
// short however long the node runs. It is done in the background, page by page, while threads go on writing.
//
// Records say what bytes became, so it does no harm to replay one whose bytes the checkpoint has already; what must not
// happen is that a write is neither in the checkpoint nor replayed. Its record comes before its store, and a record
// before `from` is not replayed: so the stores of all such records must be done before a page is looked at. Threads are
// therefore waited for twice: after `from` is chosen, so that every page which those writes changed is marked, and
// after the marks are taken, so that who marked a page has also stored.
#include "base/log.hpp"
#include "base/racy_copy.hpp"
#include "base/units.hpp"
#include "coherence/line_version.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

using coherence::CacheState;

namespace {
constexpr std::uint64_t kCheckEvery_us = 100'000;  // how often it looks whether one is due
constexpr std::uint32_t kPagesAtOnce = 256;
constexpr std::uint32_t kSlotsAtOnce = 64;  // lines of other homes that are logged anew under one engine lock
}  // namespace

void Runtime::wake_checkpointer() {
  checkpoint_bell_.fetch_add(1, std::memory_order_release);
  host_.wake(checkpoint_bell_, base::FutexScope::kProcess);
}

void Runtime::checkpoint_forever() {
  while (!stopping_.load(std::memory_order_acquire)) {
    const std::uint32_t bell = checkpoint_bell_.load(std::memory_order_acquire);
    if (journal_->wants_checkpoint() && !is_over()) {
      const Status status = make_checkpoint();
      if (!status.ok() && status.code() != Errc::kStorageFull) return lose_log(status);
      if (!status.ok() && !checkpoint_failed_) spdlog::error("no checkpoint could be made: {}", status.to_string());
      checkpoint_failed_ = !status.ok();
      notify_all();
      if (status.ok()) continue;
      host_.sleep_for(std::chrono::microseconds(kCheckEvery_us));  // who waits for room rings again and again
      continue;
    }
    host_.wait(checkpoint_bell_, bell, kCheckEvery_us, base::FutexScope::kProcess);
  }
}

/// Every write that was begun before this is done when it returns.
void Runtime::wait_for_stores() {
  threads_.wait_for_all_writers();
  base::MutexLock lock(mutex_);  // and those of the engine
}

Status Runtime::make_checkpoint() {
  const Clock::time_point began = host_.now();
  log::CheckpointWriter& checkpoint = journal_->checkpoint();
  if (!journal_->can_checkpoint())
    return {Errc::kStorageFull, "there is no room in the log for what a checkpoint needs"};
  log::Sequence from = 0;
  std::vector<std::byte> allocator, regions, names, peers, answered;
  {
    base::MutexLock lock(mutex_);
    from = journal_->last() + 1;
    allocator = allocator_->save();
    regions = journal_->save_regions();
    names = journal_->save_names();
    peers = journal_->save_peers();
    answered = journal_->save_answered();
    journal_->log().seal();
  }
  wait_for_stores();
  const std::vector<std::uint32_t> pages = journal_->take_dirty_pages();
  wait_for_stores();
  Status status = checkpoint.begin(from);
  if (status.ok()) {
    checkpoint.set_blob(Journal::kAllocatorBlob, allocator);
    checkpoint.set_blob(Journal::kRegionsBlob, regions);
    checkpoint.set_blob(Journal::kNamesBlob, names);
    checkpoint.set_blob(Journal::kPeersBlob, peers);
    checkpoint.set_blob(Journal::kAnsweredBlob, answered);
    status = checkpoint.write_blobs();
  }
  if (status.ok()) status = write_pages(pages);
  // Last, when the disk has room for all of the checkpoint: the log's own is spent by it.
  if (status.ok()) status = log_owned_again();
  if (status.ok()) status = checkpoint.commit();
  if (!status.ok()) {
    for (const std::uint32_t page : pages) {
      journal_->mark_dirty(std::uint64_t{page} * Journal::kPageBytes, Journal::kPageBytes);
    }
    return status;
  }
  if (status = journal_->log().truncate_before(from); !status.ok()) return status;
  counters_->checkpoints.add();
  spdlog::debug("node {}: checkpoint of {} pages in {} ms, log {} in use", self_, pages.size(),
                std::chrono::duration_cast<std::chrono::milliseconds>(host_.now() - began).count(),
                base::format_bytes(journal_->log().used_bytes()));
  return {};
}

/// Pages that follow each other together, and what the directory says of their lines. They are copied first: what is in
/// the copy has been logged, and when the log is durable the copy may be.
Status Runtime::write_pages(const std::vector<std::uint32_t>& pages) {
  log::CheckpointWriter& checkpoint = journal_->checkpoint();
  std::vector<std::byte> copy;
  const std::uint32_t lines_in_page = std::max(1u, Journal::kPageBytes / options_.line_bytes);
  for (std::size_t i = 0; i < pages.size();) {
    std::size_t count = 1;
    while (i + count < pages.size() && pages[i + count] == pages[i] + count && count < kPagesAtOnce) ++count;
    const std::uint64_t offset = std::uint64_t{pages[i]} * Journal::kPageBytes;
    const std::uint64_t bytes = count * Journal::kPageBytes;
    copy.resize(bytes);
    base::racy_copy(copy.data(), segment_.memory() + offset, bytes);
    const std::uint64_t first = offset / options_.line_bytes;
    std::vector<log::LineMeta> lines(count * lines_in_page);
    {
      base::MutexLock lock(mutex_);
      const auto* const directory = reinterpret_cast<const coherence::DirEntry*>(segment_.directory());
      for (std::size_t k = 0; k < lines.size(); ++k) {
        // A line that is about to be granted has its new tenure, and no owner before that is logged.
        lines[k] = {directory[first + k].transfers, directory[first + k].owner};
      }
    }
    // Behind both: were a line's tenure in the checkpoint whose return is not in the log, its bytes would be lost.
    Status status = journal_->sync();
    if (status.ok()) status = checkpoint.write_memory(offset, copy);
    if (status.ok()) status = checkpoint.write_lines(first, lines);
    if (!status.ok()) return status;
    i += count;
  }
  return {};
}

/// Lines of other homes whose newest bytes only this node's log has: it gets them once more, so that what it had of
/// them before can go.
Status Runtime::log_owned_again() {
  for (std::uint32_t slot = 0; slot < slots_->size();) {
    base::MutexLock lock(mutex_);
    const std::uint32_t end = std::min(slot + kSlotsAtOnce, slots_->size());
    for (; slot < end; ++slot) {
      const GlobalAddress address = slots_->occupant(slot);
      if (!address) continue;
      const LineRef ref = lines_->ref(address);
      const CacheState state = ref.state();
      const bool owned =
          state == CacheState::kDirty || state == CacheState::kDirtyToShared || state == CacheState::kDirtyToInvalid;
      if (!owned) continue;
      coherence::begin_write(*ref.line);  // a thread may be about to log its image
      if (journal_->has_image(slot)) {
        journal_->note_image({ref.address, ref.bytes, ref.hot.byte_at(ref.address), ref.line->slot});
      }
      coherence::end_write(*ref.line);
    }
  }
  return journal_->sync();
}

}  // namespace atoll::runtime
