// Commands about all keys.
#include <algorithm>
#include <charconv>
#include <functional>
#include <random>

#include "kv/glob.hpp"
#include "kv/handlers.hpp"
#include "kv/session.hpp"

namespace atoll::kv {
namespace {

/// Writes keys, whose number is known only at the end, to a buffer of their own.
///
/// Thread-safety: none.
class KeyList {
 public:
  KeyList(Session& session, std::string_view pattern)
      : session_(session), pattern_(pattern), writer_(bytes_, session.service().limits().output_limit_bytes) {
    writer_.set_version(session.reply().version());
  }
  /// False: it is too long for any client.
  bool add(std::string_view key, std::string_view stored) {
    const std::optional<Item> item = decode(stored);
    if (!item || (item->expires_at != kNever && item->expires_at <= session_.service().now())) return true;
    if (pattern_ != "*" && !glob_match(pattern_, key)) return true;
    ++count_;
    writer_.bulk(key);
    return !writer_.overflowed();
  }
  void send() {
    session_.reply().array(count_);
    session_.reply().raw(bytes_.view());
  }
  [[nodiscard]] bool too_long() const noexcept { return writer_.overflowed(); }

 private:
  Session& session_;
  std::string_view pattern_;
  Buffer bytes_;
  RespWriter writer_;
  std::size_t count_ = 0;
};

struct ScanOptions {
  std::string_view pattern = "*";
  std::int64_t count = 10;
  bool strings = true;  // which is what all keys have
};

constexpr std::int64_t kMaxCount = 10'000;  // of SCAN: others wait meanwhile

bool parse_scan(Session& session, Arguments arguments, ScanOptions& options) {
  for (std::size_t i = 2; i < arguments.size(); i += 2) {
    const std::string_view word = arguments[i];
    if (i + 1 == arguments.size()) {
      session.reply().error(kSyntaxError);
      return false;
    }
    if (is_word(word, "MATCH")) {
      options.pattern = arguments[i + 1];
      if (!check_pattern(options.pattern, session.reply())) return false;
    } else if (is_word(word, "TYPE")) {
      options.strings = is_word(arguments[i + 1], "STRING");
    } else if (is_word(word, "COUNT")) {
      if (!parse_integer(arguments[i + 1], options.count)) {
        session.reply().error(kNotAnInteger);
        return false;
      }
    } else {
      options.count = 0;
    }
    if (options.count < 1) {
      session.reply().error(kSyntaxError);
      return false;
    }
  }
  options.count = std::min(options.count, kMaxCount);
  return true;
}

}  // namespace

namespace commands {

void dbsize(Session& session, Arguments) {
  const Result<std::int64_t> size = session.service().map().size();
  if (!size.ok()) return reply_status(session.reply(), size.status());
  session.reply().integer(*size);
}

void flush(Session& session, Arguments arguments) {
  const bool known = arguments.size() == 1 ||
                     (arguments.size() == 2 && (is_word(arguments[1], "SYNC") || is_word(arguments[1], "ASYNC")));
  if (!known) return session.reply().error(kSyntaxError);
  const Status done = session.service().map().clear();
  if (!done.ok()) return reply_status(session.reply(), done);
  session.reply().ok();
}

void keys(Session& session, Arguments arguments) {
  if (!check_pattern(arguments[1], session.reply())) return;
  KeyList list(session, arguments[1]);
  const auto visit = [&](std::string_view key, std::string_view stored) { return list.add(key, stored); };
  const Status done = session.service().map().for_each(std::ref(visit));
  if (!done.ok()) return reply_status(session.reply(), done);
  if (list.too_long()) return session.reply().error("ERR there are too many keys for one answer: use SCAN");
  list.send();
}

void scan(Session& session, Arguments arguments) {
  std::uint64_t cursor = 0;
  const char* const end = arguments[1].data() + arguments[1].size();
  const auto [read, error] = std::from_chars(arguments[1].data(), end, cursor);
  if (error != std::errc{} || read != end) return session.reply().error("ERR invalid cursor");
  ScanOptions options;
  if (!parse_scan(session, arguments, options)) return;
  KeyList list(session, options.pattern);
  std::int64_t seen = 0, steps = 0;
  const auto visit = [&](std::string_view key, std::string_view stored) {
    ++seen;
    return !options.strings || list.add(key, stored);
  };
  // An empty part of the table is a step too, and there may be many.
  do {
    const Result<std::uint64_t> next = session.service().map().scan(cursor, std::ref(visit));
    if (!next.ok()) return reply_status(session.reply(), next.status());
    cursor = *next;
  } while (cursor != 0 && seen < options.count && ++steps < options.count * 10 && !list.too_long());
  session.reply().array(2);
  session.reply().bulk(std::to_string(cursor));
  list.send();
}

void randomkey(Session& session, Arguments) {
  // Keys of one part of the table, which is chosen by chance; or of the next that has some, once around.
  thread_local std::mt19937_64 random{std::random_device{}()};
  HashMap& map = session.service().map();
  std::vector<std::string> found;
  const auto visit = [&](std::string_view key, std::string_view stored) {
    const std::optional<Item> item = decode(stored);
    if (item && (item->expires_at == kNever || item->expires_at > session.service().now())) found.emplace_back(key);
    return true;
  };
  std::uint64_t cursor = random();
  for (int ends = 0; ends < 2 && found.empty();) {
    const Result<std::uint64_t> next = map.scan(cursor, std::ref(visit));
    if (!next.ok()) return reply_status(session.reply(), next.status());
    cursor = *next;
    if (cursor == 0) ++ends;  // the first time, what is before the place where it began is still to come
  }
  if (found.empty()) return session.reply().null();
  session.reply().bulk(found[random() % found.size()]);
}

}  // namespace commands
}  // namespace atoll::kv
