#include "runtime/journal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "atoll/detail/lab.hpp"
#include "atoll/detail/line.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "runtime/journal_blobs.hpp"
#include "wire/message.hpp"

namespace atoll::runtime {

using log::RecordType;
using log::Sequence;

namespace {

constexpr std::uint64_t kWordBits = 64;
constexpr std::uint64_t kMessagesAtOnce = 64;  // that the engine works on before it looks whether there is room
constexpr std::uint64_t kWriteBytes = 4096;    // of an asynchronous write, at most
constexpr std::uint32_t kLargestBlock = 256 << 10;
constexpr std::uint64_t kHeadBytes = 40;    // of a record
constexpr std::size_t kAnswersKept = 1024;  // of each node: more than it has threads

constexpr std::uint64_t kImagesInBlock =
    3;  // of the largest lines, at least: a quarter of the log's blocks may be lost

std::uint32_t largest_line_of(const Options& options, std::uint64_t slots) {
  const std::uint64_t most =
      std::min<std::uint64_t>(detail::kGrainBytes, std::bit_floor(slots * options.line_bytes / 16));
  return std::uint32_t(std::max<std::uint64_t>({most, options.line_bytes, kWriteBytes}));
}

/// With what blocks lose at their ends.
constexpr std::uint64_t in_blocks(std::uint64_t bytes) noexcept {
  return bytes / kImagesInBlock * (kImagesInBlock + 1);
}

std::uint64_t batch_bytes_of(const Options& options, std::uint64_t largest_line) {
  const std::uint64_t lines = std::max(wire::kMaxRun * (options.line_bytes + kHeadBytes), largest_line + kHeadBytes);
  return in_blocks(kMessagesAtOnce * lines + options.outstanding_writes * (kWriteBytes + kHeadBytes)) + kLargestBlock;
}

std::uint64_t images_bytes_of(const Options& options, std::uint64_t slots) {
  return in_blocks(slots * (options.line_bytes + kHeadBytes)) + kLargestBlock;
}

}  // namespace

Journal::Journal(const Options& options, base::Host& host, std::unique_ptr<storage::Disk> disk, NodeId self,
                 std::uint64_t memory_bytes, std::uint32_t slots)
    : mode_(options.log),
      self_(self),
      line_bytes_(options.line_bytes),
      memory_bytes_(memory_bytes),
      log_bytes_(options.log_bytes),
      largest_line_(largest_line_of(options, slots)),
      batch_bytes_(batch_bytes_of(options, largest_line_)),
      images_bytes_(images_bytes_of(options, slots)),
      host_(host),
      disk_(std::move(disk)),
      recover_after_reboot_(options.recover_after_reboot),
      slots_(slots),
      last_(memory_bytes / options.line_bytes),
      dirty_((memory_bytes / kPageBytes + kWordBits - 1) / kWordBits) {
  const std::uint64_t least = least_log_bytes(options, slots);
  if (log_bytes_ >= least) return;
  throw Error(fmt::format("a log of {} is too short for a cache of {}: give --log-size {} at least, or a smaller cache",
                          base::format_bytes(log_bytes_), base::format_bytes(std::uint64_t{slots} * line_bytes_),
                          base::format_bytes(least)));
}

/// What the last checkpoint has logged of the cache, what the next one will, and room to work in between.
std::uint64_t Journal::least_log_bytes(const Options& options, std::uint32_t slots) {
  return 2 * images_bytes_of(options, slots) + 3 * batch_bytes_of(options, largest_line_of(options, slots));
}

// ---- what was before ----

void Legacy::set_region(const Region& region) {
  const std::uint64_t begin = region.first.bits(), end = begin + region.bytes;
  auto at = regions.lower_bound(begin);
  if (at != regions.begin()) {
    const Region before = std::prev(at)->second;
    const std::uint64_t before_end = before.first.bits() + before.bytes;
    if (before_end > begin) std::prev(at)->second.bytes = begin - before.first.bits();
    if (before_end > end) regions[end] = {GlobalAddress(end), before_end - end, before.larger};
  }
  at = regions.lower_bound(begin);
  while (at != regions.end() && at->first < end) {
    const Region old = at->second;
    const std::uint64_t old_end = old.first.bits() + old.bytes;
    at = regions.erase(at);
    if (old_end > end) regions[end] = {GlobalAddress(end), old_end - end, old.larger};
  }
  if (region.larger != 0) regions[begin] = region;
}

void Answers::note(const Caller& caller, std::uint64_t answer) {
  Ring& ring = rings_[caller.node];
  if (ring.last.size() < kAnswersKept) return void(ring.last.emplace_back(caller.number, answer));
  ring.last[ring.oldest] = {caller.number, answer};
  ring.oldest = (ring.oldest + 1) % kAnswersKept;
}

void Journal::begin(std::uint32_t epoch, const Legacy& legacy, OnDurable on_durable, OnLost on_lost) {
  epoch_ = epoch;
  on_lost_ = std::move(on_lost);
  log::LogConfig config;
  config.mode = mode_;
  config.bytes = log_bytes_;
  config.node = self_;
  config.after = highest_;
  config.replaces = replaces_;
  config.after_generation = generation_;
  config.max_payload = largest_line_;
  config.block_bytes = std::uint32_t(
      std::clamp<std::uint64_t>(std::bit_floor(log_bytes_ / 64), (kImagesInBlock + 1) * largest_line_, kLargestBlock));
  config.reserve_bytes = images_bytes_ + batch_bytes_;
  log_ = log::Log::open(*disk_, config);
  disk_->set_begun(true);
  engine_ = std::make_unique<Writer>(*log_);
  if (checkpoint_ == nullptr) checkpoint_ = std::make_unique<log::CheckpointWriter>(*disk_, shape());
  if (mode_ == LogMode::kPower) {
    commit_ = std::make_unique<log::GroupCommit>(
        *log_, host_, [on_durable = std::move(on_durable)](Sequence, const Status& status) { on_durable(status); });
  }
  now_.names = legacy.names;
}

// ---- the write path ----

std::atomic<Sequence>& Journal::last_of(GlobalAddress line, std::uint32_t slot) const noexcept {
  static_assert(sizeof(std::atomic<Sequence>) == sizeof(std::uint64_t));
  if (slot != 0) return slots_[slot - 1].last;
  return reinterpret_cast<std::atomic<Sequence>&>(last_[line.offset() / line_bytes_]);
}

/// All of an owner's line, where the log does not have it in this tenure yet.
template <bool kReserved>
Status Journal::note_image_once(Writer& writer, const Place& place) {
  SlotMark& mark = slots_[place.slot - 1];
  if (mark.imaged == mark.tenure || ATOLL_FAULT(log_image_forgotten)) [[likely]]
    return {};
  const log::RecordHead head{RecordType::kImage, 0, self_, epoch_, place.line.bits(), mark.tenure};
  const std::span<const std::byte> line(place.data, place.bytes);
  const auto imaged = kReserved ? log_->append_reserved(writer, head, line) : log_->append(writer, head, line);
  if (imaged.ok()) mark.imaged = mark.tenure;
  return imaged.status();
}

template <bool kReserved>
Result<Sequence> Journal::note_write_by(Writer& writer, const Place& place, GlobalAddress at,
                                        std::span<const std::byte> bytes) {
  std::uint64_t tenure = 0;
  if (place.slot == 0) {
    mark_dirty(at.offset(), bytes.size());
  } else {
    tenure = slots_[place.slot - 1].tenure;
    if (const Status status = note_image_once<kReserved>(writer, place); !status.ok()) return status;
  }
  const log::RecordHead head{RecordType::kWrite, 0, self_, epoch_, at.bits(), tenure};
  const auto sequence = kReserved ? log_->append_reserved(writer, head, bytes) : log_->append(writer, head, bytes);
  if (sequence.ok() && is_power()) last_of(place.line, place.slot).store(*sequence, std::memory_order_relaxed);
  return sequence;
}
template Result<Sequence> Journal::note_write_by<false>(Writer&, const Place&, GlobalAddress,
                                                        std::span<const std::byte>);
template Result<Sequence> Journal::note_write_by<true>(Writer&, const Place&, GlobalAddress,
                                                       std::span<const std::byte>);

Errc Journal::note_write_for(const Caller& caller, const Place& place, GlobalAddress at,
                             std::span<const std::byte> bytes) {
  ATOLL_CHECK(place.slot == 0);
  std::vector<std::byte> payload(bytes.begin(), bytes.end());
  const Asked asked{caller.node, caller.number};
  const auto tail = std::as_bytes(std::span(&asked, 1));
  payload.insert(payload.end(), tail.begin(), tail.end());
  mark_dirty(at.offset(), bytes.size());
  const auto sequence =
      log_->append_reserved(*engine_, {RecordType::kWrite, kForAnother, self_, epoch_, at.bits(), 0}, payload);
  if (!sequence.ok()) return sequence.status().code();
  last_of(place.line, 0).store(*sequence, std::memory_order_relaxed);
  now_.answered.note(caller, at.offset());
  return Errc::kOk;
}

/// The images come first: where the record is, they are. One without it does no harm, it is what the line has.
Result<Sequence> Journal::note_together(Writer& writer, std::span<const Change> changes) {
  std::vector<std::byte> payload;
  for (const Change& change : changes) {
    std::uint64_t tenure = 0;
    if (change.place.slot == 0) {
      mark_dirty(change.at.offset(), change.bytes.size());
    } else {
      tenure = slots_[change.place.slot - 1].tenure;
      if (const Status status = note_image_once<false>(writer, change.place); !status.ok()) return status;
    }
    log::append_part(payload, {change.at.bits(), tenure, change.bytes});
  }
  const auto sequence = log_->append(
      writer, {RecordType::kTogether, 0, self_, epoch_, changes.front().at.bits(), changes.size()}, payload);
  if (!sequence.ok()) return sequence;
  for (const Change& change : changes) {
    if (!is_power()) break;  // nobody else looks
    last_of(change.place.line, change.place.slot).store(*sequence, std::memory_order_relaxed);
  }
  return sequence;
}

// ---- the engine's records ----

/// There is room: the engine looks before each batch (has_reserve). When the disk has failed, what the record would
/// have said must not be heard of by anybody: it is never durable, and the node says no more.
Sequence Journal::append(const log::RecordHead& head, std::span<const std::byte> payload) {
  const auto sequence = log_->append_reserved(*engine_, head, payload);
  ATOLL_CHECK(sequence.ok() || sequence.status().code() != Errc::kStorageFull);
  if (sequence.ok()) return *sequence;
  if (!std::exchange(is_lost_, true)) on_lost_();
  return kNever;
}

void Journal::note_grant(GlobalAddress line, std::uint64_t tenure, NodeId owner) {
  mark_dirty(line.offset(), 1);
  const bool undo = owner == kNoNode;
  const Sequence sequence =
      append({undo ? RecordType::kUndo : RecordType::kGrant, 0, owner, epoch_, line.bits(), tenure}, {});
  // Who is shown the line now would speak of it to a home that does not know that it has it back.
  if (undo) last_of(line, 0).store(sequence, std::memory_order_relaxed);
}

void Journal::note_taken(const Place& place, std::uint64_t tenure) {
  mark_dirty(place.line.offset(), place.bytes);
  const Sequence sequence =
      append({RecordType::kTaken, 0, self_, epoch_, place.line.bits(), tenure + 1}, {place.data, place.bytes});
  last_of(place.line, 0).store(sequence, std::memory_order_relaxed);
}

void Journal::note_returned(GlobalAddress line, std::uint64_t tenure) {
  append({RecordType::kReturned, 0, self_, epoch_, line.bits(), tenure}, {});
}

void Journal::note_image(const Place& place) {
  SlotMark& mark = slots_[place.slot - 1];
  const Sequence sequence =
      append({RecordType::kImage, 0, self_, epoch_, place.line.bits(), mark.tenure}, {place.data, place.bytes});
  mark.imaged = mark.tenure;
  mark.last.store(sequence, std::memory_order_relaxed);
}

void Journal::note_allocate(std::uint64_t offset, std::uint64_t bytes, bool in_grains, Caller caller) {
  if (caller.number != 0) now_.answered.note(caller, offset);
  const Asked asked{caller.node, caller.number};
  append({RecordType::kAllocate, std::uint8_t(in_grains ? kInGrains : 0), self_, epoch_,
          GlobalAddress::make(self_, offset).bits(), bytes},
         caller.number == 0 ? std::span<const std::byte>() : std::as_bytes(std::span(&asked, 1)));
}

void Journal::note_free(std::uint64_t offset, Caller caller) {
  if (caller.number != 0) now_.answered.note(caller, offset);
  const Asked asked{caller.node, caller.number};
  append({RecordType::kFree, 0, self_, epoch_, GlobalAddress::make(self_, offset).bits(), 0},
         caller.number == 0 ? std::span<const std::byte>() : std::as_bytes(std::span(&asked, 1)));
}

void Journal::note_region(GlobalAddress first, std::uint64_t bytes, std::uint8_t larger) {
  now_.set_region({first, bytes, larger});
  append({RecordType::kRegion, larger, self_, epoch_, first.bits(), bytes}, {});
}

Sequence Journal::note_name(std::string_view name, GlobalAddress address) {
  now_.names[std::string(name)] = address.bits();
  return append({RecordType::kName, 0, self_, epoch_, address.bits(), 0}, std::as_bytes(std::span(name)));
}

void Journal::take_back_name(std::string_view name, GlobalAddress before) {
  if (before) {
    note_name(name, before);
    return;
  }
  now_.names.erase(std::string(name));
  append({RecordType::kName, 0, self_, epoch_, 0, 0}, std::as_bytes(std::span(name)));
}

GlobalAddress Journal::find_name(std::string_view name) const {
  const auto found = now_.names.find(std::string(name));
  return found == now_.names.end() ? GlobalAddress() : GlobalAddress(found->second);
}

void Journal::note_peer(NodeId node, const Legacy::Peer& peer) {
  now_.peers[node] = peer;
  append({RecordType::kPeer, 0, node, epoch_, 0, peer.memory_bytes}, std::as_bytes(std::span(&peer.cache_slots, 1)));
}

// ---- checkpoints ----

bool Journal::wants_checkpoint() const noexcept {
  const std::uint64_t room = log_bytes_ - 2 * images_bytes_ - batch_bytes_;
  return log_->used_bytes() > images_bytes_ + room / 2;
}

void Journal::mark_dirty(std::uint64_t offset, std::uint64_t bytes) noexcept {
  const std::uint64_t last = (offset + bytes - 1) / kPageBytes;
  for (std::uint64_t page = offset / kPageBytes; page <= last; ++page) {
    std::uint64_t& word = dirty_[page / kWordBits];
    const std::uint64_t bit = std::uint64_t{1} << (page % kWordBits);
    // A look first: most are marked, and a mark that others make as well would travel from thread to thread.
    if ((__atomic_load_n(&word, __ATOMIC_RELAXED) & bit) == 0) __atomic_fetch_or(&word, bit, __ATOMIC_ACQ_REL);
  }
}

std::vector<std::uint32_t> Journal::take_dirty_pages() {
  std::vector<std::uint32_t> pages;
  for (std::uint64_t word = 0; word < (memory_bytes_ / kPageBytes + kWordBits - 1) / kWordBits; ++word) {
    if (__atomic_load_n(&dirty_[word], __ATOMIC_RELAXED) == 0) continue;
    std::uint64_t bits = __atomic_exchange_n(&dirty_[word], 0, __ATOMIC_ACQ_REL);
    for (; bits != 0; bits &= bits - 1) {
      pages.push_back(std::uint32_t(word * kWordBits + std::uint64_t(std::countr_zero(bits))));
    }
  }
  return pages;
}

std::vector<std::byte> Journal::save_regions() const {
  BlobWriter blob;
  for (const auto& [bits, region] : now_.regions) {
    blob.number(bits);
    blob.number(region.bytes);
    blob.number(region.larger);
  }
  return blob.take();
}

std::vector<std::byte> Journal::save_names() const {
  BlobWriter blob;
  for (const auto& [name, bits] : now_.names) {
    blob.text(name);
    blob.number(bits);
  }
  return blob.take();
}

std::vector<std::byte> Journal::save_peers() const {
  BlobWriter blob;
  for (const auto& [node, peer] : now_.peers) {
    blob.number(node);
    blob.number(peer.memory_bytes);
    blob.number(peer.cache_slots);
  }
  return blob.take();
}

std::vector<std::byte> Journal::save_answered() const {
  BlobWriter blob;
  now_.answered.for_each([&](const Caller& caller, std::uint64_t answer) {
    blob.number(caller.node);
    blob.number(caller.number);
    blob.number(answer);
  });
  return blob.take();
}

Status Journal::close() {
  if (mode_ != LogMode::kPower) {  // else it is there already
    if (const Status status = checkpoint_->sync_all(); !status.ok()) return status;
  }
  return log_->close();
}

Status Journal::sync() {
  if (mode_ != LogMode::kPower) return {};
  return commit_->wait(log_->last());
}

}  // namespace atoll::runtime
