// A real node whose two peers are the fuzzer: they have joined as nodes do, and write what they like into the rings
// that the node gave them, while its threads work. It neither crashes nor hangs nor loses its own memory.
//
//   input = steps; a raw message follows its step with 64 bytes
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "atoll/atoll.hpp"
#include "base/futex.hpp"
#include "cluster/membership.hpp"
#include "fabric/shm/ring.hpp"
#include "memory/segment.hpp"
#include "runtime/runtime.hpp"
#include "step.hpp"

namespace atoll::fuzz {
namespace {

using namespace std::chrono_literals;
using Word = std::uint64_t;

constexpr NodeId kNodes = 3;  // 0 is real
constexpr std::size_t kMostSteps = 200;
constexpr std::uint32_t kWords = 32 * 1024;
constexpr std::uint32_t kSafe = kWords / 2;  // from here on, words that no message can name

Options small_options() {
  Options options;
  options.memory_bytes = 1 << 20;
  options.cache_bytes = kSlots * kLineBytes;
  options.line_bytes = kLineBytes;
  options.death_grace = 1ms;
  return options;
}

/// The peers' segments. The node sends and copies into them; nobody looks.
const memory::Segment& peer_segment(NodeId node) {
  static const memory::Segment segments[kNodes] = {
      {}, memory::Segment::create(small_options(), kNodes), memory::Segment::create(small_options(), kNodes)};
  return segments[node];
}

/// All have come already, and nobody waits for anybody.
class FuzzMembership final : public cluster::Membership {
 public:
  explicit FuzzMembership(memory::Segment& victim) : victim_(victim) {}
  std::vector<cluster::Peer> exchange(const cluster::Offer& offer, cluster::Events) override {
    victim_ = memory::Segment::open(offer.segment);
    std::vector<cluster::Peer> peers(kNodes);
    for (NodeId node = 0; node < kNodes; ++node) {
      peers[node].id = node;
      if (node != 0) peers[node].segment = base::Fd(::dup(peer_segment(node).fd().get()));
    }
    return peers;
  }
  NodeId id() const noexcept override { return 0; }
  NodeId count() const noexcept override { return kNodes; }
  std::uint32_t epoch() const noexcept override { return 1; }
  Status publish(std::string_view, GlobalAddress) override { return {}; }
  Result<GlobalAddress> lookup(std::string_view, std::chrono::milliseconds) override { return Errc::kNotFound; }
  void leave() noexcept override {}

 private:
  memory::Segment& victim_;
};

/// A thread of the node: it does one operation after the other, as they are ordered.
class Worker {
 public:
  explicit Worker(Node& node) : node_(node), thread_([this] { work(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  void order(const Step& step) {
    const std::lock_guard lock(mutex_);
    steps_.push_back(step);
    changed_.notify_all();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ended_ || !steps_.empty(); });
      if (steps_.empty()) break;
      const Step step = steps_.front();
      steps_.pop_front();
      lock.unlock();
      operate(step);
      lock.lock();
    }
    while (!held_.empty()) unlock();
    while (!elements_.empty()) unlock_element();
  }
  void operate(const Step& step) {
    const global_ptr<Word> at(line_of(step, kNodes));
    const std::uint64_t bytes = 8ull * (1 + step.slot);
    std::array<std::byte, 8 * 256> buffer{};
    switch (step.kind % 16) {
      case 0: (void)node_.read(at); break;
      case 1: (void)node_.write(at, Word(step.argument)); break;
      case 2: (void)node_.fetch_add(at, Word{1}); break;
      case 3: (void)node_.read(at.address(), std::span(buffer).first(bytes)); break;
      case 4: (void)node_.write(at.address(), std::span<const std::byte>(buffer).first(bytes)); break;
      case 5: (void)node_.allocate(step.argument, Placement::on(NodeId(1 + step.slot % 2))); break;
      case 6: (void)node_.free(at.address()); break;
      case 7: (void)node_.barrier(1ms); break;
      case 8: held(node_.write_lock(at.address(), bytes), at.address(), bytes); break;
      case 9: held(node_.try_read_lock(at.address(), bytes), at.address(), bytes); break;
      case 10:
        if (!held_.empty()) unlock();
        break;
      case 12:
        if (step.flags % 2 == 0) (void)node_.apply(at, op::add<Word>, step.argument);
        if (step.flags % 2 == 1) (void)node_.apply(at, op::bit_xor<Word>, step.argument);
        break;
      case 13: hold(node_.write_lock_element(at.address()), at.address()); break;
      case 14: hold(node_.try_read_lock_element(at.address()), at.address()); break;
      case 15:
        if (!elements_.empty()) unlock_element();
        break;
      default: (void)node_.fence(); break;
    }
  }
  void held(const Status& status, GlobalAddress address, std::uint64_t bytes) {
    if (status.ok()) held_.emplace_back(address, bytes);
  }
  void hold(const Status& status, GlobalAddress element) {
    if (status.ok()) elements_.push_back(element);
  }
  void unlock_element() {
    ATOLL_FUZZ_CHECK(node_.unlock_element(elements_.back()).code() != Errc::kNotHeld);
    elements_.pop_back();
  }
  void unlock() {
    // It may tell of a write that could not be done; the lock is released all the same.
    const Status status = node_.unlock(held_.back().first, held_.back().second);
    ATOLL_FUZZ_CHECK(status.code() != Errc::kNotHeld);
    held_.pop_back();
  }

  Node& node_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Step> steps_;
  std::vector<std::pair<GlobalAddress, std::uint64_t>> held_;  // locks, the thread's own
  std::vector<GlobalAddress> elements_;                        // the same of elements
  bool ended_ = false;
  std::thread thread_;
};

class Attack {
 public:
  Attack() : node_(std::make_unique<runtime::Runtime>(small_options(), std::make_unique<FuzzMembership>(victim_))) {
    const std::uint32_t slots = victim_.header().ring_slots;
    for (NodeId peer = 1; peer < kNodes; ++peer) {
      rings_[peer] = fabric::Ring(victim_.rings() + fabric::Ring::bytes(slots) * peer, slots);
    }
  }

  void run(Input& input) {
    const auto words = node_.allocate<Word>(kWords, Placement::local()).value();
    for (std::uint32_t i = kSafe; i < kWords; i += 512) ATOLL_FUZZ_CHECK(node_.write(words + i, Word(i) + 1).ok());
    {
      Worker worker(node_);
      for (std::size_t k = 0; k < kMostSteps && !input.empty(); ++k) take_step(input, worker);
      // Ends every wait for them, whatever was done before.
      for (NodeId peer = 1; peer < kNodes; ++peer) {
        wire::Message last;
        last.version = 99;
        send(peer, last);
      }
    }
    for (NodeId peer = 1; peer < kNodes; ++peer) check_cut_off(peer);
    for (std::uint32_t i = kSafe; i < kWords; i += 512) {
      const auto word = node_.read(words + i);
      ATOLL_FUZZ_CHECK(word.ok() && *word == Word(i) + 1);
    }
    const GlobalAddress own = (words + kSafe).address();
    ATOLL_FUZZ_CHECK(node_.write_lock(own, 64).ok() && node_.unlock(own, 64).ok());
    ATOLL_FUZZ_CHECK(node_.fetch_add(words + kSafe, Word{1}).ok());
  }

 private:
  void take_step(Input& input, Worker& worker) {
    const auto step = input.take<Step>();
    const auto peer = NodeId(1 + (step.who & 15) % (kNodes - 1));
    switch (step.action % 8) {
      case 0: send(peer, input.take<wire::Message>()); break;
      case 1:
      case 2: worker.order(step); break;
      case 3: std::this_thread::sleep_for(std::chrono::microseconds(step.slot)); break;
      default: {
        wire::Message message = message_of(step, kNodes);
        message.from = peer;
        send(peer, message);
      }
    }
  }

  void send(NodeId peer, const wire::Message& message) {
    (void)rings_[peer].push(message);  // who was cut off finds its ring full in the end
    victim_.header().doorbell.fetch_add(1);
    base::futex_wake(victim_.header().doorbell, 1, base::FutexScope::kShared);
  }

  void check_cut_off(NodeId peer) {
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (node_.free(GlobalAddress::make(peer, 4096)).code() != Errc::kNodeDied) {
      ATOLL_FUZZ_CHECK(std::chrono::steady_clock::now() < end);
    }
  }

  memory::Segment victim_;
  Node node_;
  std::array<fabric::Ring, kNodes> rings_;
};

}  // namespace
}  // namespace atoll::fuzz

using namespace atoll;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::quiet_logging();
  fuzz::Input input(data, size);
  fuzz::Attack attack;
  attack.run(input);
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  return fuzz::mutate_steps(data, size, max_size, seed, 0);
}
