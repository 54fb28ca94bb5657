#include "base/units.hpp"

#include <gtest/gtest.h>

namespace atoll::base {
namespace {

TEST(Units, ParsesSizesAsPeopleWriteThem) {
  EXPECT_EQ(parse_bytes("0").value(), 0u);
  EXPECT_EQ(parse_bytes("4096").value(), 4096u);
  EXPECT_EQ(parse_bytes("17B").value(), 17u);
  EXPECT_EQ(parse_bytes("64k").value(), 64u << 10);
  EXPECT_EQ(parse_bytes("256M").value(), 256u << 20);
  EXPECT_EQ(parse_bytes("1G").value(), 1u << 30);
  EXPECT_EQ(parse_bytes("2T").value(), 2ull << 40);
  EXPECT_EQ(parse_bytes("64KiB").value(), 64u << 10);
  EXPECT_EQ(parse_bytes("3MB").value(), 3u << 20);
  EXPECT_EQ(parse_bytes("18446744073709551615").value(), UINT64_MAX);
}

TEST(Units, RefusesWhatIsNoSize) {
  for (const char* text : {"", "M", "-1", "+1", " 1", "1 M", "1.5G", "1X", "1MM", "1MiBs", "0x10", "1e3", "lots",
                           "\xff", "18446744073709551616", "16777216T", "99999999999999999999G"}) {
    EXPECT_EQ(parse_bytes(text).status().code(), Errc::kInvalidArgument) << text;
  }
  EXPECT_EQ(parse_bytes(std::string_view("12\0", 3)).status().code(), Errc::kInvalidArgument);
}

TEST(Units, PrintsSizes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1 KiB");
  EXPECT_EQ(format_bytes(256ull << 20), "256 MiB");
  EXPECT_EQ(format_bytes(3ull << 29), "1.5 GiB");
  EXPECT_EQ(format_bytes(UINT64_MAX), "16777216 TiB");
}

TEST(Units, PrintsSizesAsTheyAreGiven) {
  for (const char* text : {"0", "17", "1023", "1K", "1536K", "8M", "256M", "3G", "2T", "1025"}) {
    EXPECT_EQ(bytes_option(parse_bytes(text).value()), text);
  }
  EXPECT_EQ(bytes_option(2048ull << 40), "2048T");
}

}  // namespace
}  // namespace atoll::base
