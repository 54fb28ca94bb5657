// What can be seen of other processes.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>

#include "atoll/detail/namespace.hpp"

namespace atoll::test {

inline bool is_gone(pid_t pid) {
  // A process that has ended but whose parent (init, perhaps busy) has not looked yet is gone for our purpose.
  std::FILE* file = std::fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "r");
  if (file == nullptr) return true;
  char state = '?';
  const int got = std::fscanf(file, "%*d %*s %c", &state);
  std::fclose(file);
  return got == 1 && state == 'Z';
}

}  // namespace atoll::test
