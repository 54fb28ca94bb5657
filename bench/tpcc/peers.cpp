#include "bench/tpcc/peers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/futex.hpp"
#include "base/host.hpp"

namespace atoll::bench::tpcc {
namespace {

constexpr std::uint64_t kMagic = 0x41746f6c50656572;  // "AtolPeer"
constexpr std::uint32_t kSpin_ns = 2000;
constexpr std::uint32_t kYield_us = 200;
constexpr std::uint64_t kSleepSlice_us = 1000;
constexpr std::uint64_t kLook_us = 1000;         // of the service thread at whether others poll
constexpr std::uint64_t kLongSleep_us = 20'000;  // of the service thread when it is woken for messages
constexpr unsigned kMessagesAtOnce = 16;         // of one ring, before others have their turn
constexpr std::uint64_t kPage = 4096;
constexpr const char* kIsGone = "a node that this engine needs is gone";

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

base::Host& host() noexcept {
  return base::Host::real();
}

}  // namespace

struct Peers::Bell {
  std::uint64_t magic = kMagic;
  std::uint64_t key = 0;                               // another one for each node of each cluster
  alignas(kLine) std::atomic<std::uint32_t> rings{0};  // futex: those who sleep look again
  std::atomic<std::uint32_t> sleepers{0};
};

struct Peers::Announced {
  std::uint32_t process = 0;
  std::int32_t file = -1;
  std::uint64_t key = 0;
};

/// Outlives the Peers while a thread has one.
struct Peers::Places {
  std::mutex mutex;
  std::vector<bool> taken;
};

/// A thread's places, given back when it ends.
struct Peers::Leases {
  struct One {
    std::shared_ptr<Places> places;
    unsigned thread = 0;
  };
  std::vector<One> all;

  ~Leases() {
    for (const One& one : all) {
      const std::lock_guard lock(one.places->mutex);
      one.places->taken[one.thread] = false;
    }
  }
  static Leases& mine() noexcept {
    static thread_local Leases leases;
    return leases;
  }
};

// ---- set-up ----

Peers::Peers(Node& node, const PeersOptions& options)
    : node_(node),
      options_(options),
      self_(node.id()),
      count_(node.count()),
      maps_(count_),
      ports_(options.threads),
      draining_(std::size_t{count_} * options.threads),
      places_(std::make_shared<Places>()) {
  if (options.threads == 0 || options.threads > UINT16_MAX) throw Error("a node has at least one thread");
  if (!std::has_single_bit(options.ring_bytes) || options.ring_bytes < 4 * kLine) {
    throw Error(fmt::format("a ring of {} bytes: take a power of two, 256 at least", options.ring_bytes));
  }
  places_->taken.resize(options.threads);
  for (Port& port : ports_) port.lines.resize(count_);
  lay_out();
  connect();
}

Peers::~Peers() {
  stopping_.store(1, std::memory_order_seq_cst);
  base::futex_wake(stopping_, INT_MAX, base::FutexScope::kProcess);
  bell(self_).rings.fetch_add(1, std::memory_order_seq_cst);
  base::futex_wake(bell(self_).rings, INT_MAX, base::FutexScope::kShared);
  service_.reset();
}

void Peers::lay_out() {
  static_assert(sizeof(Bell) == 2 * kLine);
  rings_at_ = round_up(sizeof(Bell) + 2 * counters_bytes() * count_, kPage);
  answers_at_ = rings_at_ + std::uint64_t{count_} * options_.threads * options_.ring_bytes;
  answer_stride_ = std::uint32_t(round_up(sizeof(AnswerHead) + options_.answer_bytes, kLine));
  memory_at_ = round_up(answers_at_ + std::uint64_t{count_} * options_.threads * answer_stride_, 2 << 20);
}

void Peers::connect() {
  Options options;
  options.line_bytes = 4096;  // of no use here; so there are the fewest records
  options.cache_bytes = 64 * options.line_bytes;
  options.memory_bytes = memory_at_ + options_.memory_bytes;
  Map& mine = maps_[self_];
  mine.segment = memory::Segment::create(options, 1);
  Announced announced{std::uint32_t(::getpid()), mine.segment.fd().get(), 0};
  announced.key = std::uint64_t(host().now().time_since_epoch().count()) << 8 | self_;
  new (mine.segment.memory()) Bell{kMagic, announced.key};

  join_pages({mine.segment.memory(), memory_at_});
  const auto name = [&](NodeId of) { return fmt::format("{}/{}", options_.name, of); };
  const auto place = node_.allocate<Announced>(1, Placement::local()).value();
  node_.write(place, announced).or_throw();
  node_.fence().or_throw();
  node_.publish(name(self_), place.address()).or_throw();
  for (NodeId peer = 0; peer < count_; ++peer) {
    if (peer == self_) continue;
    const auto theirs = global_ptr<Announced>(node_.lookup(name(peer)).value());
    maps_[peer].segment = open_peer(peer, node_.read(theirs).value());
  }
  for (Map& map : maps_) {
    map.base = map.segment.memory();
    map.memory = {map.base + memory_at_, map.segment.memory_bytes() - memory_at_};
  }
  node_.barrier().or_throw();
}

memory::Segment Peers::open_peer(NodeId peer, const Announced& announced) const {
  const std::string path = fmt::format("/proc/{}/fd/{}", announced.process, announced.file);
  const base::Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.valid()) {
    throw Error(
        fmt::format("cannot open the memory of node {} at {}: {}. This engine's nodes must run on one machine, "
                    "as one user, and see each other's processes",
                    peer, path, std::strerror(errno)));
  }
  memory::Segment segment = memory::Segment::open(file);
  Bell theirs_is;
  const bool fits = segment.memory_bytes() >= memory_at_;
  if (fits) {
    const auto& bell = *reinterpret_cast<const Bell*>(segment.memory());
    theirs_is.magic = bell.magic;
    theirs_is.key = bell.key;
  }
  if (!fits || theirs_is.magic != kMagic || theirs_is.key != announced.key) {
    throw Error(fmt::format("what is at {} is not the memory of node {}: this engine's nodes must run on one machine",
                            path, peer));
  }
  return segment;
}

void Peers::start(PeerHandler& handler) {
  handler_ = &handler;
  if (count_ > 1) service_ = host().start([this] { serve_forever(); });
  node_.barrier().or_throw();
}

void Peers::join_pages(std::span<const std::byte> part) noexcept {
  maps_[self_].segment.join_pages(part.data(), part.size());
}

Result<unsigned> Peers::thread() noexcept {
  auto& leases = Leases::mine().all;
  for (const auto& lease : leases) {
    if (lease.places == places_) return lease.thread;
  }
  const std::lock_guard lock(places_->mutex);
  for (unsigned i = 0; i < options_.threads; ++i) {
    if (places_->taken[i]) continue;
    places_->taken[i] = true;
    leases.push_back({places_, i});
    return i;
  }
  return {Errc::kOutOfMemory, "more threads at the same time than the engine was made for"};
}

// ---- places in memory ----

std::byte* Peers::ring(NodeId receiver, NodeId sender, unsigned thread) const noexcept {
  return maps_[receiver].base + rings_at_ + (std::uint64_t{sender} * options_.threads + thread) * options_.ring_bytes;
}

Peers::AnswerHead& Peers::answer_head(NodeId asker, unsigned thread, NodeId asked) const noexcept {
  const std::uint64_t number = std::uint64_t{thread} * count_ + asked;
  return *reinterpret_cast<AnswerHead*>(maps_[asker].base + answers_at_ + number * answer_stride_);
}

Peers::Bell& Peers::bell(NodeId node) const noexcept {
  return *reinterpret_cast<Bell*>(maps_[node].base);
}

// ---- waiting ----

Status Peers::all_here() const noexcept {
  for (NodeId node = 0; node < count_; ++node) {
    if (node != self_ && node_.presence(node) != Presence::kHere) return {Errc::kNodeDied, kIsGone, node};
  }
  return {};
}

Status Peers::why_to_give_up(const base::Backoff& backoff, NodeId on) const noexcept {
  if (node_.presence(on) != Presence::kHere) return {Errc::kNodeDied, kIsGone, on};
  if (backoff.now() - backoff.start() > options_.deadline) {
    return {Errc::kDeadline, "a node does not answer: has it as many engines as the others?", on};
  }
  return {};
}

template <typename Done>
Status Peers::wait(unsigned thread, NodeId on, Done done) noexcept {
  base::Backoff backoff(host(), kSpin_ns, kYield_us, ports_[thread].learned);
  while (!done()) {
    (void)poll(thread);
    if (backoff.pause()) continue;
    if (const Status status = why_to_give_up(backoff, on); !status.ok()) return done() ? Status() : status;
    sleep(kSleepSlice_us, done);
  }
  return {};
}

/// Until something comes for this node, be it a message or an answer; not for longer than that.
template <typename Done>
void Peers::sleep(std::uint64_t most_us, Done done) noexcept {
  Bell& mine = bell(self_);
  mine.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t heard = mine.rings.load(std::memory_order_seq_cst);
  if (done()) {
    // It has come before anybody could see that we sleep.
  } else if (has_mail()) {
    host().yield();  // to the thread that handles it, perhaps
  } else {
    base::futex_wait(mine.rings, heard, most_us, base::FutexScope::kShared);
  }
  mine.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

std::uint64_t Peers::all_polls() const noexcept {
  std::uint64_t sum = 0;
  for (const Port& port : ports_) sum += port.polls.load(std::memory_order_relaxed);
  return sum;
}

/// Stands by while others poll: it would only take the processor from them.
void Peers::serve_forever() noexcept {
  std::uint64_t seen = 0;
  while (stopping_.load(std::memory_order_acquire) == 0) {
    const std::uint64_t polls = all_polls();
    if (polls == seen) serve_alone(polls);
    seen = all_polls();
    base::futex_wait(stopping_, 0, kLook_us, base::FutexScope::kProcess);
  }
}

void Peers::serve_alone(std::uint64_t polls_seen) noexcept {
  base::Backoff::Learned learned;
  base::Backoff backoff(host(), kSpin_ns, kYield_us, learned);
  const auto is_over = [&] { return stopping_.load(std::memory_order_seq_cst) != 0 || all_polls() != polls_seen; };
  while (!is_over()) {
    if (has_mail() && drain_all()) {
      backoff.reset();
    } else if (!backoff.pause()) {
      sleep(kLongSleep_us, is_over);
      backoff.reset();
    }
  }
}

// ---- sending ----

Result<std::span<std::byte>> Peers::compose(unsigned thread, NodeId to, std::uint32_t bytes) noexcept {
  Line& line = ports_[thread].lines[to];
  if (!line.broken.ok()) return line.broken;
  const std::uint32_t need = std::uint32_t(round_up(sizeof(MessageHead) + bytes, kLine));
  const std::uint64_t at = line.sent % options_.ring_bytes;
  line.skipped = at + need > options_.ring_bytes ? std::uint32_t(options_.ring_bytes - at) : 0;
  const std::uint64_t end = line.sent + line.skipped + need;
  if (end - line.seen > options_.ring_bytes) {
    const auto& handled = head(to, self_, thread);
    const auto has_room = [&] {
      line.seen = handled.load(std::memory_order_acquire);
      return end - line.seen <= options_.ring_bytes;
    };
    if (const Status status = wait(thread, to, has_room); !status.ok()) return line.broken = status;
  }
  line.composed = bytes;
  std::byte* const begin = ring(to, self_, thread);
  return std::span(begin + (line.sent + line.skipped) % options_.ring_bytes + sizeof(MessageHead), bytes);
}

void Peers::ask(unsigned thread, NodeId to, std::uint32_t bytes) noexcept {
  Line& line = ports_[thread].lines[to];
  if (++line.number == 0) ++line.number;
  hand_over(thread, to, bytes, line.number);
}

void Peers::hand_over(unsigned thread, NodeId to, std::uint32_t bytes, std::uint32_t number) noexcept {
  Line& line = ports_[thread].lines[to];
  std::byte* const begin = ring(to, self_, thread);
  if (line.skipped != 0) {
    const MessageHead skip{kSkip, 0};
    std::memcpy(begin + line.sent % options_.ring_bytes, &skip, sizeof(skip));
    line.sent += line.skipped;
  }
  const MessageHead message{bytes, number};
  std::memcpy(begin + line.sent % options_.ring_bytes, &message, sizeof(message));
  line.sent += round_up(sizeof(message) + bytes, kLine);
  tail(to, self_, thread).store(line.sent, std::memory_order_seq_cst);  // before the look at who sleeps
  wake(to);
}

void Peers::wake(NodeId node) noexcept {
  Bell& theirs = bell(node);
  if (theirs.sleepers.load(std::memory_order_seq_cst) == 0) return;
  theirs.rings.fetch_add(1, std::memory_order_seq_cst);
  base::futex_wake(theirs.rings, INT_MAX, base::FutexScope::kShared);
}

bool Peers::has_answer(unsigned thread, NodeId from) const noexcept {
  return answer_head(self_, thread, from).number.load(std::memory_order_acquire) == ports_[thread].lines[from].number;
}

Result<std::span<const std::byte>> Peers::await(unsigned thread, NodeId from) noexcept {
  Line& line = ports_[thread].lines[from];
  if (!line.broken.ok()) return line.broken;
  const auto is_there = [&] { return has_answer(thread, from); };
  if (const Status status = wait(thread, from, is_there); !status.ok()) return line.broken = status;
  const AnswerHead& found = answer_head(self_, thread, from);
  return std::span(reinterpret_cast<const std::byte*>(&found + 1), std::min(found.bytes, options_.answer_bytes));
}

/// What stands there was perhaps written by another thread, which has answered; the asker knows that it was before, and
/// so the question says it, but only by way of the asker.
std::span<std::byte> Peers::room_for_answer(const Call& call) const noexcept {
  AnswerHead& place = answer_head(call.asker, call.thread, self_);
  (void)place.number.load(std::memory_order_acquire);
  return {reinterpret_cast<std::byte*>(&place + 1), options_.answer_bytes};
}

void Peers::answer(const Call& call, std::uint32_t bytes) noexcept {
  AnswerHead& place = answer_head(call.asker, call.thread, self_);
  place.bytes = bytes;
  place.number.store(call.number, std::memory_order_seq_cst);  // before the look at who sleeps
  wake(call.asker);
}

// ---- receiving ----

bool Peers::drain_all() noexcept {
  bool any = false;
  for (NodeId from = 0; from < count_; ++from) {
    if (from == self_) continue;
    for (unsigned thread = 0; thread < options_.threads; ++thread) {
      const std::uint64_t sent = tail(self_, from, thread).load(std::memory_order_relaxed);
      if (sent != head(self_, from, thread).load(std::memory_order_relaxed) && drain(from, thread)) any = true;
    }
  }
  return any;
}

bool Peers::drain(NodeId from, unsigned thread) noexcept {
  std::atomic<std::uint32_t>& draining = draining_[std::size_t{from} * options_.threads + thread];
  if (draining.load(std::memory_order_relaxed) != 0 || draining.exchange(1, std::memory_order_acquire) != 0) {
    return false;
  }
  const std::byte* const begin = ring(self_, from, thread);
  std::atomic<std::uint64_t>& handled = head(self_, from, thread);
  std::uint64_t at = handled.load(std::memory_order_relaxed);
  unsigned messages = 0;
  while (messages < kMessagesAtOnce && at != tail(self_, from, thread).load(std::memory_order_acquire)) {
    MessageHead message;
    std::memcpy(&message, begin + at % options_.ring_bytes, sizeof(message));
    if (message.bytes == kSkip) {
      at = round_up(at + 1, options_.ring_bytes);
      continue;
    }
    const std::byte* const bytes = begin + at % options_.ring_bytes + sizeof(message);
    handler_->handle(Call{from, std::uint16_t(thread), message.number}, {bytes, message.bytes});
    at += round_up(sizeof(message) + message.bytes, kLine);
    handled.store(at, std::memory_order_release);
    ++messages;
  }
  draining.store(0, std::memory_order_release);
  return messages > 0;
}

}  // namespace atoll::bench::tpcc
