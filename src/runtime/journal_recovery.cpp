// What the process before has left: is it whole, and what does it say?
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "atoll/detail/line.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "runtime/journal.hpp"
#include "runtime/journal_blobs.hpp"

namespace atoll::runtime {

using log::RecordType;
using log::Sequence;

namespace {
constexpr unsigned kMostLoaders = 8;  // threads that read a checkpoint
constexpr const char* kRemedy =
    "put it back from a copy, or, where the memory of the cluster may be lost, start without --recover in an empty "
    "folder";
}  // namespace

void Journal::refuse_old() {
  const auto names = disk_->list();
  names.status().or_throw();
  for (const std::string& name : *names) {
    if (log::generation_of(name) == 0 && !name.starts_with("checkpoint")) continue;
    throw Error(fmt::format("{} holds the log of a node that ran before: give --recover to go on from it, or another "
                            "directory",
                            disk_->path()),
                Errc::kAlreadyExists);
  }
  disk_->set_begun(false);  // what ran here before is not this cluster
}

void Journal::check_owner(NodeId node) const {
  if (node == self_) return;
  throw Error(fmt::format("{} holds the log of node {}, this is node {}", disk_->path(), node, self_), Errc::kStorage);
}

/// Records that are missing are not seen by who does the others again: what is there must go together.
void Journal::check_whole(bool has_checkpoint, Sequence from, const Kept& kept, const log::ReadReport& logs) const {
  const auto missing = [this](const std::string& what) {
    return Error(fmt::format("{}: {}: {}", disk_->path(), what, kRemedy), Errc::kStorage);
  };
  if (logs.files == 0) {
    // Between the end of the old log and the begin of the new one the file has no name.
    if (has_checkpoint && kept.generation != 0 && disk_->exists(log::kNewLogName)) return;
    if (has_checkpoint) throw missing("there is a checkpoint, but the log that goes with it (log.N) is missing");
    const auto names = disk_->list();
    names.status().or_throw();
    for (const std::string& name : *names) {
      if (name.starts_with(log::kCheckpointName)) throw missing(fmt::format("{} is there, but no log (log.N)", name));
    }
    if (disk_->has_begun()) throw missing("this node has had a log and perhaps a checkpoint, and both are missing");
    return;
  }
  if (logs.generation < kept.generation) {
    throw missing(fmt::format("the checkpoint needs log.{} or a later one, and the last that is there is log.{}",
                              kept.generation, logs.generation));
  }
  const Sequence needed = std::max<Sequence>(from, 1), begins = std::max(logs.first, logs.needless);
  if (begins <= needed) return;
  if (has_checkpoint) {
    throw missing(
        fmt::format("the checkpoint needs the log from record {} on, but that begins at {}: there was a "
                    "newer checkpoint, or an older log",
                    needed, begins));
  }
  throw missing(
      fmt::format("the log begins at record {}, and the checkpoint, which has what was before, is missing or "
                  "empty",
                  begins));
}

/// Mode process says nothing of the end of the machine: the disk has what the system happened to have written by then.
/// Whoever wrote last, a log or the checkpoint that took its place, has written in this life of the machine or has seen
/// to it that the disk has all.
void Journal::check_boot(const Kept& kept, const log::ReadReport& logs) const {
  const bool by_log = logs.files != 0 && logs.generation > kept.generation;
  const LogMode mode = by_log ? logs.mode : kept.mode;
  const storage::BootId then = by_log ? logs.boot : kept.boot, now = disk_->boot_id();
  if (mode != LogMode::kProcess || (by_log && logs.is_closed) || then == now) return;
  if (then == storage::BootId{} || now == storage::BootId{}) return;  // nobody knows
  if (recover_after_reboot_) {
    spdlog::warn(
        "node {}: the machine was started again since its log was written in mode process: the last writes may "
        "be missing",
        self_);
    return;
  }
  throw Error(
      fmt::format(
          "{}: the machine was started again since this log was written in mode process, which promises "
          "nothing for that: the last writes, of half a minute or more, may be missing, some of them or all, and "
          "lines of one node may be older than what others had read. Accept that with --recover-after-reboot, or "
          "start without --recover in an empty folder. Mode power survives this",
          disk_->path()),
      Errc::kStorage);
}

void Journal::load(log::CheckpointReader& checkpoint, Legacy& legacy, std::span<std::byte> memory,
                   const PrepareMemory& prepare, memory::Allocator& allocator) {
  const unsigned threads = host_.work_takes_time() ? std::min(std::thread::hardware_concurrency(), kMostLoaders) : 1;
  checkpoint.load_memory(memory, {host_, threads, prepare}).or_throw();
  checkpoint.read_lines(0, legacy.lines).or_throw();
  const auto part = [&checkpoint](const char* name) -> std::span<const std::byte> {
    const auto found = checkpoint.blobs().find(name);
    if (found == checkpoint.blobs().end()) {
      throw Error(fmt::format("the checkpoint has no part \"{}\"", name), Errc::kStorage);
    }
    return found->second;
  };
  allocator.load(part(kAllocatorBlob)).or_throw();
  for (BlobReader blob(part(kRegionsBlob)); !blob.empty();) {
    const GlobalAddress first(blob.number());
    const std::uint64_t bytes = blob.number();
    legacy.set_region({first, bytes, std::uint8_t(blob.number())});
  }
  for (BlobReader blob(part(kPeersBlob)); !blob.empty();) {
    const std::uint64_t node = blob.number();
    const std::uint64_t memory_of = blob.number();
    legacy.peers[node] = {memory_of, blob.number()};
  }
  for (BlobReader blob(part(kAnsweredBlob)); !blob.empty();) {
    const Caller caller{NodeId(blob.number()), blob.number()};
    legacy.answered.note(caller, blob.number());
  }
  for (BlobReader blob(part(kNamesBlob)); !blob.empty();) {
    const std::string name = blob.text();
    legacy.names[name] = blob.number();
  }
  if (!checkpoint.blobs().contains(kOwnedBlob)) return;
  for (BlobReader blob(part(kOwnedBlob)); !blob.empty();) {
    const std::uint64_t address = blob.number();
    const std::uint64_t tenure = blob.number();
    const std::string bytes = blob.text();
    const auto data = std::as_bytes(std::span(bytes));
    legacy.owned[address] = {tenure, {data.begin(), data.end()}};
  }
}

Legacy Journal::recover(std::span<std::byte> memory, const PrepareMemory& prepare, memory::Allocator& allocator) {
  Legacy legacy;
  legacy.lines.resize(memory_bytes_ / line_bytes_);
  auto checkpoint = log::CheckpointReader::open(*disk_);
  const Sequence from = checkpoint ? checkpoint->redo_from() : 0;
  if (checkpoint) check_owner(checkpoint->node());
  const Result<log::LoadedLog> loaded = log::read_logs(*disk_, {.from = from});
  loaded.status().or_throw();
  if (loaded->report().files != 0) check_owner(loaded->report().node);
  Kept kept;
  if (checkpoint && checkpoint->blobs().contains(kLogBlob)) {
    BlobReader blob(checkpoint->blobs().at(kLogBlob));
    kept.generation = blob.number();
    kept.mode = LogMode(blob.number());
    for (std::uint64_t& half : kept.boot) half = blob.number();
  }
  check_whole(checkpoint.has_value(), from, kept, loaded->report());
  check_boot(kept, loaded->report());
  if (checkpoint) {
    if (checkpoint->memory_bytes() != memory_bytes_ || checkpoint->line_bytes() != line_bytes_) {
      throw Error(
          fmt::format("the checkpoint is of a node with {} in lines of {} bytes, this one has {} in lines of {}",
                      base::format_bytes(checkpoint->memory_bytes()), checkpoint->line_bytes(),
                      base::format_bytes(memory_bytes_), line_bytes_));
    }
    load(*checkpoint, legacy, memory, prepare, allocator);
  }
  for (std::size_t i = 0; i < loaded->size(); ++i) replay((*loaded)[i], legacy, memory, allocator);
  legacy.records = loaded->size();
  highest_ = std::max(from, loaded->highest());
  generation_ = std::max(kept.generation, loaded->report().generation);
  past_mode_ = loaded->report().mode;
  has_past_ = checkpoint.has_value() || loaded->report().files != 0;
  now_.regions = legacy.regions;
  now_.names = legacy.names;
  now_.answered = legacy.answered;
  now_.peers = legacy.peers;
  return legacy;
}

/// What was read of them may be in memory only.
void Journal::sync_logs() {
  const auto names = disk_->list();
  names.status().or_throw();
  for (const std::string& name : *names) {
    if (log::generation_of(name) != 0) disk_->open(name, storage::OpenMode::kWrite)->sync().or_throw();
  }
}

/// All pages that the log has changed, those that follow each other together, and what it says of their lines.
Status Journal::write_recovered(const Legacy& legacy, std::span<const std::byte> memory) {
  const std::span<const log::LineMeta> lines = legacy.lines;
  const std::vector<std::uint32_t> pages = take_dirty_pages();
  for (std::size_t i = 0, count = 0; i < pages.size(); i += count) {
    count = 1;
    while (i + count < pages.size() && pages[i + count] == pages[i] + count) ++count;
    const std::uint64_t offset = std::uint64_t{pages[i]} * kPageBytes;
    const std::uint64_t bytes = std::min<std::uint64_t>(count * kPageBytes, memory.size() - offset);
    Status status = checkpoint_->write_memory(offset, memory.subspan(offset, bytes));
    if (status.ok())
      status = checkpoint_->write_lines(offset / line_bytes_, lines.subspan(offset / line_bytes_, bytes / line_bytes_));
    if (!status.ok()) return status;
  }
  return {};
}

void Journal::keep(const Legacy& legacy, std::span<const std::byte> memory, const memory::Allocator& allocator) {
  if (!has_past_) return;  // the process before has not come as far as having a log
  // Nothing may be in the checkpoint that a power cut could take out of the log: it is the log's until it is committed.
  if (mode_ == LogMode::kPower || past_mode_ == LogMode::kPower) sync_logs();
  checkpoint_ = std::make_unique<log::CheckpointWriter>(*disk_, shape());
  Status status = checkpoint_->begin(highest_ + 1);
  if (status.ok()) status = write_recovered(legacy, memory);
  if (status.ok()) {
    BlobWriter owned, last;
    for (const auto& [bits, line] : legacy.owned) {
      owned.number(bits);
      owned.number(line.tenure);
      owned.text({reinterpret_cast<const char*>(line.bytes.data()), line.bytes.size()});
    }
    last.number(generation_);
    last.number(std::uint64_t(mode_));
    for (const std::uint64_t half : disk_->boot_id()) last.number(half);
    checkpoint_->set_blob(kOwnedBlob, owned.take());
    checkpoint_->set_blob(kLogBlob, last.take());
    checkpoint_->set_blob(kAllocatorBlob, allocator.save());
    checkpoint_->set_blob(kRegionsBlob, save_regions());
    checkpoint_->set_blob(kNamesBlob, save_names());
    checkpoint_->set_blob(kPeersBlob, save_peers());
    checkpoint_->set_blob(kAnsweredBlob, save_answered());
    status = checkpoint_->commit();
  }
  if (!status.ok()) {
    throw Error(fmt::format("what was recovered cannot be written to the checkpoint in {}: {}. It needs room for the "
                            "memory that was ever written, {} at most, and as much as before for the log",
                            disk_->path(), status.what(), base::format_bytes(memory_bytes_)),
                status.code());
  }
  replaces_ = true;
}

namespace {

/// The record of a call of another node ends with whose it was.
void note_answered(const log::Record& record, Legacy& legacy) {
  if (record.payload.size() < sizeof(Asked)) return;
  Asked asked;
  std::memcpy(&asked, record.payload.data() + record.payload.size() - sizeof(asked), sizeof(asked));
  legacy.answered.note({NodeId(asked.node), asked.number}, GlobalAddress(record.head.address).offset());
}

}  // namespace

void Journal::check_own(GlobalAddress address, std::uint64_t bytes, Sequence sequence) const {
  if (address.offset() <= memory_bytes_ && bytes <= memory_bytes_ - address.offset()) return;
  throw Error(fmt::format("record {} of the log is about memory that this node does not have", sequence),
              Errc::kStorage);
}

/// Bytes of a line of this node, or of one that it owned: then the log has had its image before.
void Journal::replay_write(const log::Part& write, Sequence sequence, Legacy& legacy, std::span<std::byte> memory) {
  const GlobalAddress address(write.address);
  if (address.node() == self_) {
    check_own(address, write.bytes.size(), sequence);
    if (!write.bytes.empty()) std::memcpy(memory.data() + address.offset(), write.bytes.data(), write.bytes.size());
    if (!write.bytes.empty()) mark_dirty(address.offset(), write.bytes.size());
  } else if (const auto found = legacy.owned.upper_bound(address.bits()); found != legacy.owned.begin()) {
    OwnedLine& owned = std::prev(found)->second;
    const std::uint64_t at = address.bits() - std::prev(found)->first;
    if (owned.tenure == write.tenure && at <= owned.bytes.size() && write.bytes.size() <= owned.bytes.size() - at) {
      std::copy(write.bytes.begin(), write.bytes.end(), owned.bytes.begin() + std::ptrdiff_t(at));
    }
  }
}

/// One record, done again. What it says was so at its time; later ones follow.
void Journal::replay(const log::Record& record, Legacy& legacy, std::span<std::byte> memory,
                     memory::Allocator& allocator) {
  const log::RecordHead& head = record.head;
  const GlobalAddress address(head.address);
  const bool own = address.node() == self_;
  const std::uint64_t line = address.offset() / line_bytes_;
  const auto check_inside = [&] { check_own(address, record.payload.size(), record.sequence); };
  switch (head.type) {
    case RecordType::kNone: break;
    case RecordType::kWrite: {
      std::span<const std::byte> bytes = record.payload;
      if (own && (head.flags & kForAnother) != 0 && bytes.size() > sizeof(Asked)) {
        note_answered(record, legacy);
        bytes = bytes.first(bytes.size() - sizeof(Asked));
      }
      replay_write({head.address, head.number, bytes}, record.sequence, legacy, memory);
      break;
    }
    case RecordType::kTogether: {
      const auto parts = log::parts_of(record.payload);
      if (!parts) throw Error(fmt::format("record {} of the log makes no sense", record.sequence), Errc::kStorage);
      for (const log::Part& part : *parts) replay_write(part, record.sequence, legacy, memory);
      break;
    }
    case RecordType::kImage:
      if (own) throw Error("the log has an image of one of the node's own lines", Errc::kStorage);
      legacy.owned[address.bits()] = {head.number, {record.payload.begin(), record.payload.end()}};
      break;
    case RecordType::kTaken:
      check_inside();
      std::memcpy(memory.data() + address.offset(), record.payload.data(), record.payload.size());
      mark_dirty(address.offset(), record.payload.size());
      legacy.lines[line] = {head.number, kNoNode};
      break;
    case RecordType::kUndo:
    case RecordType::kGrant:
      check_inside();
      legacy.lines[line] = {head.number, head.node};
      mark_dirty(address.offset(), 1);
      break;
    case RecordType::kReturned:
      if (const auto found = legacy.owned.find(address.bits());
          found != legacy.owned.end() && found->second.tenure == head.number) {
        legacy.owned.erase(found);
      }
      break;
    case RecordType::kAllocate: {
      const auto block = (head.flags & kInGrains) != 0 ? allocator.allocate_aligned(head.number, detail::kGrainBytes)
                                                       : allocator.allocate(head.number);
      note_answered(record, legacy);
      if (!block.ok() || block->offset != address.offset()) {
        throw Error(
            fmt::format("record {} of the log: memory was handed out that this allocator would not", record.sequence),
            Errc::kStorage);
      }
      break;
    }
    case RecordType::kFree:
      note_answered(record, legacy);
      allocator.free(address.offset()).or_throw();
      break;
    case RecordType::kRegion: legacy.set_region({address, head.number, head.flags}); break;
    case RecordType::kPeer: {
      std::uint64_t slots = 0;
      if (record.payload.size() == sizeof(slots)) std::memcpy(&slots, record.payload.data(), sizeof(slots));
      legacy.peers[head.node] = {head.number, slots};
      break;
    }
    case RecordType::kName: {
      const std::string name(reinterpret_cast<const char*>(record.payload.data()), record.payload.size());
      if (address) {
        legacy.names[name] = address.bits();
      } else {
        legacy.names.erase(name);
      }
      break;
    }
  }
}

}  // namespace atoll::runtime
