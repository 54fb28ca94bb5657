// The coherence core of one node, whose peers send whatever the judge lets through while its own threads work. It never
// finds one of its own invariants broken, loses no operation, and goes on with lines that nobody else knows.
//
//   input = which node (1 byte) | steps
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "coherence/lock_word.hpp"
#include "coherence/protocol.hpp"
#include "step.hpp"

namespace atoll::fuzz {
namespace {

using coherence::Cold;
using coherence::LineRef;
using coherence::OpKind;

constexpr NodeId kNodes = 4;
constexpr std::size_t kMostSteps = 400;

struct FuzzOp : coherence::Op {
  FuzzOp(OpKind k, const LineRef& r) : Op(k), ref(r) {}
  LineRef ref;
  std::optional<Errc> result;
};

struct Held {
  LineRef ref;
  bool exclusive;
};

/// One node: its lines, its cache slots and its threads' operations.
class World final : public coherence::Env {
 public:
  explicit World(NodeId self) : self_(self) {
    for (NodeId node = 0; node < kNodes; ++node) memory_[node] = 1 << 20;
    slots_.fill(kSlots);
  }

  void run(Input& input) {
    for (std::size_t k = 0; k < kMostSteps && !input.empty(); ++k) take_step(input.take<Step>());
    finish();
  }

  NodeId self() const noexcept override { return self_; }
  NodeId nodes() const noexcept override { return kNodes; }
  Cold& cold(const LineRef& ref) override {
    auto& cold = at(ref).cold;
    if (cold == nullptr) cold = std::make_unique<Cold>();
    return *cold;
  }
  Cold* find_cold(const LineRef& ref) noexcept override { return at(ref).cold.get(); }
  void drop_cold(const LineRef& ref) noexcept override { at(ref).cold.reset(); }

  void send(const LineRef&, NodeId to, const coherence::Message& message) override {
    ATOLL_FUZZ_CHECK(to < kNodes && to != self_ && message.from == self_);
  }
  void send_line(const LineRef& ref, NodeId to, std::uint32_t slot, const coherence::Message& message) override {
    send(ref, to, message);
    ATOLL_FUZZ_CHECK(slot < kSlots);  // else the data would go beyond the peer's cache
    ATOLL_FUZZ_CHECK(ref.is_home() || ref.line->slot != 0);
  }
  void send_home(const LineRef& ref, const coherence::Message& message) override {
    send(ref, ref.home(), message);
    ATOLL_FUZZ_CHECK(ref.line->slot != 0);
  }
  void send_write(const LineRef& ref, const coherence::Op& op, const coherence::Message& message) override {
    send(ref, ref.home(), message);
    ATOLL_FUZZ_CHECK((op.kind == OpKind::kWrite || op.kind == OpKind::kWriteAway) && ref.line->slot == 0);
  }
  void quiesce(const LineRef&) override {}
  bool take_slot(const LineRef& ref) override {
    ATOLL_FUZZ_CHECK(ref.line->slot == 0);
    if (taken_.size() >= free_slots_) return false;
    std::uint32_t slot = 1;
    while (taken_.contains(slot)) ++slot;
    taken_.insert(slot);
    ref.line->slot = slot;
    return true;
  }
  void release_slot(const LineRef& ref) noexcept override {
    ATOLL_FUZZ_CHECK(taken_.erase(ref.line->slot) == 1);
    ref.line->slot = 0;
    ref.line->operation.store(0, std::memory_order_relaxed);
  }
  void log_transfer(const LineRef&, NodeId owner) override { ATOLL_FUZZ_CHECK(owner < kNodes); }
  void perform(const LineRef& ref, coherence::Op& op) override {
    ATOLL_FUZZ_CHECK(!static_cast<FuzzOp&>(op).result);
    ATOLL_FUZZ_CHECK(ref.is_home() || ref.line->slot != 0);                              // there are bytes to work on
    ATOLL_FUZZ_CHECK(coherence::Protocol::allows(ref, op) || op.kind == OpKind::kRead);  // see ServeReads
  }
  void perform_for(const LineRef& ref, const coherence::Message& message) override {
    ATOLL_FUZZ_CHECK(ref.is_home() && message.from != self_);
    ATOLL_FUZZ_CHECK((coherence::Protocol::permission(ref) & detail::kWritable) != 0);
    for (const Held& held : held_) ATOLL_FUZZ_CHECK(held.ref.line != ref.line);
  }
  void clear_operands(const LineRef& ref) override { ATOLL_FUZZ_CHECK(!ref.is_home() && ref.line->slot != 0); }
  void merge(const LineRef& ref, const coherence::Message& message) override {
    ATOLL_FUZZ_CHECK(ref.is_home() && message.from != self_ &&
                     ref.line->operation.load(std::memory_order_relaxed) != 0);
    ATOLL_FUZZ_CHECK((coherence::Protocol::permission(ref) & detail::kReadable) == 0);
  }
  void complete(const LineRef& ref, coherence::Op& op, Errc result) override {
    auto& done = static_cast<FuzzOp&>(op);
    ATOLL_FUZZ_CHECK(!done.result);  // once
    done.result = result;
    const bool may_refuse = coherence::is_try(op.kind) || op.kind == OpKind::kWriteAway;
    ATOLL_FUZZ_CHECK(result != Errc::kRefused || may_refuse);
    if (!coherence::is_lock(op.kind) || result != Errc::kOk) return;
    const bool exclusive = op.kind == OpKind::kWriteLock || op.kind == OpKind::kTryWriteLock;
    for (const Held& held : held_) {
      ATOLL_FUZZ_CHECK(held.ref.line != ref.line || (!exclusive && !held.exclusive));
    }
    held_.push_back({ref, exclusive});
  }
  void fault(const LineRef&, const coherence::Message& message, const char* why) override {
    ATOLL_FUZZ_CHECK(why != nullptr && *why != '\0' && message.from < kNodes);
    ATOLL_FUZZ_CHECK(message.from != self_);  // our own wish makes sense
    cut_off_.insert(message.from);
    (void)coherence::to_string(message);
  }
  void broken(const LineRef&, const char* what) override {
    std::fprintf(stderr, "broken: %s\n", what);
    ATOLL_FUZZ_CHECK(!"an invariant of the core is broken by a peer's message");
  }

 private:
  struct Record {
    coherence::Line line;
    coherence::DirEntry entry;
    std::unique_ptr<Cold> cold;
  };

  Record& at(const LineRef& ref) { return lines_[ref.address.bits()]; }
  LineRef ref_of(GlobalAddress address) {
    Record& record = lines_[address.bits()];
    LineRef ref;
    ref.address = address;
    ref.line = &record.line;
    ref.hot = {record.line, nullptr, nullptr, 0};
    if (address.node() == self_) ref.directory = &record.entry;
    return ref;
  }

  void take_step(const Step& step) {
    const LineRef ref = ref_of(line_of(step, kNodes));
    switch (step.action % 8) {
      case 0:
      case 1:
      case 2: receive(message_of(step, kNodes)); break;
      case 3: submit(step, ref); break;
      case 4:
        if (!held_.empty()) unlock(step.slot % held_.size());
        break;
      case 5: (void)protocol_.evict(ref); break;
      case 6:
        if (step.kind % 4 == 0) free_slots_ = step.slot % 8;  // slots come and go with other lines
        if (step.kind % 4 == 1) protocol_.pursue(ref);
        if (step.kind % 4 == 2) (void)protocol_.read_ahead(ref);
        if (step.kind % 4 == 3) protocol_.give_up(ref, Errc::kCacheFull);
        break;
      case 7:
        if (!ops_.empty()) cancel(*ops_[step.argument % ops_.size()]);
        break;
    }
  }

  /// As the runtime does it: judged, and nothing from who was cut off.
  void receive(const wire::Message& message) {
    if (message.from == self_ || cut_off_.contains(message.from) || !wire::is_line_kind(message.kind)) return;
    static constexpr std::array<std::uint32_t, kNodes> kEpochs = {1, 1, 1, 1};
    const wire::Limits limits{kNodes, self_, kEpochs.data(), kLineBytes, slots_.data(), memory_.data()};
    const char* why = nullptr;
    if (wire::judge(message, message.from, limits, &why) != wire::Verdict::kGood) {
      cut_off_.insert(message.from);
      return;
    }
    for (std::uint8_t i = 0; i < message.count; ++i) {
      const LineRef ref = ref_of(wire::line_of(message, i, kLineBytes));
      const std::uint32_t slot = wire::has_slots(message.kind) ? message.slots[i] : 0;
      const auto operation = std::uint8_t(message.kind == wire::Kind::kGetOperated ? message.argument : 0);
      const bool is_try = wire::has_slots(message.kind) && (message.flags & wire::kTry) != 0;
      protocol_.receive(ref, {message.kind, is_try, message.from, message.requester, slot, operation});
    }
  }

  FuzzOp& submit(const Step& step, const LineRef& ref) {
    FuzzOp& op = *ops_.emplace_back(std::make_unique<FuzzOp>(OpKind(step.kind % 9), ref));
    for (const Held& held : held_) op.under_lock = op.under_lock || held.ref.line == ref.line;
    op.may_leave = op.kind == OpKind::kWrite && step.flags % 2 == 1;
    if (op.kind == OpKind::kOperate) op.operation = std::uint8_t(1 + step.slot % 2);
    protocol_.submit(ref, op);
    return op;
  }

  void unlock(std::size_t which) {
    const Held held = held_[which];
    held_.erase(held_.begin() + std::ptrdiff_t(which));
    if (coherence::drop_lock(held.ref.line->lock, held.exclusive)) protocol_.unlocked(held.ref);
  }

  void cancel(FuzzOp& op) {
    const bool waited = protocol_.cancel(op.ref, op);
    ATOLL_FUZZ_CHECK(waited == !op.result);  // it is done or it waits: never neither
    if (waited) op.result = Errc::kDeadline;
  }

  void finish() {
    while (!held_.empty()) unlock(held_.size() - 1);
    for (const auto& op : ops_) {
      if (!op->result) cancel(*op);
    }
    while (!held_.empty()) unlock(held_.size() - 1);  // what was waited for until just now
    Step step;
    step.kind = std::uint8_t(OpKind::kWrite);
    const LineRef own = ref_of(GlobalAddress::make(self_, 100 * kLineBytes));  // no message can name it
    ATOLL_FUZZ_CHECK(submit(step, own).result == Errc::kOk);
    ATOLL_FUZZ_CHECK(taken_.size() <= kSlots);
  }

  const NodeId self_;
  coherence::Protocol protocol_{*this};
  std::map<std::uint64_t, Record> lines_;
  std::vector<std::unique_ptr<FuzzOp>> ops_;
  std::vector<Held> held_;
  std::set<NodeId> cut_off_;
  std::set<std::uint32_t> taken_;  // slots, numbered from 1 as a line does
  std::size_t free_slots_ = 8;
  std::array<std::uint32_t, kNodes> slots_{};
  std::array<std::uint64_t, kNodes> memory_{};
};

}  // namespace
}  // namespace atoll::fuzz

using namespace atoll;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  fuzz::World world(NodeId(input.below(fuzz::kNodes)));
  world.run(input);
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  return fuzz::mutate_steps(data, size, max_size, seed, 1);
}
