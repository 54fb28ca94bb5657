// The two ends of `atoll bench fabric`.
#include "bench/fabric.hpp"
#include "bench/fabric_end.hpp"
#include "bench/plain_tcp.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {
namespace {

using Task = FabricEnd::Task;

constexpr std::uint32_t kManyInFlight = 16;

void serve(FabricEnd& end) {
  PlainTcp tcp;
  end.tell(Task::kAnswer, tcp.port());
  tcp.accept();
  while (true) {
    const wire::Message wanted = end.next();
    const auto amount = std::uint32_t(wanted.line);
    switch (Task(wanted.argument)) {
      case Task::kAnswer: end.answer(amount); break;
      case Task::kEcho: end.echo(amount); break;
      case Task::kTcpPing: tcp.serve(amount, FabricEnd::kReplyBytes, 1); break;
      case Task::kTcpPingMany: tcp.serve(amount, FabricEnd::kReplyBytes, kManyInFlight); break;
      case Task::kTcpStream4k: tcp.send_stream(amount, 4 << 10); break;
      case Task::kTcpStream64k: tcp.send_stream(amount, 64 << 10); break;
      case Task::kEnd: return;
    }
  }
}

nlohmann::json measure(FabricEnd& end, bool quick) {
  PlainTcp tcp(std::uint16_t(end.next().line));
  const std::uint32_t trips = quick ? 4'000 : 16'000;
  const std::uint32_t mib = quick ? 64 : 256;
  nlohmann::json found;
  (void)end.ask(200, 1);  // connections, caches
  found["round_trip"] = end.ask(trips, 1) / 1000;
  end.tell(Task::kTcpPing, trips);
  found["tcp_round_trip"] = tcp.ping(trips, FabricEnd::kReplyBytes, 1) / 1000;
  found["many"] = end.ask(trips, kManyInFlight) / 1000;
  end.tell(Task::kTcpPingMany, trips);
  found["tcp_many"] = tcp.ping(trips, FabricEnd::kReplyBytes, kManyInFlight) / 1000;
  found["stream_4k"] = end.stream(mib * 256 / FabricEnd::kRun, 4 << 10) / 1e6;
  end.tell(Task::kTcpStream4k, mib * 256);
  found["tcp_stream_4k"] = tcp.receive_stream(mib * 256, 4 << 10) / 1e6;
  found["stream_64k"] = end.stream(mib * 16 / FabricEnd::kRun, 64 << 10) / 1e6;
  end.tell(Task::kTcpStream64k, mib * 16);
  found["tcp_stream_64k"] = tcp.receive_stream(mib * 16, 64 << 10) / 1e6;
  end.tell(Task::kEnd, 0);
  return found;
}

}  // namespace

void run_fabric_node() {
  const nlohmann::json job = cluster::current_job();
  FabricEnd end(Options::from_environment());
  if (end.id() == 1) return serve(end);
  cluster::report(job, measure(end, job.at("quick").get<bool>()));
}

}  // namespace atoll::bench
