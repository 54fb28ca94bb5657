#include "cluster/record_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace atoll::cluster {
namespace {

using testing::HasSubstr;

class Record : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "atoll-record-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    path = pattern + "/state";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string failure(NodeId nodes) const {
    try {
      const RecordFile file(path, nodes);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::string folder, path;
  const LeaseRecord record{42, {3, {10, 0, 12}, {1, 0, 2}}};
};

TEST_F(Record, is_what_was_written_last) {
  {
    RecordFile file(path, 3);
    EXPECT_FALSE(file.found());
    file.write({41, {1, {10, 11, 12}, {1, 1, 1}}});
    file.write(record);
  }
  EXPECT_EQ(RecordFile(path, 3).found(), record);
  RecordFile(path, 3).remove();
  EXPECT_FALSE(RecordFile(path, 3).found());
}

TEST_F(Record, belongs_to_one_master_at_a_time) {
  const RecordFile file(path, 3);
  EXPECT_THAT(failure(3), HasSubstr("another master runs with"));
}

TEST_F(Record, that_makes_no_sense_is_refused_and_left_as_it_is) {
  for (const char* text : {"", "{", "[1]", R"({"term": 1})", R"({"term": 1, "epoch": 1, "members": [[3, 1, 1]]})"}) {
    std::ofstream(path) << text;
    EXPECT_THAT(failure(3), HasSubstr("is no record of a cluster of 3 nodes")) << text;
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  RecordFile(folder + "/other", 3).write(record);
  std::filesystem::rename(folder + "/other", path);
  EXPECT_THAT(failure(2), HasSubstr("of 2 nodes"));
  EXPECT_EQ(failure(3), "");
}

TEST_F(Record, that_cannot_be_written_says_so) {
  RecordFile file(path, 3);
  std::filesystem::create_directory(path + ".next");
  EXPECT_THROW(file.write(record), Error);
  path = folder + "/none/state";
  EXPECT_THAT(failure(3), HasSubstr("cannot open"));
}

}  // namespace
}  // namespace atoll::cluster
