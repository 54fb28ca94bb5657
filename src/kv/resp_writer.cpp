#include "kv/resp_writer.hpp"

#include <charconv>

namespace atoll::kv {
namespace {
constexpr std::size_t kHeaderBytes = 24;  // kind, sign and 19 digits, CRLF

/// Writes kind, number and CRLF, and returns how many bytes that is.
std::size_t write_header(char* at, char kind, std::int64_t number) noexcept {
  char* p = at;
  *p++ = kind;
  if (number >= 0 && number < 10) {
    *p++ = char('0' + number);
  } else {
    p = std::to_chars(p, at + kHeaderBytes - 2, number).ptr;
  }
  *p++ = '\r';
  *p++ = '\n';
  return std::size_t(p - at);
}

}  // namespace

void RespWriter::header(char kind, std::int64_t number) {
  if (fits(kHeaderBytes)) out_.commit(write_header(out_.prepare(kHeaderBytes), kind, number));
}

void RespWriter::simple(std::string_view what) {
  text("+");
  text(what);
  text("\r\n");
}

void RespWriter::error(std::string_view what) {
  if (!fits(what.size() + 3)) return;
  char* const at = out_.prepare(what.size() + 3);
  at[0] = '-';
  for (std::size_t i = 0; i < what.size(); ++i) {
    at[i + 1] = what[i] == '\r' || what[i] == '\n' || what[i] == '\0' ? ' ' : what[i];
  }
  std::memcpy(at + 1 + what.size(), "\r\n", 2);
  out_.commit(what.size() + 3);
}

void RespWriter::integer(std::int64_t value) {
  header(':', value);
}

void RespWriter::bulk(std::string_view bytes) {
  const std::size_t most = bytes.size() + kHeaderBytes + 2;
  if (!fits(most)) return;
  char* const at = out_.prepare(most);
  std::size_t used = write_header(at, '$', std::int64_t(bytes.size()));
  if (!bytes.empty()) std::memcpy(at + used, bytes.data(), bytes.size());
  used += bytes.size();
  std::memcpy(at + used, "\r\n", 2);
  out_.commit(used + 2);
}

void RespWriter::map(std::size_t pairs) {
  if (version_ == 2) {
    header('*', std::int64_t(pairs * 2));
  } else {
    header('%', std::int64_t(pairs));
  }
}

void RespWriter::verbatim(std::string_view bytes) {
  if (version_ == 2) return bulk(bytes);
  header('=', std::int64_t(bytes.size() + 4));
  text("txt:");
  text(bytes);
  text("\r\n");
}

}  // namespace atoll::kv
