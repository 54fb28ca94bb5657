// Assertions for our own bugs. They stay on in release; bad input is never an assertion.
#pragma once

#include "atoll/detail/namespace.hpp"

namespace atoll::base {
[[noreturn]] void check_failed(const char* what, const char* file, int line) noexcept;
}

#define ATOLL_CHECK(condition)                                     \
  do {                                                             \
    if (!(condition)) [[unlikely]]                                 \
      ::atoll::base::check_failed(#condition, __FILE__, __LINE__); \
  } while (false)
