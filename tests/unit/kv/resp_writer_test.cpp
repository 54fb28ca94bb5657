#include "kv/resp_writer.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace atoll::kv {
namespace {

template <typename Write>
std::string written(int version, const Write& write) {
  Buffer out;
  RespWriter writer(out, 1 << 20);
  writer.set_version(version);
  write(writer);
  return std::string(out.view());
}

TEST(RespWriter, WritesWhatBothVersionsHave) {
  for (const int version : {2, 3}) {
    EXPECT_EQ(written(version, [](RespWriter& w) { w.ok(); }), "+OK\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.simple("PONG"); }), "+PONG\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.integer(-12); }), ":-12\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.integer(std::numeric_limits<std::int64_t>::min()); }),
              ":-9223372036854775808\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.bulk("ab\r\n"); }), "$4\r\nab\r\n\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.bulk(""); }), "$0\r\n\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.array(3); }), "*3\r\n");
  }
}

TEST(RespWriter, WritesWhatDiffers) {
  EXPECT_EQ(written(2, [](RespWriter& w) { w.null(); }), "$-1\r\n");
  EXPECT_EQ(written(3, [](RespWriter& w) { w.null(); }), "_\r\n");
  EXPECT_EQ(written(2, [](RespWriter& w) { w.null_array(); }), "*-1\r\n");
  EXPECT_EQ(written(3, [](RespWriter& w) { w.null_array(); }), "_\r\n");
  EXPECT_EQ(written(2, [](RespWriter& w) { w.map(2); }), "*4\r\n");
  EXPECT_EQ(written(3, [](RespWriter& w) { w.map(2); }), "%2\r\n");
  EXPECT_EQ(written(2, [](RespWriter& w) { w.set(2); }), "*2\r\n");
  EXPECT_EQ(written(3, [](RespWriter& w) { w.set(2); }), "~2\r\n");
  EXPECT_EQ(written(2, [](RespWriter& w) { w.verbatim("abc"); }), "$3\r\nabc\r\n");
  EXPECT_EQ(written(3, [](RespWriter& w) { w.verbatim("abc"); }), "=7\r\ntxt:abc\r\n");
}

TEST(RespWriter, AnErrorStaysOneLine) {
  EXPECT_EQ(written(2, [](RespWriter& w) { w.error("ERR a\r\n+OK"); }), "-ERR a  +OK\r\n");
}

TEST(RespWriter, WhatIsTakenBackWasNeverThere) {
  EXPECT_EQ(written(2,
                    [](RespWriter& w) {
                      w.ok();
                      const std::size_t mark = w.mark();
                      w.bulk("gone");
                      w.take_back(mark);
                      w.integer(1);
                    }),
            "+OK\r\n:1\r\n");
}

TEST(RespWriter, WritesNoMoreThanTheLimit) {
  Buffer out;
  RespWriter writer(out, 100);
  for (int i = 0; i < 50; ++i) writer.bulk("0123456789");
  EXPECT_TRUE(writer.overflowed());
  EXPECT_LE(out.size(), 100u);
}

TEST(Buffer, GivesOutWhatWasPutInWhateverTheSizes) {
  Buffer buffer;
  std::string expected;
  for (int round = 0; round < 200; ++round) {
    const std::string piece(std::size_t(round * 37 % 3000), char('a' + round % 26));
    buffer.append(piece);
    expected += piece;
    const std::size_t taken = std::min(expected.size(), std::size_t(round * 91 % 2500));
    ASSERT_EQ(buffer.view().substr(0, taken), expected.substr(0, taken));
    buffer.consume(taken);
    expected.erase(0, taken);
  }
  EXPECT_EQ(buffer.view(), expected);
}

}  // namespace
}  // namespace atoll::kv
