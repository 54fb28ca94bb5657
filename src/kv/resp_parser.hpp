// Requests of the Redis protocol, as they come in: arrays of byte strings, or lines of words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/detail/namespace.hpp"

namespace atoll::kv {

struct ParserLimits {
  std::size_t arguments = 65'536;
  std::size_t argument_bytes = 1u << 20;
  std::size_t request_bytes = 16u << 20;
  bool stranger = false;  // before the password: for the texts of errors
};

/// Takes one request at a time from the front of what a client sent. Trusts nothing in it.
///
/// Use: `parse` whenever there are more bytes, until it does not say kMore; always with all bytes from the beginning of
/// the request on. They may have moved in between. After kRequest: `next`, when the request has been dealt with. After
/// kError it says nothing else any more.
///
/// Thread-safety: none.
class RespParser {
 public:
  enum class Outcome : std::uint8_t { kMore, kRequest, kError };
  static constexpr std::size_t kMaxInlineBytes = 65'536;

  Outcome parse(char* data, std::size_t size, const ParserLimits& limits);
  /// REQUIRES: `parse` said kRequest. No arguments: an empty request, which has no answer. Good while the bytes stay
  /// where they are, and until `next`.
  [[nodiscard]] std::span<const std::string_view> arguments() const noexcept { return arguments_; }
  /// How many bytes the request has.
  [[nodiscard]] std::size_t consumed() const noexcept { return at_; }
  /// The request is a line of words, whose arguments are good until `next` only; else an array.
  [[nodiscard]] bool is_line() const noexcept { return expected_ < 0; }
  /// The argument with `byte` before it, without a copy: where the framing of the request stood.
  /// REQUIRES: !is_line().
  [[nodiscard]] std::string_view prefixed(std::size_t index, char byte) noexcept;
  /// REQUIRES: `parse` said kError. What the client is told before it is cut.
  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  /// Begins a new request.
  void next() noexcept;

 private:
  Outcome parse_array(const ParserLimits& limits);
  Outcome parse_line();
  Outcome read_count(const ParserLimits& limits);
  Outcome read_length(const ParserLimits& limits);
  Outcome read_number(const char* name, std::int64_t& number);
  Outcome fail(std::string what);
  bool split_line(std::string_view line);

  char* data_ = nullptr;  // the request's first byte
  std::size_t size_ = 0;
  std::size_t at_ = 0;          // what is before it has been understood
  std::int64_t expected_ = -1;  // arguments of an array; -1: not known yet
  std::int64_t length_ = -1;    // of the next argument; -1: not known yet
  std::vector<std::string_view> arguments_;
  std::string words_;  // the arguments of a line
  std::string error_;
};

}  // namespace atoll::kv
