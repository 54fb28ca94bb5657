// docs/protocol.md says what the code does.
#include "explorer/protocol_docs.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "support/source_folder.hpp"

namespace atoll::explorer {
namespace {

TEST(ProtocolDocs, TheGeneratedPartIsWhatTheTablesSay) {
  const auto path = test::source_folder() / "docs/protocol.md";
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::stringstream content;
  content << file.rdbuf();
  const std::string text = content.str();
  const std::size_t begin = text.find(kGeneratedBegin);
  const std::size_t end = text.find(kGeneratedEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::string generated = text.substr(begin + kGeneratedBegin.size(), end - begin - kGeneratedBegin.size());
  EXPECT_EQ(generated, "\n" + protocol_tables())
      << "put the output of `atoll explore --print-tables` between the two markers";
}

}  // namespace
}  // namespace atoll::explorer
