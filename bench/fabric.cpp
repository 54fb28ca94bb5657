#include "bench/fabric.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <optional>
#include <thread>

#include "cluster/control.hpp"
#include "cluster/job.hpp"
#include "cluster/spawn.hpp"
#include "fabric/ofi/endpoint.hpp"

namespace atoll::bench {
namespace {

using namespace std::chrono_literals;

constexpr const char* kPingpong = "fi_pingpong";

struct FabricCase {
  const char* name;   // after the transport's
  const char* value;  // what the nodes call it
  const char* base;
  const char* unit;
  const char* baseline;
  bool more_is_better;
  Bar tcp_bar;  // how tcp is judged
};

constexpr FabricCase kFabricCases[] = {
    {"round_trip", "round_trip", "pingpong", "us", "fi_pingpong, 512 B", false, {Bar::Side::kAtMost, 1.3}},
    {"round_trip_plain", "round_trip", "tcp_round_trip", "us", "plain TCP", false, {}},
    {"16_in_flight", "many", "tcp_many", "us", "plain TCP", false, {}},
    {"stream_4k", "stream_4k", "tcp_stream_4k", "MB/s", "plain TCP", true, {Bar::Side::kAtLeast, 0.8}},
    {"stream_64k", "stream_64k", "tcp_stream_64k", "MB/s", "plain TCP", true, {Bar::Side::kAtLeast, 0.8}},
};

cluster::SpawnSpec pingpong_command(const std::string& provider, int iterations) {
  cluster::SpawnSpec spec;
  spec.argv = {kPingpong, "-p", provider, "-e", "rdm", "-I", std::to_string(iterations), "-S", "512"};
  spec.input = cluster::ChildInput::kNull;
  return spec;
}

/// What a process prints until it ends; nothing when it takes too long or fails.
std::optional<std::string> output_of(cluster::ChildProcess& process) {
  std::string text;
  const auto deadline = Clock::now() + 60s;
  while (Clock::now() < deadline) {
    pollfd polls[] = {{process.out.get(), POLLIN, 0}, {process.exit_fd(), POLLIN, 0}};
    (void)::poll(polls, 2, cluster::poll_timeout(deadline));
    char buffer[4096];
    for (ssize_t got; (got = ::read(process.out.get(), buffer, sizeof(buffer))) > 0;)
      text.append(buffer, std::size_t(got));
    if (polls[1].revents == 0) continue;
    return cluster::exit_code(process.reap()) == 0 ? std::optional(text) : std::nullopt;
  }
  return {};
}

/// The last but one column of the last line is the time of one way in microseconds.
std::optional<double> round_trip_in(const std::string& text) {
  const std::size_t line = text.find_last_not_of('\n');
  if (line == std::string::npos) return {};
  std::string last = text.substr(text.rfind('\n', line) + 1, std::string::npos);
  last.erase(last.find_last_not_of(" \n") + 1);
  last.erase(last.find_last_of(' '));
  last.erase(last.find_last_not_of(' ') + 1);
  double one_way_us = 0;
  const char* const from = last.data() + last.find_last_of(' ') + 1;
  const auto [end, error] = std::from_chars(from, last.data() + last.size(), one_way_us);
  if (error != std::errc{} || one_way_us <= 0) return {};
  return 2 * one_way_us;
}

/// libfabric's own measure of a provider, both of its processes started here. Nothing where it is not installed.
std::optional<double> pingpong_us(const std::string& provider, const std::string& address, bool quick) {
  cluster::SpawnSpec spec = pingpong_command(provider, quick ? 4'000 : 16'000);
  cluster::ChildProcess server, client;
  if (server.start(spec) != 0) return {};
  std::this_thread::sleep_for(300ms);  // until it listens
  spec.argv.push_back(address);
  if (client.start(spec) != 0) return {};
  const std::optional<std::string> text = output_of(client);
  if (!text) return {};
  return round_trip_in(*text);
}

}  // namespace

int run_fabric(const FabricSettings& settings) {
  const Settings& common = settings.common;
  if (!common.json.empty()) write_json_lines(common.json, {});
  warn_if_busy();
  const std::vector<std::string> transports =
      settings.transports.empty() ? std::vector<std::string>{"shm", "tcp"} : settings.transports;
  const int repetitions = common.repetitions > 0 ? common.repetitions : common.quick ? 3 : 7;
  const std::string address = settings.address.empty() ? "127.0.0.1" : settings.address;
  std::vector<Record> records;
  Progress progress(0, int(transports.size()));
  for (const std::string& transport : transports) {
    progress.begin(transport);
    Options options = Options::from_environment();
    options.memory_bytes = 16 << 20;
    options.cache_bytes = 16 << 20;
    options.transport = transport;
    options.address = settings.address;
    std::map<std::string, std::vector<double>> values;
    for (int repetition = 1; repetition <= repetitions; ++repetition) {
      progress.step(repetition, repetitions);
      const auto found = cluster::run_job({"bench-node", "fabric"}, 2, options, {{"quick", common.quick}});
      for (const auto& [name, value] : found.at(0).items()) values[name].push_back(value.get<double>());
      const std::string provider = fabric::provider_name(transport == "shm" ? "tcp" : transport);
      if (const auto us = pingpong_us(provider, address, common.quick)) values["pingpong"].push_back(*us);
    }
    for (const FabricCase& one : kFabricCases) {
      const std::string name = fmt::format("{}_{}", transport, one.name);
      if (values[one.base].empty()) {
        fmt::print(stderr, "{}: not compared: fi_pingpong (package libfabric-bin) does not run here\n", name);
        continue;
      }
      const CaseInfo info{name, one.unit, one.baseline, one.more_is_better, transport == "tcp" ? one.tcp_bar : Bar{}};
      records.push_back(make_record("fabric", info, {name, 2, values[one.value], values[one.base]}));
    }
  }
  print_table(records);
  if (!common.json.empty()) write_json_lines(common.json, records);
  return 0;
}

}  // namespace atoll::bench
