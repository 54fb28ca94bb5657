#include "log/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "log/format.hpp"
#include "log/log.hpp"
#include "storage/failure.hpp"

namespace atoll::log {
namespace {

constexpr std::uint32_t kSmallestBlock = 512;
constexpr std::uint32_t kLargestBlock = 1u << 31;
constexpr std::uint64_t kMostBlocks = 1u << 24;

template <typename T>
T load(const std::byte* at) noexcept {
  T value;
  std::memcpy(static_cast<void*>(&value), at, sizeof(T));
  return value;
}

template <typename T>
Result<T> read_at(storage::File& file, std::uint64_t offset) {
  T value{};
  const Status status = file.read(offset, std::as_writable_bytes(std::span(&value, 1)));
  if (!status.ok()) return status;
  return value;
}

const char* why_no_log(const FileHeader& header, std::uint64_t file_bytes) noexcept {
  if (header.magic != kLogMagic) return "it is no log";
  if (header.version != kLogVersion) return "it is a log of another version";
  if (header.crc != crc_of(header)) return "its header is damaged";
  if (header.block_bytes < kSmallestBlock || header.block_bytes > kLargestBlock || header.block_bytes % 8 != 0 ||
      header.blocks > kMostBlocks || header.generation == 0 || header.mode > std::uint8_t(LogMode::kPower)) {
    return "its header makes no sense";
  }
  if (header.blocks > (file_bytes - kFileHeaderBytes) / header.block_bytes) return "it is shorter than it says";
  return nullptr;
}

}  // namespace

/// Reads files one after the other into a LoadedLog.
class LogReader {
 public:
  explicit LogReader(const ReadOptions& options) : options_(options) {}

  [[nodiscard]] Status add(storage::File& file) {
    const auto size = file.size();
    if (!size.ok()) return size.status();
    if (*size < kFileHeaderBytes) return storage::damage("a log", "it is shorter than its header");
    const auto header = read_at<FileHeader>(file, 0);
    if (!header.ok()) return header.status();
    if (const char* const why = why_no_log(*header, *size)) return storage::damage("a log", why);
    header_ = *header;
    start_ = std::max(header_.first, options_.from);
    for (const std::uint64_t at : kTruncationAt) {
      const auto truncation = read_at<Truncation>(file, at);
      if (!truncation.ok()) return truncation.status();
      if (truncation->crc != crc_of(*truncation, header_.generation)) continue;
      start_ = std::max(start_, truncation->before);
      loaded_.report_.needless = std::max(loaded_.report_.needless, truncation->before);
    }
    const Sequence first = loaded_.report_.first;
    loaded_.report_.first = first == 0 ? header_.first : std::min(first, header_.first);
    const auto ending = read_at<Ending>(file, kEndingAt);
    if (!ending.ok()) return ending.status();
    loaded_.report_.is_closed = ending->last != 0 && ending->crc == crc_of(*ending, header_.generation);
    note(start_ - (start_ > 0 ? 1 : 0));
    entries_.clear();
    for (std::uint64_t k = 0; k < header_.blocks; ++k) {
      if (const Status status = add_block(file, std::uint32_t(k)); !status.ok()) return status;
    }
    take();
    return {};
  }

  [[nodiscard]] LoadedLog finish() {
    loaded_.report_.records = loaded_.entries_.size();
    return std::move(loaded_);
  }

 private:
  using Entry = LoadedLog::Entry;

  [[nodiscard]] Status add_block(storage::File& file, std::uint32_t index) {
    const std::uint64_t at = kFileHeaderBytes + std::uint64_t{index} * header_.block_bytes;
    const auto head = read_at<BlockHeader>(file, at);
    if (!head.ok()) return head.status();
    if (head->magic != kBlockMagic || head->index != index || head->crc != crc_of(*head, header_.generation)) return {};
    auto bytes = std::make_unique_for_overwrite<std::byte[]>(header_.block_bytes);
    const std::span<std::byte> block(bytes.get(), header_.block_bytes);
    if (const Status status = file.read(at, block); !status.ok()) return status;
    ++loaded_.report_.blocks;
    const std::size_t before = entries_.size();
    add_records(block, *head);
    if (entries_.size() != before) loaded_.blocks_.push_back(std::move(bytes));
    return {};
  }

  /// As far as they are whole. What follows is the rest of an earlier use, or a record that was never finished: that
  /// one has a sequence which earlier uses cannot have.
  void add_records(std::span<const std::byte> block, const BlockHeader& head) {
    const std::uint32_t seed = record_seed(header_.generation, head.stamp);
    Sequence lowest = std::max(head.first, header_.first);
    std::size_t at = sizeof(BlockHeader);
    while (block.size() - at >= sizeof(RecordHeader)) {
      const auto record = load<RecordHeader>(block.data() + at);
      const std::size_t left = block.size() - at - sizeof(RecordHeader);
      const bool fits = record.length <= left && padded(record.length) <= left;
      const auto covered = block.subspan(at + 4, fits ? sizeof(RecordHeader) - 4 + padded(record.length) : 0);
      if (!fits || record.crc != base::crc32c(seed, covered) || record.type == RecordType::kNone ||
          std::uint8_t(record.type) > kLastType || record.sequence < lowest || record.sequence == UINT64_MAX) {
        if (record.sequence >= lowest && record.sequence != UINT64_MAX && record.sequence - lowest < kPlausible) {
          ++loaded_.report_.torn;
        }
        return;
      }
      note(record.sequence);
      lowest = record.sequence + 1;
      if (record.sequence >= start_) {
        entries_.push_back({record.sequence, block.data() + at});
      } else {
        ++loaded_.report_.truncated;
      }
      at += sizeof(RecordHeader) + padded(record.length);
    }
  }

  /// What counts of one file, in order, behind what is there.
  void take() {
    std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.sequence < b.sequence; });
    ReadReport& report = loaded_.report_;
    Sequence expected = start_;
    Sequence last = loaded_.entries_.empty() ? 0 : loaded_.entries_.back().sequence;
    const bool cut = options_.cut_at_gap.value_or(LogMode(header_.mode) == LogMode::kPower);
    for (std::size_t k = 0; k < entries_.size(); ++k) {
      const Entry& entry = entries_[k];
      if (entry.sequence <= last) continue;  // only a file that somebody has made up has the same twice
      if (cut && entry.sequence != expected) {
        report.dropped += entries_.size() - k;
        report.gap = expected;
        break;
      }
      last = entry.sequence;
      expected = entry.sequence + 1;
      loaded_.entries_.push_back(entry);
      report.bytes += sizeof(RecordHeader) + padded(load<RecordHeader>(entry.at).length);
    }
    ++report.files;
    report.node = header_.node;
    report.generation = header_.generation;
    report.mode = LogMode(header_.mode);
    report.boot = header_.boot;
  }

  void note(Sequence sequence) { loaded_.highest_ = std::max(loaded_.highest_, sequence); }

  static constexpr Sequence kPlausible = 1ull << 40;  // records are never so far apart

  const ReadOptions options_;
  FileHeader header_;
  Sequence start_ = 0;
  std::vector<Entry> entries_;
  LoadedLog loaded_;
};

Record LoadedLog::operator[](std::size_t k) const noexcept {
  const std::byte* const at = entries_[k].at;
  const auto header = load<RecordHeader>(at);
  return {{header.type, header.flags, header.node, header.epoch, header.address, header.number},
          header.sequence,
          {at + sizeof(RecordHeader), header.length}};
}

Result<LoadedLog> read_log(storage::File& file, const ReadOptions& options) {
  LogReader reader(options);
  if (const Status status = reader.add(file); !status.ok()) return status;
  return reader.finish();
}

Result<LoadedLog> read_logs(storage::Disk& disk, const ReadOptions& options) {
  const auto names = disk.list();
  if (!names.ok()) return names.status();
  std::vector<std::uint64_t> generations;
  for (const std::string& name : *names) {
    if (const std::uint64_t generation = generation_of(name); generation != 0) generations.push_back(generation);
  }
  std::sort(generations.begin(), generations.end());
  LogReader reader(options);
  for (const std::uint64_t generation : generations) {
    const auto file = disk.open(log_name(generation), storage::OpenMode::kRead);
    if (const Status status = reader.add(*file); !status.ok()) {
      return storage::damage(disk.path() + "/" + log_name(generation), status.what());
    }
  }
  return reader.finish();
}

bool looks_like_log(storage::File& file) {
  const auto magic = read_at<std::uint64_t>(file, 0);
  return magic.ok() && *magic == kLogMagic;
}

}  // namespace atoll::log
