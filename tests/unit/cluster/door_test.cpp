#include "cluster/door.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <vector>

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;

constexpr auto kLong = 30s;

base::Fd make_file(off_t bytes) {
  base::Fd fd(::memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(fd.get(), bytes), 0);
  return fd;
}

off_t size_of(const base::Fd& fd) {
  struct stat info {};
  return ::fstat(fd.get(), &info) == 0 ? info.st_size : -1;
}

Errc code_of(const std::string& door, const std::string& token, std::chrono::milliseconds timeout = kLong) {
  try {
    (void)fetch_segment(door, token, Clock::now() + timeout);
  } catch (const Error& error) {
    return error.code();
  }
  return Errc::kOk;
}

TEST(HostIdentity, is_the_same_for_processes_of_one_host) {
  const std::string here = host_identity();
  EXPECT_EQ(here, host_identity());
  EXPECT_LE(here.size(), kMaxHostBytes);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string there = host_identity();
    (void)!::write(ends[1], there.data(), there.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string there(kMaxHostBytes, '\0');
  there.resize(std::size_t(std::max<ssize_t>(0, ::read(ends[0], there.data(), there.size()))));
  ::close(ends[0]);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(there, here);
}

TEST(Door, gives_the_segment_to_who_has_the_token) {
  const base::Fd segment = make_file(12345);
  const Door door(segment);
  EXPECT_LE(door.name().size(), kMaxDoorBytes);
  std::vector<std::future<off_t>> peers;
  for (int k = 0; k < 20; ++k) {
    peers.push_back(std::async(
        std::launch::async, [&] { return size_of(fetch_segment(door.name(), door.token(), Clock::now() + kLong)); }));
  }
  for (auto& peer : peers) EXPECT_EQ(peer.get(), 12345);
}

TEST(Door, gives_nothing_to_who_has_not) {
  const base::Fd segment = make_file(1);
  const Door door(segment);
  EXPECT_EQ(code_of(door.name(), ""), Errc::kClusterDown);
  EXPECT_EQ(code_of(door.name(), std::string(32, '0')), Errc::kClusterDown);
  EXPECT_EQ(code_of(door.name(), door.token().substr(1)), Errc::kClusterDown);
  EXPECT_EQ(code_of(door.name(), std::string(10'000, '0')), Errc::kClusterDown);
  EXPECT_EQ(code_of("atoll-door-nowhere", door.token()), Errc::kNotFound);
  for (const std::string& bytes :
       {std::string(100, '\xff'), encode_frame({{"op", "fetch"}}), encode_frame({{"op", "x"}})}) {
    Connection stranger(connect_abstract(door.name(), Clock::now() + kLong));
    ASSERT_EQ(::write(stranger.fd(), bytes.data(), bytes.size()), ssize_t(bytes.size()));
    Frame frame;
    EXPECT_EQ(await_frame(stranger, frame, Clock::now() + kLong).code(), Errc::kClusterDown);
  }
  EXPECT_EQ(code_of(door.name(), door.token()), Errc::kOk);
}

TEST(Door, one_that_says_nothing_holds_up_nobody_for_long) {
  const base::Fd segment = make_file(1);
  const Door door(segment);
  const base::Fd silent = connect_abstract(door.name(), Clock::now() + kLong);
  EXPECT_EQ(code_of(door.name(), door.token()), Errc::kOk);
}

TEST(Door, is_closed_with_its_object) {
  const base::Fd segment = make_file(1);
  std::string name, token;
  {
    const Door door(segment);
    name = door.name();
    token = door.token();
  }
  EXPECT_EQ(code_of(name, token), Errc::kNotFound);
}

TEST(Door, that_never_answers_is_given_up) {
  const std::string name = make_socket_name();
  const base::Fd listener = listen_abstract(name);
  EXPECT_EQ(code_of(name, "x", 50ms), Errc::kDeadline);
}

}  // namespace
}  // namespace atoll::cluster
