#include "txn/workspace.hpp"

#include <memory>
#include <utility>

namespace atoll::txn {

namespace {
constexpr std::size_t kBufferBytes = 128 << 10;
}

struct Workspace::Buffer {
  std::unique_ptr<std::byte[]> bytes;
  bool is_taken = false;

  std::byte* take() {
    if (!bytes) bytes.reset(new std::byte[kBufferBytes]);  // not zeroed
    return bytes.get();
  }
};
thread_local Workspace::Buffer Workspace::buffer;

Workspace::Workspace()
    : has_buffer_(!std::exchange(buffer.is_taken, true)),
      memory_(has_buffer_ ? buffer.take() : nullptr, has_buffer_ ? kBufferBytes : 0) {}

Workspace::~Workspace() {
  if (has_buffer_) buffer.is_taken = false;
}

}  // namespace atoll::txn
