#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace atoll::base {

void check_failed(const char* what, const char* file, int line) noexcept {
  std::fprintf(stderr, "atoll: a bug in Atoll itself: %s does not hold (%s:%d)\n", what, file, line);
  std::abort();
}

}  // namespace atoll::base
