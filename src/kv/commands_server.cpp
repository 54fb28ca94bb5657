// Commands about the server.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "kv/glob.hpp"
#include "kv/handlers.hpp"
#include "kv/session.hpp"

namespace atoll::kv {

std::string_view redis_version() noexcept {
  return "7.0.0";
}

namespace {

using Setting = std::pair<std::string_view, std::string>;

/// What there is to tell by the names that Redis has for it.
std::vector<Setting> settings(Service& service) {
  const ServiceOptions& options = service.options();
  const Limits& limits = options.limits;
  return {{"appendonly", "no"},
          {"bind", options.bind},
          {"client-output-buffer-limit", fmt::format("normal {} {} {}", limits.output_limit_bytes,
                                                     limits.output_pause_bytes, limits.stalled.count())},
          {"databases", "1"},
          {"maxclients", std::to_string(limits.clients)},
          {"maxmemory", std::to_string(service.node().stats().memory_bytes)},
          {"maxmemory-policy", "noeviction"},
          {"port", std::to_string(options.port)},
          {"proto-max-bulk-len", std::to_string(limits.argument_bytes)},
          {"save", ""},
          {"timeout", std::to_string(limits.idle.count())}};
}

void describe(RespWriter& reply, const Command& command) {
  reply.array(10);
  reply.bulk(command.name);
  reply.integer(command.arity);
  const bool with_keys = command.first_key != 0;
  const bool reads = with_keys && !command.has(kWrites);
  reply.set(std::size_t(command.has(kWrites)) + std::size_t(reads) + std::size_t(command.has(kFast)) +
            std::size_t(command.has(kNoAuth)));
  if (command.has(kWrites)) reply.simple("write");
  if (reads) reply.simple("readonly");
  if (command.has(kFast)) reply.simple("fast");
  if (command.has(kNoAuth)) reply.simple("no_auth");
  reply.integer(command.first_key);
  reply.integer(command.last_key);
  reply.integer(command.key_step);
  reply.set(1);
  reply.simple(fmt::format("@{}", command.group));
  for (int i = 0; i < 3; ++i) reply.array(0);  // tips, key specifications, subcommands
}

void document(RespWriter& reply, const Command& command) {
  reply.bulk(command.name);
  reply.map(3);
  reply.bulk("summary");
  reply.bulk(command.summary);
  reply.bulk("since");
  reply.bulk("1.0.0");
  reply.bulk("group");
  reply.bulk(command.group);
}

void command_docs(RespWriter& reply, Arguments names) {
  std::vector<const Command*> chosen;
  for (const std::string_view name : names) {
    if (const Command* found = find_command(name)) chosen.push_back(found);
  }
  if (names.empty()) {
    for (const Command& each : all_commands()) chosen.push_back(&each);
  }
  reply.map(chosen.size());
  for (const Command* each : chosen) document(reply, *each);
}

void command_info(RespWriter& reply, Arguments names) {
  reply.array(names.empty() ? all_commands().size() : names.size());
  if (names.empty()) {
    for (const Command& each : all_commands()) describe(reply, each);
  }
  for (const std::string_view name : names) {
    const Command* found = find_command(name);
    found != nullptr ? describe(reply, *found) : reply.null();
  }
}

std::string info_server(Service& service) {
  const std::int64_t seconds = service.uptime_ms() / 1000;
  return fmt::format(
      "# Server\r\nredis_version:{}\r\nredis_mode:standalone\r\natoll_version:{}\r\natoll_node:{}\r\natoll_nodes:{}\r\n"
      "os:Linux\r\narch_bits:64\r\nprocess_id:{}\r\ntcp_port:{}\r\nuptime_in_seconds:{}\r\nuptime_in_days:{}\r\n",
      redis_version(), service.options().version, service.node().id(), service.node().count(), ::getpid(),
      service.options().port, seconds, seconds / 86400);
}

std::string info_clients(Service& service) {
  return fmt::format("# Clients\r\nconnected_clients:{}\r\nmaxclients:{}\r\n", service.clients(),
                     service.limits().clients);
}

std::string info_memory(Service& service) {
  const Stats stats = service.node().stats();
  return fmt::format(
      "# Memory\r\nused_memory:{}\r\nmaxmemory:{}\r\nmaxmemory_policy:noeviction\r\natoll_cache_lines:{}\r\n"
      "atoll_cache_lines_used:{}\r\n",
      stats.memory_bytes - stats.memory_free_bytes, stats.memory_bytes, stats.cache_lines, stats.cache_lines_used);
}

std::string info_stats(Service& service) {
  const Counts counts = service.counts();
  const Stats stats = service.node().stats();
  return fmt::format(
      "# Stats\r\ntotal_connections_received:{}\r\ntotal_commands_processed:{}\r\ntotal_net_input_bytes:{}\r\n"
      "total_net_output_bytes:{}\r\nrejected_connections:{}\r\nexpired_keys:{}\r\nkeyspace_hits:{}\r\n"
      "keyspace_misses:{}\r\nclient_output_buffer_limit_disconnections:{}\r\nclient_timeout_disconnections:{}\r\n"
      "atoll_hits:{}\r\natoll_reads_in_place:{}\r\natoll_read_misses:{}\r\natoll_write_misses:{}\r\n"
      "atoll_lock_misses:{}\r\natoll_lock_waits:{}\r\natoll_invalidations:{}\r\natoll_messages_sent:{}\r\n",
      counts.connections, counts.commands, counts.bytes_in, counts.bytes_out, counts.rejected, counts.expired,
      counts.hits, counts.misses, counts.cut_for_output, counts.cut_for_time, stats.hits, stats.reads_in_place,
      stats.read_misses, stats.write_misses, stats.lock_misses, stats.lock_waits, stats.invalidations,
      stats.messages_sent);
}

std::string info_replication(Service&) {
  return "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n";
}

std::string info_keyspace(Service& service) {
  const Result<std::int64_t> size = service.map().size();
  std::string text = "# Keyspace\r\n";
  if (size.ok() && *size > 0) text += fmt::format("db0:keys={},expires=0,avg_ttl=0\r\n", *size);
  return text;
}

struct Section {
  std::string_view name;  // in upper case
  std::string (*make)(Service&);
};
constexpr Section kSections[] = {{"SERVER", info_server},           {"CLIENTS", info_clients},
                                 {"MEMORY", info_memory},           {"STATS", info_stats},
                                 {"REPLICATION", info_replication}, {"KEYSPACE", info_keyspace}};

}  // namespace

namespace commands {

void command(Session& session, Arguments arguments) {
  RespWriter& reply = session.reply();
  if (arguments.size() == 1) return command_info(reply, {});
  const std::string_view what = arguments[1];
  if (is_word(what, "COUNT")) return reply.integer(std::int64_t(all_commands().size()));
  if (is_word(what, "DOCS")) return command_docs(reply, arguments.subspan(2));
  if (is_word(what, "INFO")) return command_info(reply, arguments.subspan(2));
  // LIST
  if (arguments.size() > 2) return reply.error(kSyntaxError);
  reply.array(all_commands().size());
  for (const Command& each : all_commands()) reply.bulk(each.name);
}

void config(Session& session, Arguments arguments) {
  RespWriter& reply = session.reply();
  if (!is_word(arguments[1], "GET")) {
    return reply.error("ERR settings are options of `atoll kv serve`, and stay as they are");
  }
  for (const std::string_view pattern : arguments.subspan(2)) {
    if (!check_pattern(pattern, reply)) return;
  }
  std::vector<Setting> found = settings(session.service());
  std::erase_if(found, [&](Setting& setting) {
    for (const std::string_view pattern : arguments.subspan(2)) {
      if (!glob_match(pattern, setting.first, true)) continue;
      if (pattern.find_first_of("*?[\\") == std::string_view::npos) setting.first = pattern;  // in the client's case
      return false;
    }
    return true;
  });
  reply.map(found.size());
  for (const auto& [name, value] : found) {
    reply.bulk(name);
    reply.bulk(value);
  }
}

void info(Session& session, Arguments arguments) {
  const Arguments names = arguments.subspan(1);
  session.service().add(session.worker().counts);
  std::string text;
  for (const Section& section : kSections) {
    const bool wanted = names.empty() || std::any_of(names.begin(), names.end(), [&](std::string_view name) {
                          return is_word(name, section.name) || is_word(name, "ALL") || is_word(name, "DEFAULT") ||
                                 is_word(name, "EVERYTHING");
                        });
    if (!wanted) continue;
    if (!text.empty()) text += "\r\n";
    text += section.make(session.service());
  }
  session.reply().verbatim(text);
}

void time(Session& session, Arguments) {
  const std::int64_t now = session.service().now();
  session.reply().array(2);
  session.reply().bulk(std::to_string(now / 1000));
  session.reply().bulk(std::to_string(now % 1000 * 1000));
}

}  // namespace commands
}  // namespace atoll::kv
