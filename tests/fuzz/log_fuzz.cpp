// A log or a checkpoint that anybody may have written: reading it gives an error, or records that are in order and
// inside the file.
//
//   input = how (1 byte) | bytes of the file header | two truncations | blocks of 512 bytes    (a log)
//         | two checkpoint headers | blobs                                                     (a checkpoint)
// Checksums are made right, if `how` says so, so that what lies behind them is reached.
#include <algorithm>
#include <cstring>
#include <vector>

#include "fuzz.hpp"
#include "log/checkpoint.hpp"
#include "log/format.hpp"
#include "log/log.hpp"
#include "log/reader.hpp"
#include "storage/faulty_disk.hpp"

namespace atoll::fuzz {
namespace {

using namespace log;

enum How : std::uint8_t { kCheckpoint = 1, kRepair = 2, kCut = 4, kFrom = 8 };
constexpr std::size_t kBlock = 512;
constexpr std::size_t kMostBlocks = 16;
constexpr std::uint64_t kMostMemory = 128 << 10;  // of a checkpoint that is read

template <typename T>
void put(std::vector<std::byte>& file, std::size_t at, const T& value) {
  std::memcpy(file.data() + at, &value, sizeof(T));
}

/// The checksums of a block's records, as far as they can be followed.
void repair_block(std::span<std::byte> block, std::uint64_t generation) {
  BlockHeader head;
  std::memcpy(static_cast<void*>(&head), block.data(), sizeof(head));
  head.crc = crc_of(head, generation);
  std::memcpy(block.data(), &head, sizeof(head));
  const std::uint32_t seed = record_seed(generation, head.stamp);
  for (std::size_t at = sizeof(head); block.size() - at >= sizeof(RecordHeader);) {
    RecordHeader record;
    std::memcpy(static_cast<void*>(&record), block.data() + at, sizeof(record));
    const std::uint64_t bytes = sizeof(record) + padded(record.length);
    if (bytes > block.size() - at) return;
    record.crc = base::crc32c(seed, block.subspan(at + 4, bytes - 4));
    std::memcpy(block.data() + at, &record, sizeof(record));
    at += bytes;
  }
}

std::vector<std::byte> log_of(Input& input, bool repair) {
  auto header = input.take<FileHeader>();
  if (repair) {
    header.magic = kLogMagic;
    header.version = kLogVersion;
    header.crc = crc_of(header);
  }
  std::vector<std::byte> file(kFileHeaderBytes);
  put(file, 0, header);
  for (const std::uint64_t at : kTruncationAt) {
    auto truncation = input.take<Truncation>();
    if (repair && truncation.crc != 0) truncation.crc = crc_of(truncation, header.generation);
    put(file, at, truncation);
  }
  while (!input.empty() && file.size() < kFileHeaderBytes + kMostBlocks * kBlock) {
    const std::string_view text = input.text(kBlock);
    const std::size_t at = file.size();
    file.resize(at + kBlock);
    std::memcpy(file.data() + at, text.data(), text.size());
    if (repair) repair_block(std::span(file).subspan(at), header.generation);
  }
  return file;
}

void check_log(Input& input, std::uint8_t how) {
  storage::FaultyDisk disk;
  const auto file = disk.open(log_name(1), storage::OpenMode::kCreate);
  file->write(0, log_of(input, (how & kRepair) != 0)).or_throw();
  const ReadOptions options{(how & kCut) != 0, Sequence((how & kFrom) != 0 ? 5 : 0)};
  const auto loaded = read_log(*file, options);
  if (!loaded.ok()) {
    ATOLL_FUZZ_CHECK(loaded.status().code() == Errc::kStorage && *loaded.status().what() != '\0');
    return;
  }
  ATOLL_FUZZ_CHECK(loaded->report().records == loaded->size() && loaded->size() <= kMostBlocks * kBlock / 40);
  Sequence last = 0;
  for (std::size_t k = 0; k < loaded->size(); ++k) {
    const Record record = (*loaded)[k];
    ATOLL_FUZZ_CHECK(record.sequence > last || k == 0);
    ATOLL_FUZZ_CHECK(!options.cut_at_gap.value() || k == 0 || record.sequence == last + 1);
    ATOLL_FUZZ_CHECK(record.sequence >= options.from && record.sequence <= loaded->highest());
    ATOLL_FUZZ_CHECK(record.payload.size() <= kBlock && !to_string(record).empty());
    last = record.sequence;
    for (const Part& part : parts_of(record.payload).value_or(std::vector<Part>())) {
      ATOLL_FUZZ_CHECK(part.bytes.data() >= record.payload.data() && part.bytes.size() <= record.payload.size());
      ATOLL_FUZZ_CHECK(part.bytes.data() + part.bytes.size() <= record.payload.data() + record.payload.size());
    }
    unsigned sum = 0;
    for (const std::byte byte : record.payload) sum += unsigned(byte);  // all of it is there
    ATOLL_FUZZ_CHECK(sum <= 255 * kBlock);
  }
}

void check_checkpoint(Input& input, std::uint8_t how) {
  storage::FaultyDisk disk;
  const auto first = input.take<CheckpointHeader>(), second = input.take<CheckpointHeader>();
  const std::string_view blobs = input.text(input.left());
  for (const char* const name : kBlobNames) {
    disk.open(name, storage::OpenMode::kCreate)->write(0, std::as_bytes(std::span(blobs))).or_throw();
  }
  const auto file = disk.open(kCheckpointName, storage::OpenMode::kCreate);
  std::uint64_t at = 0;
  for (CheckpointHeader header : {first, second}) {
    if ((how & kRepair) != 0) {
      header.magic = kCheckpointMagic;
      header.version = kCheckpointVersion;
      header.blob_bytes %= blobs.size() + 1;
      header.blob_crc = base::crc32c(0, std::as_bytes(std::span(blobs)).first(header.blob_bytes));
      header.crc = crc_of(header);
    }
    file->write(at, std::as_bytes(std::span(&header, 1))).or_throw();
    at += kCheckpointSlotBytes;
  }
  for (const char* const name : {kMemoryName, kLinesName}) {
    const auto part = disk.open(name, storage::OpenMode::kCreate);
    part->write(0, std::as_bytes(std::span(blobs))).or_throw();
    if ((how & kRepair) != 0) part->extend(kMostMemory).or_throw();  // a shorter one is refused
  }
  try {
    auto reader = CheckpointReader::open(disk);
    if (!reader) return;
    std::vector<std::byte> memory(std::min<std::uint64_t>(reader->memory_bytes(), 4096));
    ATOLL_FUZZ_CHECK(reader->read_memory(0, memory).ok());
    std::vector<LineMeta> lines(std::min<std::uint64_t>(reader->lines(), 100));
    ATOLL_FUZZ_CHECK(reader->read_lines(0, lines).ok());
  } catch (const Error& error) {
    ATOLL_FUZZ_CHECK(error.code() == Errc::kStorage && *error.what() != '\0');
  }
}

}  // namespace
}  // namespace atoll::fuzz

using namespace atoll;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t how = input.byte();
  if ((how & fuzz::kCheckpoint) != 0) {
    fuzz::check_checkpoint(input, how);
  } else {
    fuzz::check_log(input, how);
  }
  return 0;
}
