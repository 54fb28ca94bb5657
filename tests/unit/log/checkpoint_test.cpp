// Checkpoints: whole or not at all, wherever process or machine stop.
#include "log/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "support/seed.hpp"
#include "unit/log/logging.hpp"

namespace atoll::log {
namespace {

using storage::FaultyDisk;
using storage::OpenMode;
using testing::HasSubstr;

constexpr std::uint64_t kMemory = 16 * 4096;
constexpr std::uint32_t kLine = 512;
constexpr CheckpointShape kShape{kMemory, kLine, 3};

std::span<const std::byte> text(const std::string& value) {
  return std::as_bytes(std::span(value));
}

TEST(Checkpoint, IsReadAsItWasWritten) {
  FaultyDisk disk;
  EXPECT_FALSE(CheckpointReader::open(disk).has_value());
  CheckpointWriter writer(disk, kShape);
  EXPECT_EQ(writer.generation(), 0u);
  EXPECT_FALSE(CheckpointReader::open(disk).has_value());
  ASSERT_TRUE(writer.begin(17).ok());
  const std::vector<std::byte> page(4096, std::byte{5});
  ASSERT_TRUE(writer.write_memory(2 * 4096, page).ok());
  ASSERT_TRUE(writer.write_memory(3 * 4096 + 100, std::span(page).first(7)).ok());
  const std::vector<LineMeta> lines = {{4, 0}, {5, kNoNode}, {6, 2}};
  ASSERT_TRUE(writer.write_lines(10, lines).ok());
  writer.set_blob("allocator", text("free"));
  writer.set_blob("names", text(""));
  writer.set_blob("allocator", text("free at last"));
  ASSERT_TRUE(writer.commit().ok());
  EXPECT_EQ(writer.generation(), 1u);

  auto reader = CheckpointReader::open(disk);
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ(reader->generation(), 1u);
  EXPECT_EQ(reader->redo_from(), 17u);
  EXPECT_EQ(reader->memory_bytes(), kMemory);
  EXPECT_EQ(reader->line_bytes(), kLine);
  EXPECT_EQ(reader->lines(), kMemory / kLine);
  EXPECT_EQ(reader->node(), 3);
  ASSERT_EQ(reader->blobs().size(), 2u);
  EXPECT_EQ(reader->blobs().at("allocator").size(), 12u);
  EXPECT_TRUE(reader->blobs().at("names").empty());
  std::vector<std::byte> memory(kMemory, std::byte{9});
  ASSERT_TRUE(reader->read_memory(0, memory).ok());
  std::vector<std::byte> expected(kMemory);
  std::fill_n(expected.begin() + 2 * 4096, 4096, std::byte{5});
  std::fill_n(expected.begin() + 3 * 4096 + 100, 7, std::byte{5});
  EXPECT_EQ(memory, expected);
  std::vector<std::byte> zeroed(kMemory);
  ASSERT_TRUE(reader->load_memory(zeroed).ok());
  EXPECT_EQ(zeroed, expected);
  std::vector<std::byte> some(10);
  ASSERT_TRUE(reader->read_memory(3 * 4096 + 98, some).ok());
  EXPECT_EQ(some[1], std::byte{0});
  EXPECT_EQ(some[2], std::byte{5});
  std::vector<LineMeta> found(kMemory / kLine, LineMeta{1, 1});
  ASSERT_TRUE(reader->read_lines(0, found).ok());
  EXPECT_EQ(found[9], LineMeta{});
  EXPECT_EQ(found[10], (LineMeta{4, 0}));
  EXPECT_EQ(found[11], (LineMeta{5, kNoNode}));
  EXPECT_EQ(found[12], (LineMeta{6, 2}));
  EXPECT_EQ(found.back(), LineMeta{});
}

TEST(Checkpoint, GoesOnInTheNextLife) {
  FaultyDisk disk;
  for (std::uint64_t life = 1; life <= 4; ++life) {
    CheckpointWriter writer(disk, kShape);
    EXPECT_EQ(writer.generation(), life - 1);
    ASSERT_TRUE(writer.begin(life * 10).ok());
    ASSERT_TRUE(writer.write_memory(life * 8, bytes_of(life)).ok());
    writer.set_blob("life " + std::to_string(life), bytes_of(life));
    ASSERT_TRUE(writer.commit().ok());
    disk.crash_power(life);
    auto reader = CheckpointReader::open(disk);
    ASSERT_TRUE(reader.has_value());
    EXPECT_EQ(reader->redo_from(), life * 10);
    EXPECT_EQ(reader->blobs().size(), 1u);
    EXPECT_TRUE(reader->blobs().contains("life " + std::to_string(life)));
    std::vector<std::uint64_t> words(5);
    ASSERT_TRUE(reader->read_memory(0, std::as_writable_bytes(std::span(words))).ok());
    for (std::uint64_t k = 1; k <= 4; ++k) EXPECT_EQ(words[k], k <= life ? k : 0);
  }
}

TEST(Checkpoint, AnotherShapeIsRefused) {
  FaultyDisk disk;
  {
    CheckpointWriter writer(disk, kShape);
    ASSERT_TRUE(writer.begin(1).ok());
    ASSERT_TRUE(writer.commit().ok());
  }
  EXPECT_THROW(CheckpointWriter(disk, {2 * kMemory, kLine, 3}), Error);
  EXPECT_THROW(CheckpointWriter(disk, {kMemory, 2 * kLine, 3}), Error);
  EXPECT_THROW(CheckpointWriter(disk, {kMemory, kLine, 4}), Error);
  EXPECT_NO_THROW(CheckpointWriter(disk, kShape));
}

TEST(Checkpoint, DamageIsAnError) {
  const auto why = [](storage::Disk& disk) -> std::string {
    try {
      (void)CheckpointReader::open(disk);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  FaultyDisk disk;
  CheckpointWriter writer(disk, kShape);
  for (int k = 0; k < 2; ++k) {
    ASSERT_TRUE(writer.begin(1).ok());
    writer.set_blob("names", text("and more names"));
    ASSERT_TRUE(writer.commit().ok());
  }
  const auto header = disk.open(kCheckpointName, OpenMode::kWrite);
  const std::uint64_t bad = 99;
  ASSERT_TRUE(header->write(24, bytes_of(bad)).ok());  // the newer one: the older counts
  EXPECT_EQ(CheckpointReader::open(disk)->generation(), 1u);
  ASSERT_TRUE(disk.open(kBlobNames[1], OpenMode::kWrite)->write(0, bytes_of(bad)).ok());
  EXPECT_THAT(why(disk), HasSubstr("checkpoint.blobs.1 is damaged"));
  ASSERT_TRUE(disk.open(kBlobNames[1], OpenMode::kWrite)->resize(8).ok());
  EXPECT_THAT(why(disk), HasSubstr("checkpoint.blobs.1, a part of the checkpoint, has"));
  ASSERT_TRUE(header->write(kCheckpointSlotBytes + 24, bytes_of(bad)).ok());
  EXPECT_THAT(why(disk), HasSubstr("both of its headers are damaged"));
  EXPECT_THROW(CheckpointWriter(disk, kShape), Error);
}

TEST(Checkpoint, BlobsThatMakeNoSenseAreNone) {
  const Blobs blobs = {{"a", std::vector<std::byte>(3)}, {"bcdefghi", std::vector<std::byte>(16)}, {"", {}}};
  const std::vector<std::byte> bytes = encode_blobs(blobs);
  EXPECT_EQ(decode_blobs(bytes), blobs);
  EXPECT_EQ(decode_blobs({}), Blobs{});
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  base::Random random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> changed = bytes;
    changed.resize(random.below(bytes.size() + 1));
    for (int k = 0; k < 3 && !changed.empty(); ++k) changed[random.below(changed.size())] = std::byte(random.next());
    (void)decode_blobs(changed);  // an error or something, for the sanitizers to see
  }
}

TEST(Checkpoint, AFullDiskMayHaveRoomLater) {
  FaultyDisk disk;
  CheckpointWriter writer(disk, kShape);
  disk.set_capacity(4096);
  ASSERT_TRUE(writer.begin(1).ok());
  const std::vector<std::byte> much(8192, std::byte{1});
  EXPECT_EQ(writer.write_memory(0, much).code(), Errc::kStorageFull);
  disk.set_capacity(UINT64_MAX);
  ASSERT_TRUE(writer.begin(2).ok());
  EXPECT_TRUE(writer.write_memory(0, much).ok());
  EXPECT_TRUE(writer.commit().ok());
  EXPECT_EQ(CheckpointReader::open(disk)->redo_from(), 2u);
}

TEST(Checkpoint, AfterAFailureItIsOver) {
  for (const auto kind : {storage::Operation::kSync, storage::Operation::kWrite}) {
    FaultyDisk disk;
    CheckpointWriter writer(disk, kShape);
    ASSERT_TRUE(writer.begin(1).ok());
    disk.fail_next(kind);
    EXPECT_EQ(writer.commit().code(), Errc::kStorage);
    EXPECT_EQ(writer.begin(2).code(), Errc::kStorage);
    EXPECT_FALSE(CheckpointReader::open(disk).has_value());
  }
}

/// A node in small: memory of words, written by records; and the checkpoint and the log that it would recover from.
class TinyNode {
 public:
  explicit TinyNode(std::uint64_t seed) : disk_(seed), random_(seed), memory_(kMemory / 8) { start(); }

  void write(int count) {
    for (; count > 0; --count) {
      const std::uint64_t word = random_.below(memory_.size()), value = random_.next();
      const auto sequence = log_->append(*writer_, write_head(word * 8), bytes_of(value));
      if (!sequence.ok()) return;
      memory_[word] = value;
      dirty_[word * 8 / 4096] = true;
      history_.push_back({*sequence, word, value});
    }
  }

  /// As the runtime does it: fuzzy, while others write. False: something failed.
  bool checkpoint() {
    log_->seal();
    const Sequence redo_from = log_->last() + 1;
    if (!checkpoint_->begin(redo_from).ok()) return false;
    for (std::size_t page = 0; page < dirty_.size(); ++page) {
      if (!dirty_[page]) continue;
      dirty_[page] = false;
      if (!log_->sync().ok()) return false;  // nothing may be in the checkpoint that is not in the log
      const auto bytes = std::as_bytes(std::span(memory_)).subspan(page * 4096, 4096);
      if (!checkpoint_->write_memory(page * 4096, bytes).ok()) return false;
      write(2);
    }
    const LineMeta line{redo_from, 1};
    if (!checkpoint_->write_lines(redo_from % 100, std::span(&line, 1)).ok()) return false;
    checkpoint_->set_blob("redo", bytes_of(redo_from));
    if (!checkpoint_->commit().ok()) return false;
    return log_->truncate_before(redo_from).ok() && log_->discard_old().ok();
  }

  /// The power goes; the memory must be what the log says up to some record, all durable ones included.
  void crash_and_recover() {
    const Sequence durable = log_->durable();
    writer_.reset();
    log_.reset();
    checkpoint_.reset();
    disk_.crash_power(random_.next());
    std::vector<std::uint64_t> restored(memory_.size());
    Sequence from = 0;
    if (auto reader = CheckpointReader::open(disk_)) {
      from = reader->redo_from();
      ASSERT_EQ(word_of(reader->blobs().at("redo")), from);
      reader->load_memory(std::as_writable_bytes(std::span(restored))).or_throw();
      LineMeta line;
      reader->read_lines(from % 100, std::span(&line, 1)).or_throw();
      EXPECT_EQ(line, (LineMeta{from, 1}));
    }
    const LoadedLog loaded = load_all(disk_, {true, from});
    Sequence last = std::max(durable, from > 0 ? from - 1 : 0);
    for (std::size_t k = 0; k < loaded.size(); ++k) {
      const Record record = loaded[k];
      restored[record.head.address / 8] = word_of(record.payload);
      last = std::max(last, record.sequence);
    }
    std::vector<std::uint64_t> expected(memory_.size());
    std::erase_if(history_, [last](const Write& write) { return write.sequence > last; });
    for (const Write& write : history_) expected[write.word] = write.value;
    ASSERT_EQ(restored, expected) << "durable " << durable << ", redo from " << from << ", last " << last;
    memory_ = restored;
    after_ = std::max(loaded.highest(), last);
    start();
    std::fill(dirty_.begin(), dirty_.end(), true);
  }

  FaultyDisk& disk() { return disk_; }

 private:
  struct Write {
    Sequence sequence;
    std::uint64_t word;
    std::uint64_t value;
  };

  void start() {
    LogConfig config = small_log(LogMode::kPower, after_);
    config.bytes = 160 << 10;
    log_ = Log::open(disk_, config);
    writer_ = std::make_unique<Log::Writer>(*log_);
    checkpoint_ = std::make_unique<CheckpointWriter>(disk_, kShape);
  }

  FaultyDisk disk_;
  base::Random random_;
  std::vector<std::uint64_t> memory_;
  std::vector<bool> dirty_ = std::vector<bool>(kMemory / 4096);
  std::vector<Write> history_;
  Sequence after_ = 0;
  std::unique_ptr<Log> log_;
  std::unique_ptr<Log::Writer> writer_;
  std::unique_ptr<CheckpointWriter> checkpoint_;
};

/// The machine stops after each single operation of a checkpoint, the first and the second of a life.
TEST(Checkpoint, APowerCutAtEveryOperation) {
  const std::uint64_t first_seed = test::fresh_seed();
  for (int earlier = 0; earlier < 2; ++earlier) {
    bool finished = false;
    for (std::uint64_t n = 1; !finished; ++n) {
      for (std::uint64_t k = 0; k < std::uint64_t(test::scaled(10)); ++k) {
        const std::uint64_t seed = first_seed + k;
        SCOPED_TRACE(test::repeat_with(seed) + ", operation " + std::to_string(n));
        TinyNode node(seed);
        node.write(50);
        for (int round = 0; round < earlier; ++round) ASSERT_TRUE(node.checkpoint());
        node.write(50);
        node.disk().fail_from(n);
        finished = node.checkpoint();
        node.disk().write_back(seed);
        ASSERT_NO_FATAL_FAILURE(node.crash_and_recover());
        // And life goes on.
        node.write(20);
        ASSERT_TRUE(node.checkpoint());
        node.write(20);
        ASSERT_NO_FATAL_FAILURE(node.crash_and_recover());
      }
    }
  }
}

TEST(Checkpoint, RealFilesWithHoles) {
  std::string folder = testing::TempDir() + "atoll-checkpoint-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  constexpr std::uint64_t kBytes = 64 << 20;
  const std::vector<std::byte> page(4096, std::byte{7});
  {
    const auto disk = storage::open_disk(folder);
    CheckpointWriter writer(*disk, {kBytes, kLine, 0});
    ASSERT_TRUE(writer.begin(1).ok());
    for (std::uint64_t at = 0; at < kBytes; at += 8 << 20) ASSERT_TRUE(writer.write_memory(at, page).ok());
    ASSERT_TRUE(writer.commit().ok());
  }
  const auto disk = storage::open_disk(folder);
  auto reader = CheckpointReader::open(*disk);
  ASSERT_TRUE(reader.has_value());
  std::vector<std::byte> memory(kBytes);
  ASSERT_TRUE(reader->load_memory(memory).ok());
  for (std::uint64_t at = 0; at < kBytes; at += 1 << 20) {
    EXPECT_EQ(memory[at + 17], at % (8 << 20) == 0 ? std::byte{7} : std::byte{0});
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace atoll::log
