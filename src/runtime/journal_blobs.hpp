// The bytes of what the journal writes besides lines: parts of a checkpoint, and whose call a record was done for.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atoll/status.hpp"

namespace atoll::runtime {

/// Whose call it was, in the record of what it did.
struct Asked {
  std::uint64_t node = 0;
  std::uint64_t number = 0;
};

/// Numbers and text one after the other, as a blob of a checkpoint has them.
class BlobWriter {
 public:
  void number(std::uint64_t value) { bytes(&value, sizeof(value)); }
  void text(std::string_view value) {
    number(value.size());
    bytes(value.data(), value.size());
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(out_); }

 private:
  void bytes(const void* from, std::size_t count) {
    out_.resize(out_.size() + count);
    if (count != 0) std::memcpy(out_.data() + out_.size() - count, from, count);
  }
  std::vector<std::byte> out_;
};

class BlobReader {
 public:
  explicit BlobReader(std::span<const std::byte> from) noexcept : left_(from) {}
  [[nodiscard]] bool empty() const noexcept { return left_.empty(); }
  std::uint64_t number() {
    std::uint64_t value = 0;
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::string text() {
    const std::span<const std::byte> bytes = take(number());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> take(std::uint64_t bytes) {
    if (bytes > left_.size()) throw Error("a part of the checkpoint is too short", Errc::kStorage);
    const std::span<const std::byte> taken = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return taken;
  }
  std::span<const std::byte> left_;
};

}  // namespace atoll::runtime
