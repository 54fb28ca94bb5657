#include "kv/resp_parser.hpp"

#include <cctype>
#include <cstring>

namespace atoll::kv {
namespace {

constexpr std::size_t kMaxKeptArguments = 256;  // of capacity, between requests
constexpr std::size_t kMaxKeptWords = 1024;
constexpr std::size_t kMaxDigits = 18;

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = char(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool is_space(char c) noexcept {
  return std::isspace(static_cast<unsigned char>(c)) != 0 || c == '\0';
}

/// Takes one word, which may have quotes, from the front of the line and adds it to `out`. False: the quotes do not
/// match. REQUIRES: the line begins with the word.
bool take_word(std::string_view& line, std::string& out) {
  char quote = 0;
  while (!line.empty()) {
    const char c = line.front();
    if (quote == 0 && is_space(c)) return true;
    line.remove_prefix(1);
    if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (quote != 0 && c == quote) {
      return line.empty() || is_space(line.front());  // a quote ends the word
    } else if (quote == '"' && c == '\\' && line.size() >= 3 && line[0] == 'x' && hex_value(line[1]) >= 0 &&
               hex_value(line[2]) >= 0) {
      out.push_back(char(hex_value(line[1]) * 16 + hex_value(line[2])));
      line.remove_prefix(3);
    } else if (quote == '"' && c == '\\' && !line.empty()) {
      constexpr std::string_view kNames = "nrtba", kBytes = "\n\r\t\b\a";
      const std::size_t known = kNames.find(line.front());
      out.push_back(known == std::string_view::npos ? line.front() : kBytes[known]);
      line.remove_prefix(1);
    } else if (quote == '\'' && c == '\\' && !line.empty() && line.front() == '\'') {
      out.push_back('\'');
      line.remove_prefix(1);
    } else {
      out.push_back(c);
    }
  }
  return quote == 0;
}

}  // namespace

RespParser::Outcome RespParser::parse(char* data, std::size_t size, const ParserLimits& limits) {
  if (!error_.empty()) return Outcome::kError;
  if (data != data_) {  // the bytes have moved
    if (data_ != nullptr && expected_ >= 0) {
      for (std::string_view& argument : arguments_) argument = {data + (argument.data() - data_), argument.size()};
    }
    data_ = data;
  }
  size_ = size;
  if (size_ == 0) return Outcome::kMore;
  return data_[0] == '*' ? parse_array(limits) : parse_line();
}

RespParser::Outcome RespParser::parse_array(const ParserLimits& limits) {
  if (expected_ < 0) {
    if (const Outcome outcome = read_count(limits); outcome != Outcome::kRequest) return outcome;
  }
  while (arguments_.size() < std::size_t(expected_)) {
    if (length_ < 0) {
      if (const Outcome outcome = read_length(limits); outcome != Outcome::kRequest) return outcome;
    }
    const auto length = std::size_t(length_);
    if (size_ - at_ < length + 2) return Outcome::kMore;
    if (data_[at_ + length] != '\r' || data_[at_ + length + 1] != '\n') {
      return fail("Protocol error: expected CRLF behind an argument");
    }
    arguments_.emplace_back(data_ + at_, length);
    at_ += length + 2;
    length_ = -1;
  }
  return Outcome::kRequest;
}

RespParser::Outcome RespParser::read_count(const ParserLimits& limits) {
  std::int64_t count = 0;
  if (const Outcome outcome = read_number("multibulk length", count); outcome != Outcome::kRequest) return outcome;
  if (count > std::int64_t(limits.arguments)) {
    return fail(limits.stranger ? "Protocol error: unauthenticated multibulk length"
                                : "Protocol error: invalid multibulk length");
  }
  expected_ = count < 0 ? 0 : count;
  return Outcome::kRequest;
}

RespParser::Outcome RespParser::read_length(const ParserLimits& limits) {
  if (at_ == size_) return Outcome::kMore;
  if (data_[at_] != '$') {
    const char got = data_[at_];
    const bool is_printable = std::isprint(static_cast<unsigned char>(got)) != 0;
    return fail(std::string("Protocol error: expected '$', got '") + (is_printable ? got : '?') + "'");
  }
  std::int64_t length = 0;
  if (const Outcome outcome = read_number("bulk length", length); outcome != Outcome::kRequest) return outcome;
  if (length < 0 || length > std::int64_t(limits.argument_bytes)) {
    return fail(limits.stranger ? "Protocol error: unauthenticated bulk length"
                                : "Protocol error: invalid bulk length");
  }
  if (at_ + std::size_t(length) > limits.request_bytes) return fail("Protocol error: the request is too large");
  length_ = length;
  return Outcome::kRequest;
}

/// The number of a header: a byte that is already known, digits, CRLF.
RespParser::Outcome RespParser::read_number(const char* name, std::int64_t& number) {
  std::size_t at = at_ + 1;
  const bool negative = at < size_ && data_[at] == '-';
  if (negative) ++at;
  const std::size_t first = at;
  std::int64_t value = 0;
  while (at < size_ && data_[at] >= '0' && data_[at] <= '9') {
    if (at - first == kMaxDigits) return fail(std::string("Protocol error: invalid ") + name);
    value = value * 10 + (data_[at++] - '0');
  }
  if (at < size_ && (data_[at] != '\r' || at == first)) return fail(std::string("Protocol error: invalid ") + name);
  if (size_ - at < 2) return Outcome::kMore;
  if (data_[at + 1] != '\n') return fail(std::string("Protocol error: invalid ") + name);
  at_ = at + 2;
  number = negative ? -value : value;
  return Outcome::kRequest;
}

RespParser::Outcome RespParser::parse_line() {
  const void* end = std::memchr(data_ + at_, '\n', size_ - at_);
  if (end == nullptr) {
    at_ = size_;
    return at_ > kMaxInlineBytes ? fail("Protocol error: too big inline request") : Outcome::kMore;
  }
  const auto length = std::size_t(static_cast<const char*>(end) - data_);
  if (length > kMaxInlineBytes) return fail("Protocol error: too big inline request");
  at_ = length + 1;
  if (!split_line({data_, length})) return fail("Protocol error: unbalanced quotes in request");
  return Outcome::kRequest;
}

bool RespParser::split_line(std::string_view line) {
  words_.clear();
  std::vector<std::pair<std::size_t, std::size_t>> places;
  while (true) {
    while (!line.empty() && is_space(line.front())) line.remove_prefix(1);
    if (line.empty()) break;
    const std::size_t begin = words_.size();
    if (!take_word(line, words_)) return false;
    places.emplace_back(begin, words_.size() - begin);
  }
  for (const auto& [begin, length] : places) arguments_.emplace_back(words_.data() + begin, length);
  return true;
}

std::string_view RespParser::prefixed(std::size_t index, char byte) noexcept {
  const std::string_view argument = arguments_[index];
  char* const before = data_ + (argument.data() - data_) - 1;  // the LF of its header
  *before = byte;
  return {before, argument.size() + 1};
}

RespParser::Outcome RespParser::fail(std::string what) {
  error_ = std::move(what);
  return Outcome::kError;
}

void RespParser::next() noexcept {
  at_ = 0;
  expected_ = length_ = -1;
  data_ = nullptr;
  arguments_.clear();
  if (arguments_.capacity() > kMaxKeptArguments) std::vector<std::string_view>().swap(arguments_);
  if (words_.capacity() > kMaxKeptWords) std::string().swap(words_);
}

}  // namespace atoll::kv
