#include "log/log.hpp"

#include <fmt/format.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/racy_copy.hpp"
#include "base/units.hpp"
#include "log/format.hpp"

namespace atoll::log {
namespace {

constexpr std::uint32_t kFewestBlocks = 8;
constexpr std::uint64_t kMostBlocks = 1u << 24;
constexpr std::uint32_t kLargestBlock = 256 << 10;  // of those that are chosen here
constexpr std::uint32_t kPage = 4096;
constexpr const char* kPrefix = "log.";

int membarrier(int command) noexcept {
  return int(::syscall(SYS_membarrier, command, 0, 0));
}

/// Syncs and, in tests, disks in memory may look at the bytes at any time.
void store(std::byte* at, std::uint64_t word, std::memory_order order = std::memory_order_relaxed) noexcept {
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at)).store(word, order);
}

template <typename T>
void store_words(std::byte* at, const T& value) noexcept {
  static_assert(sizeof(T) % 8 == 0);
  std::array<std::uint64_t, sizeof(T) / 8> words;
  std::memcpy(words.data(), &value, sizeof(T));
  for (std::size_t k = 0; k < words.size(); ++k) store(at + 8 * k, words[k]);
}

/// A record, of which the first word comes last: until it is there the checksum is wrong.
template <typename Crc>
inline __attribute__((always_inline)) void put_record(std::byte* at, std::uint32_t seed, const RecordHead& head,
                                                      Sequence sequence, std::span<const std::byte> payload) noexcept {
  const auto length = std::uint32_t(payload.size());
  const std::uint64_t what = std::uint64_t(head.type) | std::uint64_t(head.flags) << 8 |
                             std::uint64_t(head.node) << 16 | std::uint64_t(head.epoch) << 32;
  std::uint64_t state = Crc::step(std::uint32_t(~seed), length);
  state = Crc::step(state, what);
  state = Crc::step(state, sequence);
  state = Crc::step(state, head.address);
  state = Crc::step(state, head.number);
  store(at + 8, what);
  store(at + 16, sequence);
  store(at + 24, head.address);
  store(at + 32, head.number);
  std::byte* to = at + sizeof(RecordHeader);
  if (length == 8) {  // most are
    std::uint64_t word = 0;
    std::memcpy(&word, payload.data(), sizeof(word));
    state = Crc::step(state, word);
    store(to, word);
  } else if (length > 0) {
    const std::size_t whole = length & ~std::size_t{7};
    base::racy_copy(to, payload.data(), whole);
    for (std::size_t k = 0; k < whole; k += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, to + k, sizeof(word));  // what stands in the log, should the source change
      state = Crc::step(state, word);
    }
    if (whole != length) {
      std::uint64_t word = 0;
      std::memcpy(&word, payload.data() + whole, length - whole);
      state = Crc::step(state, word);
      store(to + whole, word);
    }
  }
  store(at, std::uint32_t(~state) | std::uint64_t(length) << 32, std::memory_order_release);
}

void put_portable(std::byte* at, std::uint32_t seed, const RecordHead& head, Sequence sequence,
                  std::span<const std::byte> payload) noexcept {
  put_record<base::PortableCrc>(at, seed, head, sequence, payload);
}

#if ATOLL_CRC_IN_HARDWARE
ATOLL_CRC_TARGET void put_hardware(std::byte* at, std::uint32_t seed, const RecordHead& head, Sequence sequence,
                                   std::span<const std::byte> payload) noexcept {
  put_record<base::HardwareCrc>(at, seed, head, sequence, payload);
}
#endif

std::uint32_t block_bytes_of(const LogConfig& config) {
  if (config.max_payload > (1u << 30)) throw Error("records of a log may have up to 1 GiB");
  const std::uint64_t least =
      padded(config.max_payload) + sizeof(BlockHeader) + sizeof(RecordHeader);  // one such record in a block
  if (config.block_bytes != 0) {
    if (config.block_bytes % kPage != 0 || config.block_bytes < least) {
      throw Error(
          fmt::format("blocks of {} bytes are no blocks for records of {}: give a multiple of 4096, {} at least",
                      config.block_bytes, config.max_payload, least));
    }
    return config.block_bytes;
  }
  const std::uint64_t wanted = std::min<std::uint64_t>(std::bit_floor(config.bytes / 64), kLargestBlock);
  return std::uint32_t(std::max<std::uint64_t>({wanted, std::bit_ceil(least), kPage}));
}

}  // namespace

std::string log_name(std::uint64_t generation) {
  return fmt::format("{}{}", kPrefix, generation);
}

std::uint64_t generation_of(const std::string& name) noexcept {
  const std::string_view text = name;
  const std::size_t prefix = std::strlen(kPrefix);
  if (!text.starts_with(kPrefix) || text.size() == prefix || text[prefix] == '0') return 0;
  std::uint64_t generation = 0;
  const auto [end, error] = std::from_chars(text.data() + prefix, text.data() + text.size(), generation);
  return error == std::errc{} && end == text.data() + text.size() ? generation : 0;
}

std::unique_ptr<Log> Log::open(storage::Disk& disk, const LogConfig& config) {
  return std::unique_ptr<Log>(new Log(disk, config));
}

Log::Log(storage::Disk& disk, const LogConfig& config)
    : disk_(disk),
      mode_(config.mode),
      node_(config.node),
      block_bytes_(block_bytes_of(config)),
      first_(config.after + 1),
      next_(first_),
      durable_(config.after) {
  ATOLL_CHECK(mode_ != LogMode::kOff);
  const std::uint64_t blocks = config.bytes < kFileHeaderBytes ? 0 : (config.bytes - kFileHeaderBytes) / block_bytes_;
  if (blocks < kFewestBlocks || blocks > kMostBlocks) {
    throw Error(fmt::format("a log of {} does not do: with blocks of {} it may have {} to {}",
                            base::format_bytes(config.bytes), base::format_bytes(block_bytes_),
                            base::format_bytes(kFileHeaderBytes + std::uint64_t{kFewestBlocks} * block_bytes_),
                            base::format_bytes(kFileHeaderBytes + kMostBlocks * block_bytes_)));
  }
  blocks_count_ = std::uint32_t(blocks);
  reserve_ = config.reserve_bytes == 0 ? blocks_count_ / 4
                                       : std::uint32_t((config.reserve_bytes + block_bytes_ - 1) / block_bytes_);
  put_ = put_portable;
#if ATOLL_CRC_IN_HARDWARE
  if (base::has_crc32c()) put_ = put_hardware;
#endif
  has_barrier_ = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  const auto names = disk.list();
  names.status().or_throw();
  generation_ = config.after_generation;
  std::vector<std::uint64_t> generations;
  for (const std::string& name : *names) {
    const std::uint64_t generation = generation_of(name);
    if (generation == 0) continue;
    generations.push_back(generation);
    generation_ = std::max(generation_, generation);
    const bool is_kept = mode_ == LogMode::kPower && !config.replaces;
    if (is_kept) disk.open(name, storage::OpenMode::kWrite)->sync().or_throw();
  }
  ++generation_;
  std::sort(generations.begin(), generations.end());
  create(kFileHeaderBytes + blocks * block_bytes_, config.replaces && take_over(generations));
  const base::MutexLock lock(mutex_);
  blocks_.resize(blocks_count_);
  for (std::uint32_t k = blocks_count_; k > 0; --k) free_.push_back(k - 1);
  free_count_ = blocks_count_;
}

Log::~Log() {
  const base::MutexLock lock(mutex_);
  ATOLL_CHECK(writers_.empty());
}

/// The newest of the logs before becomes the one that is made, so that no disk must have room for two. False: there is
/// none. It has no name any more, durably, before anything in it is changed; until it has its new one there is always
/// this file, by which a recovery tells that no log was lost.
bool Log::take_over(const std::vector<std::uint64_t>& generations) {
  if (generations.empty()) return disk_.exists(kNewLogName);
  for (std::size_t k = 0; k + 1 < generations.size(); ++k) disk_.remove(log_name(generations[k])).or_throw();
  disk_.rename(log_name(generations.back()), kNewLogName).or_throw();
  disk_.sync_directory().or_throw();
  return true;
}

/// It gets its name when it is whole: a file that is called a log is one.
void Log::create(std::uint64_t bytes, bool replaces) {
  if (!replaces && disk_.exists(kNewLogName)) disk_.remove(kNewLogName).or_throw();
  const auto fresh = disk_.open(kNewLogName, storage::OpenMode::kCreate);
  const std::uint64_t before = fresh->size().value();
  if (const Status status = fresh->resize(bytes); !status.ok()) {
    // What was allocated of it would be in the way of whoever makes room.
    (void)(replaces ? fresh->resize(before) : disk_.remove(kNewLogName));
    throw Error(fmt::format("{} (a log of {} in {})", status.what(), base::format_bytes(bytes), disk_.path()),
                status.code());
  }
  FileHeader header;
  header.boot = disk_.boot_id();
  header.block_bytes = block_bytes_;
  header.blocks = blocks_count_;
  header.generation = generation_;
  header.first = first_;
  header.node = node_;
  header.mode = std::uint8_t(mode_);
  header.crc = crc_of(header);
  fresh->write(0, std::as_bytes(std::span(&header, 1))).or_throw();
  fresh->sync().or_throw();
  disk_.rename(kNewLogName, log_name(generation_)).or_throw();
  disk_.sync_directory().or_throw();
  file_ = disk_.open(log_name(generation_), storage::OpenMode::kWrite);
  map_ = file_->map().value();
}

std::uint32_t Log::max_payload() const noexcept {
  return block_bytes_ - std::uint32_t(sizeof(BlockHeader) + sizeof(RecordHeader));
}

std::uint64_t Log::free_bytes() const noexcept {
  return std::uint64_t{free_count_.load(std::memory_order_relaxed)} * block_bytes_;
}

std::uint64_t Log::used_bytes() const noexcept {
  return std::uint64_t{blocks_count_} * block_bytes_ - free_bytes();
}

std::byte* Log::block_at(std::uint32_t index) const noexcept {
  return map_.data() + kFileHeaderBytes + std::uint64_t{index} * block_bytes_;
}

Result<Sequence> Log::append(Writer& writer, const RecordHead& head, std::span<const std::byte> payload) {
  return append(writer, head, payload, false);
}

Result<Sequence> Log::append_reserved(Writer& writer, const RecordHead& head, std::span<const std::byte> payload) {
  return append(writer, head, payload, true);
}

/// In the order that matters: `in_progress_` is set before the sequence is taken, so that who sees that it was taken
/// sees that too (complete()), and before the look at `leave_`, so that who takes idle writers' blocks either sees that
/// this one is not idle, or is seen (seal(), whose barrier makes up for the one that is missing here).
inline __attribute__((always_inline)) Result<Sequence> Log::append(Writer& writer, const RecordHead& head,
                                                                   std::span<const std::byte> payload, bool reserved) {
  const std::size_t bytes = sizeof(RecordHeader) + padded(payload.size());
  while (true) {
    writer.in_progress_.store(writer.last_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (writer.leave_.load(std::memory_order_relaxed) == Writer::kStay &&
        std::size_t(writer.end_ - writer.at_) >= bytes) [[likely]] {
      break;
    }
    writer.in_progress_.store(Writer::kIdle, std::memory_order_release);
    if (payload.size() > max_payload()) return {Errc::kInvalidArgument, "a record is larger than a block of the log"};
    if (const Status status = next_block(writer, reserved); !status.ok()) return status;
  }
  const Sequence sequence = next_.fetch_add(1, std::memory_order_acq_rel);
  writer.in_progress_.store(sequence, std::memory_order_relaxed);
  put_(writer.at_, writer.seed_, head, sequence, payload);
  writer.at_ += bytes;
  writer.last_.store(sequence, std::memory_order_relaxed);
  writer.in_progress_.store(Writer::kIdle, std::memory_order_release);
  return sequence;
}

Status Log::next_block(Writer& writer, bool reserved) {
  std::uint32_t index = 0;
  bool is_fresh = false;
  {
    const base::MutexLock lock(mutex_);
    const bool full = free_.empty() || (!reserved && free_.size() <= reserve_);
    // Where there is no other, smaller records may still fit the one it has.
    if (!full || writer.leave_.load(std::memory_order_relaxed) != Writer::kStay) {
      leave_block(writer);
      writer.at_ = writer.end_ = nullptr;
    }
    if (!failed_.ok()) return failed_;
    if (full) return {Errc::kStorageFull, "the log is full until the next checkpoint"};
    index = free_.back();
    free_.pop_back();
    free_count_.store(std::uint32_t(free_.size()), std::memory_order_relaxed);
    is_fresh = !std::exchange(blocks_[index].was_used, true);
  }
  // Not under the lock: this may write to the disk.
  file_->prepare(kFileHeaderBytes + std::uint64_t{index} * block_bytes_, block_bytes_, is_fresh);
  const base::MutexLock lock(mutex_);
  if (!failed_.ok()) return failed_;  // meanwhile; nobody needs the block any more
  take_block(writer, index);
  return {};
}

void Log::take_block(Writer& writer, std::uint32_t index) {
  blocks_[index].taken = true;
  BlockHeader header;
  header.stamp = ++stamp_;
  header.first = next_.load(std::memory_order_relaxed);
  header.index = index;
  header.crc = crc_of(header, generation_);
  std::byte* const block = block_at(index);
  store_words(block, header);
  std::atomic_thread_fence(std::memory_order_release);  // before the first record
  writer.at_ = block + sizeof(BlockHeader);
  writer.end_ = block + block_bytes_;
  writer.seed_ = record_seed(generation_, header.stamp);
  writer.block_ = index;
  writer.has_block_ = true;
  writer.leave_.store(Writer::kStay, std::memory_order_relaxed);
}

void Log::leave_block(Writer& writer) {
  if (writer.has_block_) {
    blocks_[writer.block_].left = true;
    blocks_[writer.block_].last = writer.last_.load(std::memory_order_relaxed);
    writer.has_block_ = false;
  }
}

void Log::seal() {
  const base::MutexLock lock(mutex_);
  for (Writer* const writer : writers_) {
    if (writer->has_block_) writer->leave_.store(Writer::kLeave, std::memory_order_relaxed);
  }
  if (!has_barrier_ || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0) return;
  for (Writer* const writer : writers_) {
    if (!writer->has_block_ || writer->in_progress_.load(std::memory_order_acquire) != Writer::kIdle) continue;
    writer->leave_.store(Writer::kGone, std::memory_order_relaxed);
    leave_block(*writer);
  }
}

/// The highest sequence of which it is sure that its record, and those of all lower ones, are in the file.
Sequence Log::complete() const {
  Sequence sure = last();
  const base::MutexLock lock(mutex_);
  for (const Writer* const writer : writers_) {
    const Sequence under_way = writer->in_progress_.load(std::memory_order_acquire);
    if (under_way != Writer::kIdle) sure = std::min(sure, under_way - 1);
  }
  return sure;
}

Status Log::sync() {
  if (mode_ != LogMode::kPower) return {};
  if (const Status status = health(); !status.ok()) return status;
  const Sequence sure = complete();
  if (const Status status = file_->sync(); !status.ok()) {
    fail(status);
    return health();
  }
  Sequence old = durable_.load(std::memory_order_relaxed);
  while (old < sure && !durable_.compare_exchange_weak(old, sure, std::memory_order_release)) {
  }
  return {};
}

Status Log::close() {
  if (const Status status = health(); !status.ok()) return status;
  if (const Status status = file_->sync(); !status.ok()) return status;
  Ending ending;
  ending.last = last();
  ending.crc = crc_of(ending, generation_);
  store_words(map_.data() + kEndingAt, ending);
  return file_->sync();
}

Status Log::health() const {
  const base::MutexLock lock(mutex_);
  return failed_;
}

void Log::fail(Status status) {
  const base::MutexLock lock(mutex_);
  if (!failed_.ok()) return;
  failed_ = Status(Errc::kStorage, status.what());
  for (Writer* const writer : writers_) writer->leave_.store(Writer::kLeave, std::memory_order_relaxed);
}

void Log::write_truncation(Sequence sequence) {
  Truncation truncation;
  truncation.before = sequence;
  truncation.crc = crc_of(truncation, generation_);
  store_words(map_.data() + kTruncationAt[truncations_++ % 2], truncation);
  std::atomic_thread_fence(std::memory_order_release);  // before any block is taken again
}

Status Log::truncate_before(Sequence sequence) {
  ATOLL_CHECK(sequence <= last() + 1);
  if (const Status status = health(); !status.ok()) return status;
  if (sequence <= truncated_before_) return {};
  write_truncation(sequence);
  // Before a block is filled again the disk must know that what was in it may be missing.
  if (const Status status = sync(); !status.ok()) return status;
  truncated_before_ = sequence;
  const base::MutexLock lock(mutex_);
  for (std::uint32_t k = 0; k < blocks_count_; ++k) {
    Block& block = blocks_[k];
    if (!block.taken || !block.left || block.last >= sequence) continue;
    block = {false, false, 0, true};
    free_.push_back(k);
  }
  free_count_.store(std::uint32_t(free_.size()), std::memory_order_relaxed);
  return {};
}

Status Log::discard_old() {
  const auto names = disk_.list();
  if (!names.ok()) return names.status();
  std::vector<std::uint64_t> old;
  for (const std::string& name : *names) {
    const std::uint64_t generation = generation_of(name);
    if (generation != 0 && generation < generation_) old.push_back(generation);
  }
  if (old.empty()) return {};
  std::sort(old.begin(), old.end());
  for (const std::uint64_t generation : old) {
    if (const Status status = disk_.remove(log_name(generation)); !status.ok()) return status;
  }
  return disk_.sync_directory();
}

Log::Writer::Writer(Log& log) : last_(log.last()), log_(log) {
  const base::MutexLock lock(log_.mutex_);
  log_.writers_.push_back(this);
}

Log::Writer::~Writer() {
  const base::MutexLock lock(log_.mutex_);
  log_.leave_block(*this);
  std::erase(log_.writers_, this);
}

}  // namespace atoll::log
