#include "bench/fabric_end.hpp"

#include <bit>

#include "base/backoff.hpp"
#include "bench/harness.hpp"

namespace atoll::bench {
namespace {

using wire::Kind;
using wire::Message;

constexpr std::uint32_t kRunsInFlight = 4;

}  // namespace

FabricEnd::FabricEnd(const Options& options)
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

void FabricEnd::tell(Task task, std::uint64_t amount) {
  Message message;
  message.kind = Kind::kFree;
  message.from = id();
  message.argument = std::uint64_t(task);
  message.line = amount;
  fabric_->send(1u - id(), message);
  fabric_->flush();
}

Message FabricEnd::next() {
  Message message;
  NodeId from = 0;
  base::Backoff backoff(base::Host::real(), 1000, 100, learned_);
  while (!fabric_->poll(message, from)) {
    fabric_->flush();
    if (!backoff.pause()) fabric_->wait(1000);
  }
  return message;
}

double FabricEnd::ping(std::uint32_t trips, std::uint32_t in_flight) {
  tell(Task::kEcho, trips);
  return time_ns(trips, [&] {
    for (std::uint32_t i = 0; i < in_flight; ++i) tell(Task::kEcho, 0);
    for (std::uint32_t done = 0; done < trips; ++done) {
      (void)next();
      if (done + in_flight < trips) tell(Task::kEcho, 0);
    }
  });
}

double FabricEnd::ask(std::uint32_t trips, std::uint32_t in_flight) {
  tell(Task::kAnswer, trips);
  return time_ns(trips, [&] {
    for (std::uint32_t i = 0; i < in_flight; ++i) request(kReplyBytes, i, 1);
    for (std::uint32_t done = 0; done < trips; ++done) {
      const std::uint32_t slot = next().slots[0];
      if (done + in_flight < trips) request(kReplyBytes, slot, 1);
    }
  });
}

double FabricEnd::stream(std::uint32_t runs, std::uint32_t bytes) {
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

void FabricEnd::echo(std::uint32_t messages) {
  for (std::uint32_t done = 0; done < messages; ++done) {
    (void)next();
    tell(Task::kEcho, 0);
  }
}

void FabricEnd::answer(std::uint32_t requests) {
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

void FabricEnd::request(std::uint32_t bytes, std::uint32_t slot, std::uint8_t count) {
  Message message;
  message.kind = Kind::kGetShared;
  message.from = 0;
  message.count = count;
  message.argument = bytes;
  for (std::uint8_t i = 0; i < count; ++i) message.slots[i] = slot + i * (bytes / kReplyBytes);
  fabric_->send(1, message);
  fabric_->flush();
}

Message FabricEnd::data(const Message& asked, std::uint8_t i, std::uint32_t bytes) {
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

}  // namespace atoll::bench
