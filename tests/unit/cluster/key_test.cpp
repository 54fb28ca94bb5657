#include "cluster/key.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace atoll::cluster {
namespace {

/// A folder that is gone when the test is.
class Scratch {
 public:
  Scratch() {
    std::string path = (std::filesystem::temp_directory_path() / "atoll-key-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    path_ = path;
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] std::string write(const std::string& text, mode_t mode = 0600) const {
    const std::string path = file("a.key");
    std::ofstream(path) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }

 private:
  std::filesystem::path path_;
};

template <typename F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

const std::string kText(64, 'a');

TEST(Key, is_fresh_each_time_and_comes_back_from_its_text) {
  const Key a = Key::generate(), b = Key::generate();
  EXPECT_NE(a.reveal(), b.reveal());
  EXPECT_EQ(a.reveal().size(), Key::kTextBytes);
  EXPECT_EQ(Key::parse(a.reveal(), "x").reveal(), a.reveal());
  EXPECT_EQ(Key::parse(" \n" + a.reveal() + "\r\n", "x").reveal(), a.reveal());
}

TEST(Key, what_is_no_key_is_refused_and_not_shown) {
  for (const std::string& text :
       {std::string(), std::string(" "), std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'g'),
        std::string(kText).append("\n").append(kText), std::string(32, 'a').append(" ").append(31, 'a'),
        std::string("0x").append(62, 'a')}) {
    const std::string why = error_of([&] { (void)Key::parse(text, "the value of X"); });
    EXPECT_NE(why.find("the value of X is no cluster key"), std::string::npos) << why;
    if (text.size() > 3) {
      EXPECT_EQ(why.find(text.substr(0, 4)), std::string::npos) << why;
    }
  }
}

TEST(Key, a_new_file_is_for_its_owner_alone_and_never_overwritten) {
  const Scratch scratch;
  const std::string path = scratch.file("new.key");
  const mode_t before = ::umask(0277);
  const Key key = Key::generate();
  key.write_new_file(path);
  ::umask(before);
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  EXPECT_EQ(Key::read_file(path).reveal(), key.reveal());
  EXPECT_NE(error_of([&] { Key::generate().write_new_file(path); }).find("not overwritten"), std::string::npos);
  EXPECT_EQ(Key::read_file(path).reveal(), key.reveal());
  EXPECT_NE(error_of([&] { key.write_new_file(scratch.file("no/such/folder")); }).find("cannot make"),
            std::string::npos);
}

TEST(Key, a_file_that_others_can_use_is_refused_with_the_remedy) {
  const Scratch scratch;
  for (const mode_t mode : {0640u, 0620u, 0604u, 0602u, 0660u, 0644u, 0610u}) {
    const std::string path = scratch.write(kText, mode);
    const std::string why = error_of([&] { (void)Key::read_file(path); });
    EXPECT_NE(why.find("chmod 600 " + path), std::string::npos) << why;
  }
  EXPECT_EQ(Key::read_file(scratch.write(kText + "\n", 0400)).reveal(), kText);
}

TEST(Key, files_that_are_none_are_errors) {
  const Scratch scratch;
  EXPECT_NE(error_of([&] { (void)Key::read_file(scratch.file("none")); }).find("cannot read"), std::string::npos);
  EXPECT_NE(error_of([&] { (void)Key::read_file("/dev/zero"); }).find("no plain file"), std::string::npos);
  EXPECT_NE(error_of([&] { (void)Key::read_file(scratch.write(std::string(100'000, 'a'))); }).find("no cluster key"),
            std::string::npos);
  const std::string pipe = scratch.file("pipe");  // whose reader must not wait for a writer
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(error_of([&] { (void)Key::read_file(pipe); }).find("no plain file"), std::string::npos);
}

TEST(Key, comes_from_the_environment_the_file_first) {
  const Scratch scratch;
  ::unsetenv("ATOLL_KEY");
  ::unsetenv("ATOLL_KEY_FILE");
  EXPECT_FALSE(Key::from_environment().has_value());
  ::setenv("ATOLL_KEY", std::string(64, 'b').c_str(), 1);
  EXPECT_EQ(Key::from_environment()->reveal(), std::string(64, 'b'));
  ::setenv("ATOLL_KEY_FILE", scratch.write(kText).c_str(), 1);
  EXPECT_EQ(Key::from_environment()->reveal(), kText);
  ::unsetenv("ATOLL_KEY_FILE");
  ::setenv("ATOLL_KEY", "", 1);
  EXPECT_NE(error_of([] { (void)Key::from_environment(); }).find("ATOLL_KEY is no cluster key"), std::string::npos);
  ::unsetenv("ATOLL_KEY");
}

TEST(Key, is_wiped_at_its_end) {
  alignas(Key) std::array<std::uint8_t, sizeof(Key)> room{};
  auto* key = new (room.data()) Key(Key::parse(kText, "x"));
  EXPECT_EQ(room[0], 0xaa);
  key->~Key();
  EXPECT_EQ(room, (std::array<std::uint8_t, sizeof(Key)>{}));
}

TEST(Key, secrets_are_compared_as_a_whole) {
  EXPECT_TRUE(same_secret("", ""));
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("abc", "abd"));
  EXPECT_FALSE(same_secret("abc", "ab"));
  EXPECT_EQ(random_hex(16).size(), 32u);
  EXPECT_NE(random_hex(16), random_hex(16));
}

}  // namespace
}  // namespace atoll::cluster
