// Bytes that came from a client, or are to go to one: taken from the front, added at the end.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "atoll/detail/namespace.hpp"

namespace atoll::kv {

/// Thread-safety: none.
/// Invariant: only `prepare`, `append` and moves change where the bytes are.
class Buffer {
 public:
  static constexpr std::size_t kFirstBytes = 16 << 10;

  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : bytes_(std::move(other.bytes_)),
        capacity_(std::exchange(other.capacity_, 0)),
        begin_(std::exchange(other.begin_, 0)),
        end_(std::exchange(other.end_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(capacity_, other.capacity_);
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
    return *this;
  }

  [[nodiscard]] char* data() noexcept { return bytes_.get() + begin_; }
  [[nodiscard]] std::size_t size() const noexcept { return end_ - begin_; }
  [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::string_view view() const noexcept { return {bytes_.get() + begin_, size()}; }
  /// Room at the end that needs no `prepare`.
  [[nodiscard]] std::size_t room() const noexcept { return capacity_ - end_; }

  /// A place for `bytes` more behind the end; `commit` says how many there are.
  [[nodiscard]] char* prepare(std::size_t bytes) {
    if (capacity_ - end_ < bytes) [[unlikely]]
      make_room(bytes);
    return bytes_.get() + end_;
  }
  void commit(std::size_t bytes) noexcept { end_ += bytes; }
  void append(std::string_view text) {
    if (text.empty()) return;
    std::memcpy(prepare(text.size()), text.data(), text.size());
    end_ += text.size();
  }
  /// Takes bytes from the front.
  void consume(std::size_t bytes) noexcept {
    begin_ += bytes;
    if (begin_ == end_) begin_ = end_ = 0;
  }
  /// Takes back what was added beyond this size.
  void truncate(std::size_t size) noexcept { end_ = begin_ + size; }

 private:
  void make_room(std::size_t bytes) {
    const std::size_t used = size();
    if (capacity_ - used >= bytes && used <= capacity_ / 2) {
      std::memmove(bytes_.get(), bytes_.get() + begin_, used);
    } else {
      std::size_t wanted = std::max(capacity_ * 2, kFirstBytes);
      while (wanted < used + bytes) wanted *= 2;
      auto larger = std::unique_ptr<char[]>(new char[wanted]);  // not zeroed
      if (used > 0) std::memcpy(larger.get(), bytes_.get() + begin_, used);
      bytes_ = std::move(larger);
      capacity_ = wanted;
    }
    begin_ = 0;
    end_ = used;
  }

  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_ = 0, begin_ = 0, end_ = 0;
};

/// Buffers that nobody uses at the moment: clients that are idle have none.
///
/// Thread-safety: none.
class BufferPool {
 public:
  void lend(Buffer& to) {
    if (to.capacity() > 0 || spare_.empty()) return;
    to = std::move(spare_.back());
    spare_.pop_back();
  }
  /// Takes the memory of an empty buffer.
  void take_back(Buffer& from) {
    if (from.capacity() == 0 || !from.empty()) return;
    Buffer taken = std::move(from);
    if (taken.capacity() == Buffer::kFirstBytes && spare_.size() < kMostSpare) spare_.push_back(std::move(taken));
  }

 private:
  static constexpr std::size_t kMostSpare = 256;
  std::vector<Buffer> spare_;
};

}  // namespace atoll::kv
