// What a node holds, for those who check it from outside: the simulator does so whenever nothing is under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "coherence/types.hpp"

namespace atoll::runtime {

struct Inspection {
  /// A line, at its home or as a copy.
  struct LineHere {
    GlobalAddress address;
    coherence::CacheState state;                     // of a copy
    const coherence::DirEntry* directory = nullptr;  // at the home
    std::uint8_t access = 0;
    std::uint32_t lock = 0;
    bool waiting = false;  // something waits for it
    const std::byte* bytes = nullptr;
    std::uint32_t size = 0;
  };
  std::vector<LineHere> homes;   // every line of this node's memory
  std::vector<LineHere> copies;  // every line that has a cache slot
  std::uint32_t slots_used = 0;  // each of as many bytes as a line of the heap
  std::uint32_t slots_returning = 0;
  std::size_t lines_waiting = 0;  // records of waiting work in use
  std::size_t lines_starved = 0;
  std::size_t calls = 0;
  std::size_t element_locks = 0;  // of this node's elements: held, waited for, or left locked by the dead
  bool writes_under_way = false;
};

}  // namespace atoll::runtime
