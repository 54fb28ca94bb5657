#include "bench/channels.hpp"

#include <algorithm>

#include "bench/fabric_end.hpp"
#include "bench/harness.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {
namespace {

using namespace std::chrono_literals;
using Task = FabricEnd::Task;

constexpr std::uint32_t kManyInFlight = 16;
constexpr std::uint32_t kTrips = 100, kRuns = 32;  // of one look; a simulated device takes milliseconds for each
constexpr auto kLookFor = 250ms;
constexpr std::size_t kMostLooks = 1000;

/// The median of several looks. Short ones until the time is over, because nobody knows how fast the transport is.
template <typename Look>
double median_of(Look&& look) {
  std::vector<double> values;
  const Clock::time_point end = Clock::now() + kLookFor;
  while (values.empty() || (Clock::now() < end && values.size() < kMostLooks)) values.push_back(look());
  return median(values);
}

void serve(FabricEnd& end) {
  for (wire::Message wanted = end.next(); Task(wanted.argument) != Task::kEnd; wanted = end.next()) {
    const auto amount = std::uint32_t(wanted.line);
    if (Task(wanted.argument) == Task::kEcho) {
      end.echo(amount);
    } else {
      end.answer(amount);
    }
  }
}

ChannelFigures measure(FabricEnd& end) {
  (void)end.ping(kTrips, 1);  // connections, caches
  (void)end.ask(kTrips, 1);
  ChannelFigures figures;
  figures.control_us = median_of([&] { return end.ping(kTrips, 1); }) / 1e3;
  figures.control_per_s = 1e9 / median_of([&] { return end.ping(kTrips, kManyInFlight); });
  figures.data_us = median_of([&] { return end.ask(kTrips, 1); }) / 1e3;
  figures.data_mb_per_s =
      FabricEnd::kReplyBytes * 1e3 / median_of([&] { return end.ask(kTrips, kManyInFlight); });  // bytes per ns: GB/s
  figures.stream_4k_mb_per_s = median_of([&] { return end.stream(kRuns, 4 << 10); }) / 1e6;
  figures.stream_64k_mb_per_s = median_of([&] { return end.stream(kRuns, 64 << 10); }) / 1e6;
  end.tell(Task::kEnd, 0);
  return figures;
}

}  // namespace

void to_json(nlohmann::json& out, const ChannelFigures& figures) {
  out = {{"control_us", figures.control_us},
         {"control_per_s", figures.control_per_s},
         {"data_us", figures.data_us},
         {"data_mb_per_s", figures.data_mb_per_s},
         {"stream_4k_mb_per_s", figures.stream_4k_mb_per_s},
         {"stream_64k_mb_per_s", figures.stream_64k_mb_per_s}};
}

void from_json(const nlohmann::json& in, ChannelFigures& figures) {
  in.at("control_us").get_to(figures.control_us);
  in.at("control_per_s").get_to(figures.control_per_s);
  in.at("data_us").get_to(figures.data_us);
  in.at("data_mb_per_s").get_to(figures.data_mb_per_s);
  in.at("stream_4k_mb_per_s").get_to(figures.stream_4k_mb_per_s);
  in.at("stream_64k_mb_per_s").get_to(figures.stream_64k_mb_per_s);
}

ChannelFigures measure_channels(const std::string& transport, const std::string& address) {
  Options options = Options::from_environment();
  options.memory_bytes = 16 << 20;
  options.cache_bytes = 16 << 20;
  options.line_bytes = FabricEnd::kReplyBytes;
  options.transport = transport;
  options.address = address;
  const auto found = cluster::run_job({"bench-node", "channels"}, 2, options, nlohmann::json::object());
  if (found.empty()) throw Error("the nodes ended without a word");
  return found.front().get<ChannelFigures>();
}

void run_channels_node() {
  const nlohmann::json job = cluster::current_job();
  FabricEnd end(Options::from_environment());
  if (end.id() == 1) return serve(end);
  cluster::report(job, measure(end));
}

}  // namespace atoll::bench
