// Answers of the Redis protocol, versions 2 and 3.
#pragma once

#include <cstdint>
#include <string_view>

#include "kv/buffer.hpp"

namespace atoll::kv {

/// Writes answers to the end of a buffer.
///
/// Thread-safety: none.
class RespWriter {
 public:
  RespWriter(Buffer& out, std::size_t limit) noexcept : out_(out), limit_(limit) {}

  [[nodiscard]] int version() const noexcept { return version_; }
  void set_version(int version) noexcept { version_ = version; }

  void ok() { text("+OK\r\n"); }
  /// REQUIRES: neither CR nor LF in it.
  void simple(std::string_view text);
  /// `what` begins with a code: "ERR", "NOAUTH". Line ends in it become spaces.
  void error(std::string_view what);
  void integer(std::int64_t value);
  void bulk(std::string_view bytes);
  void null() { text(version_ == 2 ? "$-1\r\n" : "_\r\n"); }
  void null_array() { text(version_ == 2 ? "*-1\r\n" : "_\r\n"); }
  void array(std::size_t elements) { header('*', std::int64_t(elements)); }
  /// Followed by so many keys and values in turn.
  void map(std::size_t pairs);
  void set(std::size_t elements) { header(version_ == 2 ? '*' : '~', std::int64_t(elements)); }
  /// Text for people.
  void verbatim(std::string_view bytes);
  /// What another writer of the same version has made.
  void raw(std::string_view bytes) { text(bytes); }

  /// What has been written, to take back what comes after it.
  [[nodiscard]] std::size_t mark() const noexcept { return out_.size(); }
  void take_back(std::size_t mark) noexcept { out_.truncate(mark); }
  /// More than the limit would wait for the client; what is beyond it has not been written.
  [[nodiscard]] bool overflowed() const noexcept { return overflowed_; }

 private:
  void text(std::string_view bytes) {
    if (fits(bytes.size())) out_.append(bytes);
  }
  bool fits(std::size_t bytes) noexcept {
    if (out_.size() + bytes > limit_) [[unlikely]]
      overflowed_ = true;
    return !overflowed_;
  }
  void header(char kind, std::int64_t number);

  Buffer& out_;
  std::size_t limit_;
  int version_ = 2;
  bool overflowed_ = false;
};

}  // namespace atoll::kv
