// What one node asks of another about its files: a record in the asking node's memory, and an answer in a message.
// docs/files.md has a table of both.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "atoll/file.hpp"
#include "runtime/task.hpp"
#include "wire/message.hpp"

namespace atoll::runtime {

/// Thread-safety: plain data. What another node wrote: every field is looked at before it is used.
struct FileRequest {
  enum What : std::uint32_t { kOpen, kClose, kFlush, kResize, kAsk, kUnlink };
  enum Flags : std::uint32_t { kCreate = 1, kExclusive = 2, kReadOnly = 4, kBuffered = 8, kTorn = 16 };
  std::uint32_t what = kAsk;
  std::uint32_t path_bytes = 0;     // kOpen, kUnlink
  std::uint64_t first = 0;          // the others: of the file, in its node's memory
  std::uint64_t offset = 0;         // kFlush
  std::uint64_t bytes = 0;          // kFlush, kResize
  std::uint64_t reserve_bytes = 0;  // kOpen, and what follows
  std::uint32_t page_bytes = 0;
  std::uint32_t flags = 0;
  char path[4096] = {};
};
static_assert(std::is_trivially_copyable_v<FileRequest> && sizeof(FileRequest) == 48 + 4096);

/// What stands in the slots of a FileReply; its argument is the file's address.
struct FileAnswerSlots {
  std::uint32_t code = 0;
  std::uint32_t page_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint64_t reserved = 0;
  std::uint32_t read_only = 0;
  std::uint32_t zero = 0;
};
static_assert(sizeof(FileAnswerSlots) == sizeof(wire::Message::slots));

struct FileAnswer {
  Errc code = Errc::kOk;
  const char* what = "";
  FileInfo info;
};

/// A thread that waits for an answer.
struct FileWait {
  std::atomic<bool> done{false};
  ThreadState* thread = nullptr;
  NodeId node = 0;
  FileAnswer answer;
};

}  // namespace atoll::runtime
