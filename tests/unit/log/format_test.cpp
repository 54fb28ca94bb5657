// The bytes on disk: checksums, headers, texts.
#include "log/format.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "support/seed.hpp"
#include "unit/log/logging.hpp"

namespace atoll::log {
namespace {

using storage::FaultyDisk;
using storage::OpenMode;

std::uint32_t crc_of_text(const std::string& text) {
  return base::crc32c(0, std::as_bytes(std::span(text)));
}

/// The values of RFC 3720, B.4, and of everybody's "123456789".
TEST(Crc32c, IsTheOneThatOthersKnow) {
  EXPECT_EQ(crc_of_text(""), 0u);
  EXPECT_EQ(crc_of_text("123456789"), 0xe3069283u);
  EXPECT_EQ(crc_of_text(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc_of_text(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising;
  for (char k = 0; k < 32; ++k) rising += k;
  EXPECT_EQ(crc_of_text(rising), 0x46dd794eu);
}

TEST(Crc32c, PiecesAndWordsGiveTheSame) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  base::Random random(seed);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (std::uint64_t k = random.below(100); k > 0; --k) text += char(random.next());
    const std::size_t cut = random.below(text.size() + 1);
    const std::uint32_t first = crc_of_text(text.substr(0, cut));
    EXPECT_EQ(crc_of_text(text), base::crc32c(first, std::as_bytes(std::span(text).subspan(cut))));
    const std::uint64_t word = random.next();
    const auto half = std::uint32_t(random.next());
    std::uint64_t state = base::PortableCrc::step(std::uint64_t(std::uint32_t(~first)), word);
    state = base::PortableCrc::step(state, half);
    EXPECT_EQ(std::uint32_t(~state), base::crc32c_of(base::crc32c_of(first, word), half));
#if ATOLL_CRC_IN_HARDWARE
    if (base::has_crc32c()) {
      EXPECT_EQ(base::HardwareCrc::step(std::uint64_t{7}, word), base::PortableCrc::step(std::uint64_t{7}, word));
      EXPECT_EQ(base::HardwareCrc::step(std::uint64_t{7}, half), base::PortableCrc::step(std::uint64_t{7}, half));
    }
#endif
  }
}

/// The example of docs/formats.md. What is on disk does not change by accident.
TEST(Format, ARecordByteByByte) {
  FaultyDisk disk;
  const auto log = Log::open(disk, small_log(LogMode::kProcess, 41));
  Log::Writer writer(*log);
  const std::uint64_t value = 0x0807060504030201;
  ASSERT_TRUE(log->append(writer, {RecordType::kWrite, 0, 3, 9, 0x0000030000001a40, 5}, bytes_of(value)).ok());
  const std::uint8_t letters[] = {'a', 'b', 'c'};
  ASSERT_TRUE(
      log->append(writer, {RecordType::kName, 1, 3, 9, 0x0000030000001a80, 0}, std::as_bytes(std::span(letters))).ok());
  std::vector<std::uint8_t> bytes(4096 + 4096);
  disk.open("log.1", OpenMode::kRead)->read(0, std::as_writable_bytes(std::span(bytes))).or_throw();
  // clang-format off
  const std::vector<std::uint8_t> file_header = {
      'A', 'T', 'O', 'L', 'L', 'L', 'O', 'G',  2, 0, 0, 0,  0, 0x10, 0, 0,  // magic, version, bytes of a block
      16, 0, 0, 0, 0, 0, 0, 0,  1, 0, 0, 0, 0, 0, 0, 0,                     // blocks, generation
      42, 0, 0, 0, 0, 0, 0, 0,                                              // first sequence
      1, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  3, 0, 1, 0};        // start of the machine, node, mode, zero
  const std::vector<std::uint8_t> block_header = {
      'A', 'T', 'O', 'L', 'L', 'B', 'L', 'K',  1, 0, 0, 0, 0, 0, 0, 0,      // magic, stamp
      42, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0};                                // first sequence, index
  const std::vector<std::uint8_t> record = {
      8, 0, 0, 0,  1,  0,  3, 0,  9, 0, 0, 0,  42, 0, 0, 0, 0, 0, 0, 0,     // length, type, flags, node, epoch, sequence
      0x40, 0x1a, 0, 0, 0, 3, 0, 0,  5, 0, 0, 0, 0, 0, 0, 0,                // address, number
      1, 2, 3, 4, 5, 6, 7, 8};                                              // payload
  const std::vector<std::uint8_t> second = {
      3, 0, 0, 0,  10,  1,  3, 0,  9, 0, 0, 0,  43, 0, 0, 0, 0, 0, 0, 0,
      0x80, 0x1a, 0, 0, 0, 3, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
      'a', 'b', 'c', 0, 0, 0, 0, 0};
  // clang-format on
  const auto at = [&bytes](std::size_t offset, std::size_t count) {
    return std::vector<std::uint8_t>(bytes.begin() + long(offset), bytes.begin() + long(offset + count));
  };
  const auto crc_at = [&](std::size_t offset) {
    std::uint32_t crc = 0;
    std::memcpy(&crc, bytes.data() + offset, 4);
    return crc;
  };
  EXPECT_EQ(at(0, 60), file_header);
  EXPECT_EQ(crc_at(60), base::crc32c(0, std::as_bytes(std::span(file_header))));
  EXPECT_EQ(at(4096, 28), block_header);
  const std::uint64_t generation = 1, stamp = 1;
  EXPECT_EQ(crc_at(4096 + 28), base::crc32c(base::crc32c_of(0, generation), std::as_bytes(std::span(block_header))));
  const std::uint32_t seed = base::crc32c_of(base::crc32c_of(0, generation), stamp);
  EXPECT_EQ(at(4160 + 4, 44), record);
  EXPECT_EQ(crc_at(4160), base::crc32c(seed, std::as_bytes(std::span(record))));
  EXPECT_EQ(at(4208 + 4, 44), second);
  EXPECT_EQ(crc_at(4208), base::crc32c(seed, std::as_bytes(std::span(second))));
  EXPECT_EQ(at(4256, 40), std::vector<std::uint8_t>(40));
}

TEST(LogRecord, PartsAreReadAsTheyWereWritten) {
  const std::uint64_t first = 0x0102030405060708, second = 9;
  std::vector<std::byte> payload;
  append_part(payload, {64, 5, bytes_of(first)});
  append_part(payload, {1 << 20, 0, bytes_of(second).first(3)});
  append_part(payload, {7, 1, {}});
  EXPECT_EQ(payload.size(), part_bytes(8) + part_bytes(3) + part_bytes(0));
  EXPECT_EQ(payload.size(), 88u);
  const auto parts = parts_of(payload);
  ASSERT_TRUE(parts && parts->size() == 3);
  EXPECT_EQ((*parts)[0].address, 64u);
  EXPECT_EQ((*parts)[0].tenure, 5u);
  EXPECT_EQ(word_of((*parts)[0].bytes), first);
  EXPECT_EQ((*parts)[1].bytes.size(), 3u);
  EXPECT_EQ(word_of((*parts)[1].bytes), 9u);
  EXPECT_EQ((*parts)[2].address, 7u);
  EXPECT_TRUE((*parts)[2].bytes.empty());
  for (std::size_t bytes = 1; bytes < payload.size(); ++bytes) {
    const auto cut = parts_of(std::span(payload).first(bytes));
    EXPECT_EQ(cut.has_value(), bytes == 32 || bytes == 64) << bytes;
  }
  const std::uint64_t huge = UINT64_MAX;
  std::memcpy(payload.data() + 16, &huge, sizeof(huge));
  EXPECT_FALSE(parts_of(payload));
}

TEST(LogRecord, HasAText) {
  const std::uint64_t line = 4096;
  const auto text = [](RecordType type, std::span<const std::byte> payload = {}, std::uint8_t flags = 0) {
    return to_string(Record{{type, flags, 2, 7, 0x0000030000001a40, 5}, 17, payload});
  };
  EXPECT_EQ(text(RecordType::kWrite, bytes_of(line)), "17 write 3:0x1a40 tenure 5, 8 bytes, epoch 7");
  EXPECT_EQ(text(RecordType::kImage, bytes_of(line), 3), "17 image 3:0x1a40 tenure 5, 8 bytes, epoch 7, flags 0x3");
  EXPECT_EQ(text(RecordType::kGrant), "17 grant 3:0x1a40 tenure 5 to node 2, epoch 7");
  EXPECT_EQ(text(RecordType::kTaken), "17 taken 3:0x1a40 tenure 5 from node 2, 0 bytes, epoch 7");
  EXPECT_EQ(text(RecordType::kReturned), "17 returned 3:0x1a40 tenure 5, epoch 7");
  EXPECT_EQ(text(RecordType::kUndo), "17 undo 3:0x1a40 tenure 5, was granted to node 2, epoch 7");
  EXPECT_EQ(text(RecordType::kAllocate), "17 allocate 3:0x1a40 5 bytes, epoch 7");
  EXPECT_EQ(text(RecordType::kFree), "17 free 3:0x1a40 freed, epoch 7");
  EXPECT_EQ(text(RecordType::kRegion, bytes_of(line)), "17 region 3:0x1a40 5 bytes in lines of 4096, epoch 7");
  EXPECT_EQ(text(RecordType::kRegion), "17 region 3:0x1a40 5 bytes in lines of 0, epoch 7");
  const std::string name = "a\"b\n";
  EXPECT_EQ(text(RecordType::kName, std::as_bytes(std::span(name))), "17 name 3:0x1a40 \"a\\x22b\\x0a\", epoch 7");
  std::vector<std::byte> parts;
  append_part(parts, {0x0000030000001a40, 5, bytes_of(line)});
  append_part(parts, {0x0000010000000200, 7, bytes_of(line).first(3)});
  EXPECT_EQ(text(RecordType::kTogether, parts),
            "17 together 3:0x1a40 2 writes: 3:0x1a40 tenure 5 8 bytes; 1:0x200 tenure 7 3 bytes, epoch 7");
  EXPECT_EQ(text(RecordType::kTogether, bytes_of(line)), "17 together 3:0x1a40 damaged, epoch 7");
  EXPECT_EQ(text(RecordType::kNone), "17 none 3:0x1a40 , epoch 7");
  EXPECT_EQ(text(RecordType(99)), "17 unknown 3:0x1a40 , epoch 7");
  for (int type = 0; type <= kLastType; ++type) EXPECT_NE(to_string(RecordType(type)), nullptr);
  EXPECT_EQ(to_string(RecordType(kLastType + 1)), nullptr);
}

}  // namespace
}  // namespace atoll::log
