// The API as its users see it, run by all nodes of a cluster together:
//   atoll run -n 4 -- api_behaviour --transport=shm
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "behaviour/together.hpp"

namespace atoll::test {

Node* g_node = nullptr;

namespace {

/// Says what failed on which node. Ends this process at the first fatal failure: the others run the same tests and
/// would wait for it.
class ExitOnFatalFailure : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "node %d: %s:%d: %s\n", int(g_node->id()), result.file_name(), result.line_number(),
                 result.message());
    std::fflush(nullptr);
    if (result.fatally_failed()) ::_exit(1);
  }
};

int run() {
  Node node = join();
  g_node = &node;
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  listeners.Append(new ExitOnFatalFailure);
  if (node.id() != 0) delete listeners.Release(listeners.default_result_printer());
  const int result = RUN_ALL_TESTS();
  return result;
}

}  // namespace
}  // namespace atoll::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2 || !std::string_view(argv[1]).starts_with("--transport=")) {
    std::fprintf(stderr, "usage: atoll run -n NODES -- api_behaviour --transport=NAME\n");
    return 2;
  }
  return atoll::test::run();
}
