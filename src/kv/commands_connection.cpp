// Commands about the connection itself.
#include <fmt/format.h>

#include <algorithm>

#include "kv/handlers.hpp"
#include "kv/session.hpp"

namespace atoll::kv {

namespace {

constexpr std::size_t kMaxClientNameBytes = 256;  // which an idle client costs as long as it is there

/// Names stand in lists, one per line, and must not break them.
bool check_name(Session& session, std::string_view name, std::string_view what) {
  if (name.size() > kMaxClientNameBytes) {
    session.reply().error(fmt::format("ERR {} cannot be longer than {} bytes.", what, kMaxClientNameBytes));
    return false;
  }
  if (std::all_of(name.begin(), name.end(), [](char c) { return c >= '!' && c <= '~'; })) return true;
  session.reply().error(fmt::format("ERR {} cannot contain spaces, newlines or special characters.", what));
  return false;
}

void greet(Session& session) {
  RespWriter& reply = session.reply();
  reply.map(7);
  reply.bulk("server");
  reply.bulk("redis");
  reply.bulk("version");
  reply.bulk(redis_version());
  reply.bulk("proto");
  reply.integer(reply.version());
  reply.bulk("id");
  reply.integer(std::int64_t(session.id()));
  reply.bulk("mode");
  reply.bulk("standalone");
  reply.bulk("role");
  reply.bulk("master");
  reply.bulk("modules");
  reply.array(0);
}

}  // namespace

namespace commands {

void auth(Session& session, Arguments arguments) {
  if (arguments.size() > 3) return session.reply().error(kSyntaxError);
  if (session.service().options().password.empty() && arguments.size() == 2) {
    return session.reply().error(
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
        "configuration is correct?");
  }
  const bool named = arguments.size() == 3;
  if (session.authenticate(named ? arguments[1] : "default", arguments.back())) session.reply().ok();
}

void hello(Session& session, Arguments arguments) {
  RespWriter& reply = session.reply();
  std::int64_t version = reply.version();
  if (arguments.size() > 1 && !parse_integer(arguments[1], version)) {
    return reply.error("ERR Protocol version is not an integer or out of range");
  }
  if (version != 2 && version != 3) return reply.error("NOPROTO unsupported protocol version");
  std::string_view user, password, name;
  bool with_password = false, with_name = false;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    if (is_word(arguments[i], "AUTH") && i + 2 < arguments.size()) {
      with_password = true;
      user = arguments[++i];
      password = arguments[++i];
    } else if (is_word(arguments[i], "SETNAME") && i + 1 < arguments.size()) {
      with_name = true;
      name = arguments[++i];
      if (!check_name(session, name, "Client names")) return;
    } else {
      return reply.error(fmt::format("ERR Syntax error in HELLO option '{}'", arguments[i].substr(0, 128)));
    }
  }
  if (with_password && !session.authenticate(user, password)) return;
  if (!session.authenticated()) {
    return reply.error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> "
        "<pass> option can be used to authenticate the client and select the RESP protocol version at the same time");
  }
  if (with_name) session.set_name(name);
  reply.set_version(int(version));
  greet(session);
}

void ping(Session& session, Arguments arguments) {
  if (arguments.size() > 2) return wrong_arity(session.reply(), "ping");
  if (arguments.size() == 2) return session.reply().bulk(arguments[1]);
  session.reply().simple("PONG");
}

void echo(Session& session, Arguments arguments) {
  session.reply().bulk(arguments[1]);
}

void quit(Session& session, Arguments) {
  session.reply().ok();
  session.close();
}

void reset(Session& session, Arguments) {
  session.reset();
  session.reply().simple("RESET");
}

void select(Session& session, Arguments arguments) {
  std::int64_t index = 0;
  if (!parse_integer(arguments[1], index)) return session.reply().error(kNotAnInteger);
  if (index != std::int32_t(index)) {
    return session.reply().error("ERR value is out of range, value must between -2147483648 and 2147483647");
  }
  if (index != 0) return session.reply().error("ERR DB index is out of range");
  session.reply().ok();
}

void client(Session& session, Arguments arguments) {
  RespWriter& reply = session.reply();
  const std::string_view what = arguments[1];
  if (is_word(what, "ID")) return reply.integer(std::int64_t(session.id()));
  if (is_word(what, "GETNAME")) return session.name().empty() ? reply.null() : reply.bulk(session.name());
  if (is_word(what, "SETNAME")) {
    if (!check_name(session, arguments[2], "Client names")) return;
    session.set_name(arguments[2]);
    return reply.ok();
  }
  // SETINFO
  if (!is_word(arguments[2], "LIB-NAME") && !is_word(arguments[2], "LIB-VER")) {
    return reply.error(fmt::format("ERR Unrecognized option '{}'", arguments[2].substr(0, 128)));
  }
  if (!check_name(session, arguments[3], arguments[2])) return;
  reply.ok();
}

}  // namespace commands
}  // namespace atoll::kv
