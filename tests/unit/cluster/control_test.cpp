#include "cluster/control.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <random>

#include "cluster/status_client.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;

std::string with_length(std::uint32_t length, std::string_view text) {
  std::string bytes;
  for (int k = 0; k < 4; ++k) bytes.push_back(char((length >> (8 * k)) & 0xff));
  return bytes.append(text);
}

std::string framed(std::string_view text) {
  return with_length(std::uint32_t(text.size()), text);
}

std::pair<Connection, Connection> make_pair() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {Connection(base::Fd(ends[0])), Connection(base::Fd(ends[1]))};
}

SharedFd make_file(off_t bytes) {
  base::Fd fd(::memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(fd.get(), bytes), 0);
  return std::make_shared<const base::Fd>(std::move(fd));
}

off_t size_of(const base::Fd& fd) {
  struct stat info {};
  return ::fstat(fd.get(), &info) == 0 ? info.st_size : -1;
}

TEST(FrameDecoder, decodes_frames_that_come_byte_by_byte) {
  const std::string bytes = encode_frame({{"op", "a"}, {"n", 7}}) + encode_frame({{"op", "b"}});
  FrameDecoder decoder;
  std::vector<std::string> ops;
  for (const char byte : bytes) {
    decoder.feed(std::string_view(&byte, 1), {});
    Frame frame;
    while (decoder.next(frame) == Decoded::kFrame) ops.push_back(frame.op());
  }
  EXPECT_EQ(ops, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(decoder.midway());
}

TEST(FrameDecoder, a_truncated_frame_is_never_a_frame) {
  const std::string bytes = encode_frame({{"op", "publish"}, {"name", "root"}, {"address", 12345}});
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    FrameDecoder decoder;
    decoder.feed(std::string_view(bytes).substr(0, length), {});
    Frame frame;
    EXPECT_EQ(decoder.next(frame), Decoded::kNeedMore) << length;
    EXPECT_EQ(decoder.midway(), length > 0);
  }
}

TEST(FrameDecoder, refuses_what_is_no_frame_and_stays_bad) {
  const std::vector<std::string> cases = {
      with_length(0, ""),
      with_length(1, "1"),
      with_length(kMaxFrameBytes + 1, ""),
      with_length(0xffffffff, ""),
      framed("not json"),
      framed("[1,2]"),
      framed("{}"),
      framed("{\"op\":1}"),
      framed("{\"op\":\"a\""),
      framed("{\"op\":\"\xff\"}"),
      framed("{\"op\":\"a\"}x"),
      framed("{\"op\":\"a\",\"fds\":1}"),
      framed("{\"op\":\"a\",\"fds\":-1}"),
      framed("{\"op\":\"a\",\"fds\":99999}"),
      framed("{\"op\":\"a\",\"x\":" + std::string(9, '[') + std::string(9, ']') + "}"),
      framed(std::string(kMaxFrameBytes, '['))};
  for (const std::string& bytes : cases) {
    FrameDecoder decoder;
    decoder.feed(bytes, {});
    Frame frame;
    EXPECT_EQ(decoder.next(frame), Decoded::kBad) << bytes.substr(0, 40);
    EXPECT_FALSE(decoder.why().empty());
    decoder.feed(encode_frame({{"op", "fine"}}), {});
    EXPECT_EQ(decoder.next(frame), Decoded::kBad);
  }
}

TEST(FrameDecoder, takes_a_frame_of_exactly_the_greatest_size) {
  std::string text = "{\"op\":\"";
  text += std::string(kMaxFrameBytes - text.size() - 2, 'x') + "\"}";
  FrameDecoder decoder;
  decoder.feed(framed(text), {});
  Frame frame;
  EXPECT_EQ(decoder.next(frame), Decoded::kFrame);
}

TEST(FrameDecoder, random_bytes_do_no_harm) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    FrameDecoder decoder;
    std::string bytes(random() % 64, '\0');
    for (char& byte : bytes) byte = char(random());
    if (round % 2 == 0 && bytes.size() > 4) bytes = framed(bytes.substr(4));  // a sound length, random contents
    decoder.feed(bytes, {});
    Frame frame;
    while (decoder.next(frame) == Decoded::kFrame) {
    }
  }
}

TEST(FrameDecoder, damaged_frames_do_no_harm) {
  std::mt19937 random(2);
  const Json body = {{"op", "join"}, {"node", 1}, {"line", 512}, {"list", {1, 2, {{"a", nullptr}}}}};
  const std::string sound = encode_frame(body);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = sound + sound;
    for (int k = 0; k < 3; ++k) bytes[random() % bytes.size()] = char(random());
    FrameDecoder decoder;
    decoder.feed(bytes, {});
    Frame frame;
    while (decoder.next(frame) == Decoded::kFrame) {
      Fields fields(frame.body);
      (void)fields.number("node", 3);
      (void)fields.text("line", 8);
      EXPECT_FALSE(fields.ok());
    }
  }
}

TEST(Fields, remember_the_first_error) {
  const Json body = Json::parse(R"({"a": 1, "b": "text", "c": -1, "d": 1.5, "e": null})");
  Fields good(body);
  EXPECT_EQ(good.number("a"), 1u);
  EXPECT_EQ(good.text("b", 4), "text");
  EXPECT_TRUE(good.ok());
  for (const char* key : {"b", "c", "d", "e", "missing"}) {
    Fields fields(body);
    EXPECT_EQ(fields.number(key), 0u);
    EXPECT_NE(fields.why().find(key), std::string::npos);
  }
  Fields bounds(body);
  EXPECT_EQ(bounds.text("b", 3), "");
  EXPECT_EQ(bounds.number("a", 0), 0u);
  EXPECT_NE(bounds.why().find("\"b\""), std::string::npos);
}

TEST(Connection, passes_descriptors_with_the_frame_that_they_belong_to) {
  auto [left, right] = make_pair();
  EXPECT_TRUE(left.send({{"op", "plain"}}));
  EXPECT_TRUE(left.send({{"op", "two"}}, {make_file(100), make_file(200)}));
  EXPECT_TRUE(left.send({{"op", "plain"}}));
  EXPECT_TRUE(left.send({{"op", "one"}}, {make_file(300)}));
  const auto deadline = Clock::now() + 30s;
  std::vector<off_t> sizes;
  for (int k = 0; k < 4; ++k) {
    Frame frame;
    ASSERT_TRUE(await_frame(right, frame, deadline).ok()) << right.why();
    for (const base::Fd& fd : frame.fds) {
      sizes.push_back(size_of(fd));
      EXPECT_NE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
    }
  }
  EXPECT_EQ(sizes, (std::vector<off_t>{100, 200, 300}));
}

TEST(Connection, sends_more_than_a_socket_holds) {
  auto [left, right] = make_pair();
  constexpr int kFrames = 200;
  const SharedFd file = make_file(1);
  for (int k = 0; k < kFrames; ++k) {
    ASSERT_TRUE(left.send({{"op", "x"}, {"k", k}, {"pad", std::string(20000, 'p')}}, {file}));
  }
  EXPECT_TRUE(left.wants_write());
  for (int k = 0; k < kFrames;) {
    ASSERT_TRUE(left.flush());
    Frame frame;
    const Status status = await_frame(right, frame, Clock::now() + 10ms);
    if (status.code() == Errc::kDeadline) continue;
    ASSERT_TRUE(status.ok()) << right.why();
    EXPECT_EQ(frame.body.at("k"), k);
    EXPECT_EQ(frame.fds.size(), 1u);
    ++k;
  }
}

TEST(Connection, a_peer_that_does_not_read_breaks_its_connection) {
  auto [left, right] = make_pair();
  bool sound = true;
  for (int k = 0; k < 1000 && sound; ++k) sound = left.send({{"op", "x"}, {"pad", std::string(60000, 'p')}});
  EXPECT_FALSE(sound);
  EXPECT_NE(left.why().find("read"), std::string::npos);
}

TEST(Connection, reads_what_was_sent_before_the_end) {
  auto [left, right] = make_pair();
  EXPECT_TRUE(left.send({{"op", "last"}}));
  { const Connection ended = std::move(left); }
  Frame frame;
  EXPECT_TRUE(await_frame(right, frame, Clock::now() + 30s).ok());
  EXPECT_EQ(await_frame(right, frame, Clock::now() + 30s).code(), Errc::kClusterDown);
  EXPECT_EQ(right.why(), "its connection ended");
}

TEST(Connection, reads_what_was_sent_before_the_end_though_a_send_has_found_it) {
  auto [left, right] = make_pair();
  EXPECT_TRUE(right.send({{"op", "never read"}}));
  EXPECT_TRUE(left.send({{"op", "last"}}));
  { const Connection ended = std::move(left); }
  for (int k = 0; k < 3; ++k) (void)right.send({{"op", "answer"}});
  EXPECT_FALSE(right.send({{"op", "answer"}}));
  Frame frame;
  EXPECT_TRUE(await_frame(right, frame, Clock::now() + 30s).ok());
  EXPECT_EQ(frame.op(), "last");
  EXPECT_EQ(await_frame(right, frame, Clock::now() + 30s).code(), Errc::kClusterDown);
}

TEST(Connection, waiting_for_a_frame_is_bounded) {
  auto [left, right] = make_pair();
  Frame frame;
  EXPECT_EQ(await_frame(right, frame, Clock::now() + 20ms).code(), Errc::kDeadline);
}

TEST(Connection, descriptors_without_a_frame_are_refused) {
  auto [left, right] = make_pair();
  // The frame itself says nothing of the descriptor that comes with it.
  const std::string bytes = encode_frame({{"op", "a"}});
  const SharedFd file = make_file(1);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = file->get();
  std::memcpy(CMSG_DATA(part), &fd, sizeof(fd));
  ASSERT_GT(::sendmsg(left.fd(), &message, 0), 0);
  Frame frame;
  EXPECT_TRUE(await_frame(right, frame, Clock::now() + 30s).ok());
  EXPECT_EQ(await_frame(right, frame, Clock::now() + 30s).code(), Errc::kClusterDown);
}

TEST(Sockets, nobody_listens) {
  try {
    (void)connect_abstract(make_socket_name(), Clock::now() + 1s);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kClusterDown);
  }
  EXPECT_THROW((void)connect_abstract("", Clock::now()), Error);
  EXPECT_THROW((void)connect_abstract(std::string(200, 'x'), Clock::now()), Error);
}

TEST(StatusClient, finds_listeners_of_the_user_only) {
  const std::string text =
      "Num       RefCount Protocol Flags    Type St Inode Path\n"
      "0000: 00000002 00000000 00010000 0001 01 100 @atoll-1000-77-00aa\n"
      "0000: 00000003 00000000 00000000 0001 03 101 @atoll-1000-77-00aa\n"
      "0000: 00000002 00000000 00010000 0001 01 102 @atoll-1001-78-00aa\n"
      "0000: 00000002 00000000 00010000 0001 01 103 /tmp/atoll-1000-79-00aa\n"
      "0000: 00000002 00000000 00010000 0001 01 104 @atoll-1000-x-00aa\n"
      "0000: 00000002 00000000 00010000 0001 01 105\n"
      "0000: 00000002 00000000 00010000 0001 01 106 @atoll-1000-12-bb\n"
      "garbage";
  const auto found = clusters_in(text, 1000);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].pid, 12);
  EXPECT_EQ(found[1].socket, "atoll-1000-77-00aa");
}

}  // namespace
}  // namespace atoll::cluster
