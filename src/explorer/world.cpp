// The world's environment and its steps.
#include "explorer/world.hpp"

#include <fmt/format.h>

#include "coherence/lock_word.hpp"

namespace atoll::explorer {

using coherence::CacheState;
using coherence::Cold;
using coherence::DirState;
using coherence::LineRef;
using coherence::Message;
using coherence::Op;
using coherence::OpKind;
using wire::Kind;

namespace {

constexpr std::uint64_t kLineBytes = 512;
constexpr std::uint8_t kReadWrite = detail::kReadable | detail::kWritable;
constexpr std::uint8_t kAnyAccess = kReadWrite | detail::kOperable;

bool asked_exclusive(CacheState state) noexcept {
  return state == CacheState::kInvalidToDirty || state == CacheState::kInvalidToDirtyData ||
         state == CacheState::kInvalidToDirtyGrant || state == CacheState::kSharedToDirty;
}

}  // namespace

bool ModelThread::writes_pending() const noexcept {
  for (const ModelOp& write : writes) {
    if (write.pending) return true;
  }
  return false;
}

bool ModelThread::is_telling() const noexcept {
  for (const bool one : telling) {
    if (one) return true;
  }
  return false;
}

unsigned ModelThread::locks_held() const noexcept {
  unsigned count = 0;
  for (Hold hold : held) count += hold != Hold::kNone ? 1 : 0;
  return count;
}

std::uint16_t Step::pack() const noexcept {
  return std::uint16_t(unsigned(kind) | unsigned(node) << 4 | unsigned(peer) << 6 | unsigned(thread) << 8 |
                       unsigned(line) << 9 | unsigned(op) << 10 | unsigned(ask) << 14);
}

Step Step::unpack(std::uint16_t packed) noexcept {
  return {StepKind(packed & 15),         std::uint8_t(packed >> 4 & 3), std::uint8_t(packed >> 6 & 3),
          std::uint8_t(packed >> 8 & 1), std::uint8_t(packed >> 9 & 1), OpKind(packed >> 10 & 15),
          std::uint8_t(packed >> 14)};
}

/// One node's environment: the core's effects become changes of the world, and each is looked at.
class World::NodeEnv final : public coherence::Env {
 public:
  NodeEnv(World& world, NodeId self) noexcept : world_(world), self_(self) {}

  NodeId self() const noexcept override { return self_; }
  NodeId nodes() const noexcept override { return NodeId(world_.options_.nodes); }

  Cold& cold(const LineRef& ref) override {
    ModelLine& line = observe(ref);
    line.has_cold = true;
    return line.cold;
  }
  Cold* find_cold(const LineRef& ref) noexcept override {
    ModelLine& line = observe(ref);
    return line.has_cold ? &line.cold : nullptr;
  }
  void drop_cold(const LineRef& ref) noexcept override { observe(ref).has_cold = false; }

  void send(const LineRef& ref, NodeId to, const Message& message) override {
    if (to >= world_.options_.nodes || to == self_) return world_.fail("a message to nobody, or to oneself");
    if (world_.is_lost(self_, to, message.kind)) return;
    check_given(ref, to, message);
    world_.channel(self_, to).push_back({std::uint8_t(index(ref)), message});
  }
  void send_line(const LineRef& ref, NodeId to, std::uint32_t slot, const Message& message) override {
    ModelLine& target = world_.at(to, index(ref));
    if (!world_.is_alive(to)) return;
    if (target.ref.is_home() || target.line.slot != slot + 1) {
      world_.fail(fmt::format("data for line {} was written into a slot of node {} that the line does not have",
                              index(ref), to));
    }
    if (world_.data_under_way(self_, index(ref))) world_.fail("a line is sent on before it has come");
    target.fresh = observe(ref).fresh;
    target.was_fresh = mine(ref).was_fresh;
    send(ref, to, message);
  }
  void send_home(const LineRef& ref, const Message& message) override {
    if (world_.options_.logged) world_.fail("a line is written into its home's memory from elsewhere");
    if (message.kind == Kind::kCopy && world_.at(ref.home(), index(ref)).entry.state != DirState::kFetching)
      world_.fail("a copy is written into its home's memory, which does not expect it");
    if (world_.data_under_way(self_, index(ref))) world_.fail("a line is sent on before it has come");
    world_.at(ref.home(), index(ref)).fresh = observe(ref).fresh;
    send(ref, ref.home(), message);
  }

  void send_write(const LineRef& ref, const Op& op, const Message& message) override {
    if (op.kind != OpKind::kWrite && op.kind != OpKind::kWriteAway)
      world_.fail("something else than a write was sent to the home");
    send(ref, ref.home(), message);
  }

  void quiesce(const LineRef& ref) override { mine(ref).lingering = access(ref); }
  bool take_slot(const LineRef& ref) override {
    if (ref.line->slot != 0) world_.fail("a slot was taken for a line that has one");
    ref.line->slot = 1 + index(ref);
    return true;
  }
  void release_slot(const LineRef& ref) noexcept override {
    if (observe(ref).lingering != 0) world_.fail("a slot was released while threads may use it");
    if (mine(ref).operands == Operands::kSome) world_.fail("operands are thrown away");
    ref.line->slot = 0;
    ref.line->operation.store(0, std::memory_order_relaxed);
    mine(ref).operands = Operands::kNone;
    mine(ref).fresh = mine(ref).was_fresh = false;
    mine(ref).tenure = 0;
    ref.line->lives = 0;
  }
  void log_transfer(const LineRef& ref, NodeId owner) override {
    world_.logged_[index(ref)] = owner;
    if (world_.options_.logged) world_.log_owner(self_, index(ref), owner);
  }

  bool is_logged() const noexcept override { return world_.options_.logged; }
  std::uint64_t& tenure(const LineRef& ref) override {
    if (ref.is_home() || ref.line->slot == 0) world_.fail("the tenure of a line that has no slot");
    return mine(ref).tenure;
  }
  void take_home(const LineRef& ref, const Message& message) override {
    world_.take_home(self_, index(observe(ref).ref), message);
  }
  void send_settled(const LineRef& ref, NodeId to, const Message& message) override {
    if (world_.is_alive(to) && mine(ref).log.tenure <= world_.at(to, index(ref)).tenure)
      world_.fail("a return is acknowledged that is not in the log");
    const bool late = world_.options_.late_acks || world_.options_.power;
    if (!late) return send(ref, to, message);
    if (world_.is_alive(to))
      world_.late_[self_ * world_.options_.nodes + to].push_back({std::uint8_t(index(ref)), message});
  }
  bool is_settled(const LineRef& ref) override { return !world_.options_.power || !mine(ref).unsettled; }

  void perform(const LineRef& ref, Op& op) override;
  void perform_for(const LineRef& ref, const Message& message) override;
  void complete(const LineRef& ref, Op& op, Errc result) override;
  void clear_operands(const LineRef& ref) override { observe(ref).operands = Operands::kEmpty; }
  void merge(const LineRef& ref, const Message& message) override;

  void load(const LineRef& ref) override { world_.load(self_, index(ref)); }
  NodeId sharer_to_ask(const LineRef& ref) override { return world_.sharer_to_ask(index(ref)); }
  void note_held(const LineRef& ref, bool held) override { world_.note_held(self_, index(observe(ref).ref), held); }

  void fault(const LineRef& ref, const Message& message, const char* why) override {
    world_.fail(fmt::format("node {} calls a message of a correct node a fault: {} line {}: {}", self_,
                            to_string(message), index(ref), why));
  }
  void broken(const LineRef& ref, const char* what) override {
    world_.fail(fmt::format("the core's own check failed at node {}, line {}: {}", self_, index(ref), what));
  }

 private:
  static unsigned index(const LineRef& ref) noexcept { return unsigned(ref.address.offset() / kLineBytes - 1); }
  static std::uint8_t access(const LineRef& ref) noexcept { return ref.hot.access() & kAnyAccess; }
  ModelLine& mine(const LineRef& ref) const noexcept { return world_.at(self_, index(ref)); }
  /// Threads run between any two things that the core does: what is allowed now may be in use from now on.
  ModelLine& observe(const LineRef& ref) const noexcept {
    ModelLine& line = mine(ref);
    line.lingering |= access(ref);
    return line;
  }
  void check_given(const LineRef& ref, NodeId to, const Message& message);
  void write(unsigned line);
  void combine(const LineRef& ref, const ModelOp& op);

  World& world_;
  NodeId self_;
};

/// Before a permission or a copy leaves a node: no thread there still uses what the node gives up, and
/// ownership moves only when the log knows.
void World::NodeEnv::check_given(const LineRef& ref, NodeId to, const Message& message) {
  const std::uint8_t lingering = observe(ref).lingering;
  const bool exclusive = asked_exclusive(world_.at(to, index(ref)).ref.state());
  std::uint8_t allowed = kAnyAccess;
  switch (message.kind) {
    case Kind::kData:
    case Kind::kGrant:
      if (exclusive && world_.logged_[index(ref)] != to)
        world_.fail(fmt::format("a grant to node {} before its log", to));
      if (exclusive && world_.options_.logged && message.tenure != mine(ref).log.tenure)
        world_.fail(fmt::format("a grant to node {} of another tenure than the log's", to));
      allowed = exclusive ? 0 : std::uint8_t(detail::kReadable);
      if (world_.at(to, index(ref)).ref.state() == CacheState::kInvalidToOperated) allowed = detail::kOperable;
      break;
    case Kind::kOwnerData: allowed = exclusive ? 0 : std::uint8_t(detail::kReadable); break;
    case Kind::kCopy:
    case Kind::kWriteBack: allowed = detail::kReadable; break;
    case Kind::kInvalidateAck:
    case Kind::kPutShared:
    case Kind::kPutDirty:
    case Kind::kPutOperated:
    case Kind::kTransfer: allowed = 0; break;
    case Kind::kNone:
    case Kind::kGetShared:
    case Kind::kGetExclusive:
    case Kind::kUpgrade:
    case Kind::kGetOperated:
    case Kind::kWriteHome:
    case Kind::kWritten:
    case Kind::kInvalidate:
    case Kind::kForwardShared:
    case Kind::kForwardExclusive:
    case Kind::kRefused:
    case Kind::kPutAck:
    case Kind::kInvalidateRefused:
    case Kind::kOwnerRefused:
    case Kind::kAllocate:
    case Kind::kAllocateReply:
    case Kind::kFree:
    case Kind::kFreeReply:
    case Kind::kBarrierArrive:
    case Kind::kBarrierRelease:
    case Kind::kLeaving:
    case Kind::kElementLock:
    case Kind::kElementAnswer:
    case Kind::kProbe:
    case Kind::kProbeAnswer:
    case Kind::kNoCopy:
    case Kind::kFetchCopy:
    case Kind::kFailed:
    case Kind::kOffer:
    case Kind::kReportShared:
    case Kind::kReportDirty:
    case Kind::kReportEnd:
    case Kind::kOpen:
    case Kind::kWriteIf:
    case Kind::kWriteIfReply:
    case Kind::kFileCall:
    case Kind::kFileReply:
    case Kind::kCount: break;
  }
  if ((lingering & ~allowed) != 0) {
    world_.fail(fmt::format("node {} sends {} while threads of its own may still {} the line", self_,
                            to_string(message), (lingering & detail::kWritable) != 0 ? "write" : "read"));
  }
}

void World::NodeEnv::perform(const LineRef& ref, Op& op) {
  const unsigned line = index(ref);
  ModelOp& mine_op = static_cast<ModelOp&>(op);
  if (mine_op.performed) world_.fail(fmt::format("a {} of node {} was done twice", to_string(op.kind), self_));
  mine_op.performed = true;
  if (op.kind == OpKind::kOperate && (coherence::Protocol::permission(ref) & detail::kWritable) == 0) {
    return combine(ref, mine_op);
  }
  if (world_.lacks_operands(line)) {
    world_.fail(fmt::format("a {} of node {} to line {} while operands are missing", to_string(op.kind), self_, line));
  }
  if (!observe(ref).fresh) {
    world_.fail(fmt::format("a {} of node {} sees an old value of line {}", to_string(op.kind), self_, line));
  }
  if (const NodeId by = world_.tentative_[line]; by != kNoNode && by != self_) {
    world_.fail(fmt::format("a {} of node {} sees what node {} may lose", to_string(op.kind), self_, by));
  }
  if (op.kind == OpKind::kRead) {
    if (world_.thread(self_, mine_op.thread).writes[line].pending) {
      world_.fail(fmt::format("thread {} of node {} reads line {} before its own write", mine_op.thread, self_, line));
    }
    return;
  }
  write(line);
}

/// An operand, where others may combine theirs at the same time.
void World::NodeEnv::combine(const LineRef& ref, const ModelOp& op) {
  const unsigned line = index(ref);
  for (unsigned node = 0; node < world_.options_.nodes; ++node) {
    const ModelLine& other = world_.at(node, line);
    if (world_.may_read(node, line)) {
      world_.fail(fmt::format("node {} operates on line {} while node {} may read it", self_, line, node));
    }
    if (other.operands == Operands::kSome && other.line.operation.load(std::memory_order_relaxed) != op.operation) {
      world_.fail(fmt::format("line {} is operated by two operators at once", line));
    }
  }
  ModelLine& here = observe(ref);
  if (ref.line->operation.load(std::memory_order_relaxed) != op.operation)
    world_.fail("an operand for another operator than the line's");
  if (ref.is_home()) {
    if (!here.fresh) world_.fail(fmt::format("an operand of the home to an old value of line {}", line));
    world_.files_[line].fresh = false;
    return;
  }
  if (here.operands != Operands::kEmpty && here.operands != Operands::kSome) {
    world_.fail(fmt::format("an operand of node {} is combined with rubbish", self_));
  }
  here.operands = Operands::kSome;
}

void World::NodeEnv::merge(const LineRef& ref, const Message& message) {
  const unsigned line = index(ref);
  ModelLine& from = world_.at(message.from, line);
  if (from.line.slot != message.slot + 1) world_.fail("operands are taken from a slot that the line does not have");
  if (from.operands != Operands::kEmpty && from.operands != Operands::kSome) {
    world_.fail(fmt::format("node {} takes the operands of node {} twice", self_, message.from));
  }
  if (!ref.is_home() || !observe(ref).fresh) world_.fail("operands are combined with an old value");
  if (from.line.operation.load(std::memory_order_relaxed) != ref.line->operation.load(std::memory_order_relaxed))
    world_.fail("operands are taken for those of another operator");
  from.operands = Operands::kTaken;
  world_.files_[line].fresh = false;
}

void World::NodeEnv::perform_for(const LineRef& ref, const Message& message) {
  const unsigned line = index(ref);
  if (!observe(ref).fresh)
    world_.fail(fmt::format("a write for node {} to an old value of line {}", message.from, line));
  if ((coherence::Protocol::permission(ref) & detail::kWritable) == 0) {
    world_.fail(fmt::format("node {} writes line {} for node {} and must not", self_, line, message.from));
  }
  if ((ref.line->lock.load() & detail::kLockHeld) != 0) {
    world_.fail(fmt::format("node {} writes line {} for node {} although it is locked", self_, line, message.from));
  }
  if (Op* op = world_.at(message.from, line).cold.away; op != nullptr) {
    bool& performed = static_cast<ModelOp*>(op)->performed;
    if (performed) world_.fail(fmt::format("a write of node {} to line {} was done twice", message.from, line));
    performed = true;
  }
  write(line);
}

void World::NodeEnv::write(unsigned line) {
  if (world_.options_.logged) world_.log_write(self_, line);
  world_.files_[line].fresh = false;
  for (unsigned node = 0; node < world_.options_.nodes; ++node) {
    if (node == self_) continue;
    if (world_.may_read(node, line)) {
      world_.fail(fmt::format("node {} writes line {} while node {} may read it", self_, line, node));
    }
    world_.at(node, line).fresh = false;
  }
}

void World::NodeEnv::complete(const LineRef& ref, Op& op, Errc result) {
  const unsigned line = index(observe(ref).ref);
  ModelOp& done = static_cast<ModelOp&>(op);
  if (!done.pending) world_.fail("an operation completed twice");
  // Of a file that could not be read all are told who waited for it.
  const bool unread = result == Errc::kStorage && world_.failures_left_ < world_.options_.failures;
  if (result != Errc::kOk && !unread &&
      !(result == Errc::kRefused && (is_try(op.kind) || op.kind == OpKind::kWriteAway))) {
    world_.fail("an operation that must wait was refused");
  }
  if (result == Errc::kOk && !is_lock(op.kind) && !done.performed) {
    world_.fail(fmt::format("a {} of node {} completed that was not done", to_string(op.kind), self_));
  }
  if (result != Errc::kOk && done.performed) world_.fail("a write was done and refused");
  done.pending = false;
  done.performed = false;
  if (!is_lock(op.kind) || result != Errc::kOk) return;
  const bool exclusive = op.kind == OpKind::kWriteLock || op.kind == OpKind::kTryWriteLock;
  world_.thread(self_, done.thread).held[line] = exclusive ? Hold::kWrite : Hold::kRead;
}

World::World(const WorldOptions& options)
    : options_(options),
      lines_(options.nodes * options.lines),
      threads_(options.nodes * options.threads),
      channels_(options.nodes * options.nodes),
      late_(options.nodes * options.nodes) {
  if (options_.logged) options_.ops &= kOpsLogged;
  for (unsigned node = 0; node < options_.nodes; ++node) {
    envs_.push_back(std::make_unique<NodeEnv>(*this, NodeId(node)));
  }
  for (unsigned node = 0; node < options_.nodes; ++node) {
    if (options_.tables != nullptr) {
      protocols_.emplace_back(*envs_[node], *options_.tables);
    } else {
      protocols_.emplace_back(*envs_[node]);
    }
    for (unsigned line = 0; line < options_.lines; ++line) {
      ModelLine& model = at(node, line);
      model.ref.address = GlobalAddress::make(NodeId(home_of(line)), kLineBytes * (line + 1));
      model.ref.line = &model.line;
      model.ref.hot = {model.line, nullptr, nullptr, 0};
      model.ref.directory = home_of(line) == node ? &model.entry : nullptr;
      model.ref.has_file = options_.files && home_of(line) == node;
    }
    for (unsigned index = 0; index < options_.threads; ++index) {
      ModelThread& t = thread(node, index);
      const unsigned base = index * (1 + options_.lines);
      t.blocking.thread = std::uint8_t(index);
      t.blocking.index = std::uint8_t(base);
      for (unsigned line = 0; line < options_.lines; ++line) {
        t.writes[line].kind = OpKind::kWrite;
        t.writes[line].thread = std::uint8_t(index);
        t.writes[line].index = std::uint8_t(base + 1 + line);
      }
    }
  }
  reset();
}

World::~World() = default;

void World::reset() {
  for (unsigned node = 0; node < options_.nodes; ++node) {
    for (unsigned line = 0; line < options_.lines; ++line) {
      clear_line(node, line);
      ModelLine& model = at(node, line);
      const bool home = model.ref.is_home();
      model.log = model.durable = {home, home, home, kNoNode, 0};
      model.unsettled = false;
      if (!model.ref.has_file) continue;
      model.entry.state = DirState::kStored;
      model.entry.flags = coherence::kAsFiled;
      model.line.version.store(1, std::memory_order_relaxed);
      model.fresh = false;
    }
    opened_[node] = std::uint8_t((1U << options_.nodes) - 1);
  }
  for (ModelThread& t : threads_) clear_thread(t);
  for (auto& packets : channels_) packets.clear();
  for (auto& packets : late_) packets.clear();
  dead_ = 0;
  crashes_left_ = options_.crashes;
  unnoticed_ = {};
  awaits_ = {};
  tentative_.fill(kNoNode);
  files_.fill({options_.files, false, false, false});
  failures_left_ = options_.failures;
  violation_.clear();
}

ModelOp& World::op_at(unsigned node, unsigned index) noexcept {
  const unsigned per_thread = 1 + options_.lines;
  ModelThread& t = thread(node, index / per_thread);
  return index % per_thread == 0 ? t.blocking : t.writes[index % per_thread - 1];
}

void World::fail(std::string what) {
  if (violation_.empty()) violation_ = std::move(what);
}

}  // namespace atoll::explorer
