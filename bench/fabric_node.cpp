// The two ends of `atoll bench fabric`: node 0 asks and measures, node 1 answers. They use the transport as a node's
// engine does, without the engine.
#include <cerrno>
#include <cstring>
#include <memory>
#include <numeric>

#include "base/backoff.hpp"
#include "bench/fabric.hpp"
#include "bench/plain_tcp.hpp"
#include "cluster/job.hpp"
#include "cluster/membership.hpp"
#include "memory/segment.hpp"
#include "runtime/transport.hpp"

namespace atoll::bench {
namespace {

using wire::Kind;
using wire::Message;

constexpr std::uint32_t kManyInFlight = 16;
constexpr std::uint32_t kReplyBytes = 512;
constexpr std::uint32_t kRun = wire::kMaxRun, kRunsInFlight = 4;

/// What node 0 wants of node 1 next, in the argument of a Free message; how much of it in the line.
enum class Task : std::uint64_t { kAnswer, kTcpPing, kTcpPingMany, kTcpStream4k, kTcpStream64k, kEnd };

class End {
 public:
  explicit End(const Options& options)
      : membership_(cluster::Membership::connect(options)),
        segment_(memory::Segment::create(options, membership_->count())),
        transport_(runtime::make_transport(options)) {
    segment_.populate_cache();
    (void)transport_->connect(segment_, *membership_,
                              {[](NodeId, const std::string&) {}, [] {}, [](cluster::Standing, const std::string&) {}});
    fabric::Upcalls upcalls;
    upcalls.answer_in = [](NodeId from, std::uint32_t slot) {
      Message answer;
      answer.kind = Kind::kData;
      answer.count = 1;
      answer.from = from;
      answer.slots[0] = slot;
      return answer;
    };
    upcalls.on_broken = [](NodeId, const char* why) { throw Error(why); };
    fabric_ = transport_->make_fabric(segment_.header().counters, std::move(upcalls), [](NodeId) { return false; });
  }
  ~End() { membership_->leave(); }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  [[nodiscard]] NodeId id() const { return membership_->id(); }
  void tell(Task task, std::uint64_t amount) {
    Message message;
    message.kind = Kind::kFree;
    message.from = id();
    message.argument = std::uint64_t(task);
    message.line = amount;
    fabric_->send(1u - id(), message);
    fabric_->flush();
  }
  /// The next message; waits as a node's threads do.
  Message next() {
    Message message;
    NodeId from = 0;
    base::Backoff backoff(base::Host::real(), 1000, 100, crowded_);
    while (!fabric_->poll(message, from)) {
      fabric_->flush();
      if (!backoff.pause()) fabric_->wait(1000);
    }
    return message;
  }

  // Node 0.
  /// ns per request for one line of 512 bytes.
  double ask(std::uint32_t trips, std::uint32_t in_flight) {
    tell(Task::kAnswer, trips);
    return time_ns(trips, [&] {
      for (std::uint32_t i = 0; i < in_flight; ++i) request(kReplyBytes, i, 1);
      for (std::uint32_t done = 0; done < trips; ++done) {
        const std::uint32_t slot = next().slots[0];
        if (done + in_flight < trips) request(kReplyBytes, slot, 1);
      }
    });
  }
  /// Bytes per second of lines of this size, asked for in runs.
  double stream(std::uint32_t runs, std::uint32_t bytes) {
    tell(Task::kAnswer, runs);
    const Clock::time_point start = Clock::now();
    const std::uint32_t slots_per_run = kRun * bytes / kReplyBytes;
    for (std::uint32_t i = 0; i < kRunsInFlight; ++i) request(bytes, i * slots_per_run, kRun);
    for (std::uint32_t done = 0; done < runs;) {
      const Message answer = next();
      lines_ += answer.count;
      if (lines_ < kRun) continue;
      lines_ -= kRun;
      ++done;
      const std::uint32_t first = (done - 1) % kRunsInFlight * slots_per_run;
      if (done + kRunsInFlight <= runs) request(bytes, first, kRun);
    }
    return double(runs) * kRun * bytes / seconds_since(start);
  }

  // Node 1.
  void answer(std::uint32_t requests) {
    for (std::uint32_t done = 0; done < requests; ++done) {
      const Message asked = next();
      const auto bytes = std::uint32_t(asked.argument);
      for (std::uint8_t i = 0; i < asked.count; ++i) {
        fabric_->write_slot(0, asked.slots[i], {segment_.memory() + std::size_t(i) * bytes, bytes}, asked.count > 1);
        fabric_->send(0, data(asked, i, bytes));
      }
      fabric_->flush();
    }
  }

 private:
  void request(std::uint32_t bytes, std::uint32_t slot, std::uint8_t count) {
    Message message;
    message.kind = Kind::kGetShared;
    message.from = 0;
    message.count = count;
    message.argument = bytes;
    for (std::uint8_t i = 0; i < count; ++i) message.slots[i] = slot + i * (bytes / kReplyBytes);
    fabric_->send(1, message);
    fabric_->flush();
  }
  static Message data(const Message& asked, std::uint8_t i, std::uint32_t bytes) {
    Message message;
    message.kind = Kind::kData;
    message.from = 1;
    message.requester = 0;
    message.count = 1;
    message.flags = std::uint8_t(std::countr_zero(bytes / kReplyBytes) << wire::kLargerShift);
    message.line = GlobalAddress::make(1, 4096 + std::uint64_t(i) * bytes).bits();
    message.slots[0] = asked.slots[i];
    return message;
  }

  std::unique_ptr<cluster::Membership> membership_;
  memory::Segment segment_;
  std::unique_ptr<runtime::Transport> transport_;
  std::unique_ptr<fabric::Fabric> fabric_;
  bool crowded_ = false;
  std::uint32_t lines_ = 0;  // of the run that is being answered
};

void serve(End& end) {
  PlainTcp tcp;
  end.tell(Task::kAnswer, tcp.port());
  tcp.accept();
  while (true) {
    const Message wanted = end.next();
    const auto amount = std::uint32_t(wanted.line);
    switch (Task(wanted.argument)) {
      case Task::kAnswer: end.answer(amount); break;
      case Task::kTcpPing: tcp.serve(amount, kReplyBytes, 1); break;
      case Task::kTcpPingMany: tcp.serve(amount, kReplyBytes, kManyInFlight); break;
      case Task::kTcpStream4k: tcp.send_stream(amount, 4 << 10); break;
      case Task::kTcpStream64k: tcp.send_stream(amount, 64 << 10); break;
      case Task::kEnd: return;
    }
  }
}

nlohmann::json measure(End& end, bool quick) {
  PlainTcp tcp(std::uint16_t(end.next().line));
  const std::uint32_t trips = quick ? 4'000 : 16'000;
  const std::uint32_t mib = quick ? 64 : 256;
  nlohmann::json found;
  (void)end.ask(200, 1);  // connections, caches
  found["round_trip"] = end.ask(trips, 1) / 1000;
  end.tell(Task::kTcpPing, trips);
  found["tcp_round_trip"] = tcp.ping(trips, kReplyBytes, 1) / 1000;
  found["many"] = end.ask(trips, kManyInFlight) / 1000;
  end.tell(Task::kTcpPingMany, trips);
  found["tcp_many"] = tcp.ping(trips, kReplyBytes, kManyInFlight) / 1000;
  found["stream_4k"] = end.stream(mib * 256 / kRun, 4 << 10) / 1e6;
  end.tell(Task::kTcpStream4k, mib * 256);
  found["tcp_stream_4k"] = tcp.receive_stream(mib * 256, 4 << 10) / 1e6;
  found["stream_64k"] = end.stream(mib * 16 / kRun, 64 << 10) / 1e6;
  end.tell(Task::kTcpStream64k, mib * 16);
  found["tcp_stream_64k"] = tcp.receive_stream(mib * 16, 64 << 10) / 1e6;
  end.tell(Task::kEnd, 0);
  return found;
}

}  // namespace

void run_fabric_node() {
  const nlohmann::json job = cluster::current_job();
  End end(Options::from_environment());
  if (end.id() == 1) return serve(end);
  cluster::report(job, measure(end, job.at("quick").get<bool>()));
}

}  // namespace atoll::bench
