// `atoll log dump` as a user calls it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "log/checkpoint.hpp"
#include "log/log.hpp"
#include "support/command.hpp"

namespace atoll {
namespace {

using nlohmann::json;
using test::Command;
using testing::HasSubstr;

class LogDump : public testing::Test {
 protected:
  LogDump() : folder_(testing::TempDir() + "atoll-dump-XXXXXX") {
    if (::mkdtemp(folder_.data()) == nullptr) std::abort();
    const auto disk = storage::open_disk(folder_);
    log::LogConfig config;
    config.mode = LogMode::kPower;
    config.bytes = 1 << 20;
    config.max_payload = 4096;
    config.node = 2;
    const auto log = log::Log::open(*disk, config);
    log::Log::Writer writer(*log);
    const std::uint64_t value = 7;
    const auto bytes = std::as_bytes(std::span(&value, 1));
    log->append(writer, {log::RecordType::kWrite, 0, 2, 1, 0x0000020000001a40, 5}, bytes).status().or_throw();
    log->append(writer, {log::RecordType::kGrant, 0, 1, 1, 0x0000020000001a40, 6}, {}).status().or_throw();
    log::CheckpointWriter checkpoint(*disk, {1 << 20, 512, 2});
    checkpoint.begin(2).or_throw();
    checkpoint.commit().or_throw();
  }
  ~LogDump() override { std::filesystem::remove_all(folder_); }

  int dump(const std::string& arguments) {
    Command command(std::string(ATOLL_COMMAND) + " log dump " + arguments);
    const int code = command.wait();
    output_ = command.output();
    return code;
  }

  std::string folder_;
  std::string output_;
};

TEST_F(LogDump, ShowsRecords) {
  EXPECT_EQ(dump(folder_ + "/log.1"), 0);
  EXPECT_EQ(output_,
            "1 write 2:0x1a40 tenure 5, 8 bytes, epoch 1\n"
            "2 grant 2:0x1a40 tenure 6 to node 1, epoch 1\n");
  EXPECT_EQ(dump("--json " + folder_ + "/log.1"), 0);
  std::istringstream lines(output_);
  std::vector<json> records;
  for (std::string line; std::getline(lines, line);) records.push_back(json::parse(line));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].at("type"), "grant");
  EXPECT_EQ(records[0].at("bytes"), 8);
}

TEST_F(LogDump, SumsUp) {
  EXPECT_EQ(dump("--summary " + folder_ + "/log.1"), 0);
  EXPECT_EQ(output_, "log of node 2, generation 1, mode power: 2 records (88 B) in 1 blocks, highest 2\n");
  EXPECT_EQ(dump("--summary --json " + folder_ + "/log.1"), 0);
  EXPECT_EQ(json::parse(output_).at("records"), 2);
}

TEST_F(LogDump, ShowsCheckpoints) {
  EXPECT_EQ(dump(folder_ + "/checkpoint"), 0);
  EXPECT_EQ(output_, "checkpoint of node 2, generation 1: 1 MiB in lines of 512 bytes, 0 B of blobs; redo from 2\n");
  EXPECT_EQ(dump("--json " + folder_ + "/checkpoint"), 0);
  EXPECT_EQ(json::parse(output_).at("redo_from"), 2);
}

TEST_F(LogDump, RefusesOtherFiles) {
  EXPECT_EQ(dump(folder_ + "/none"), 1);
  EXPECT_THAT(output_, HasSubstr("cannot open " + folder_ + "/none: No such file"));
  EXPECT_EQ(dump(folder_), 1);
  EXPECT_THAT(output_, HasSubstr(folder_ + " is a folder: dump log.N, or checkpoint, in the folder of a node"));
  EXPECT_EQ(dump(folder_ + "/checkpoint.memory"), 1);
  EXPECT_THAT(output_, HasSubstr("checkpoint.memory is the memory of a checkpoint: dump log.N"));
  EXPECT_EQ(dump(folder_ + "/checkpoint.lines"), 1);
  EXPECT_THAT(output_, HasSubstr("is what a checkpoint says of lines: dump log.N"));
  EXPECT_EQ(dump(folder_ + "/checkpoint.blobs.1"), 1);
  EXPECT_THAT(output_, HasSubstr("is the small parts of a checkpoint: dump log.N"));
  EXPECT_EQ(dump(folder_ + "/lock"), 1);
  EXPECT_THAT(output_, HasSubstr("is who uses the folder: dump log.N"));
  EXPECT_EQ(dump(folder_ + "/cluster.json"), 1);
  EXPECT_THAT(output_, HasSubstr("is what the cluster is: dump log.N"));
  std::ofstream(folder_ + "/text") << "no log at all";
  EXPECT_EQ(dump(folder_ + "/text"), 1);
  EXPECT_THAT(output_, HasSubstr("is no log and no checkpoint"));
  std::filesystem::resize_file(folder_ + "/log.1", 5000);
  EXPECT_EQ(dump(folder_ + "/log.1"), 1);
  EXPECT_THAT(output_, HasSubstr("shorter than it says"));
  EXPECT_EQ(dump(""), 2);
}

}  // namespace
}  // namespace atoll
