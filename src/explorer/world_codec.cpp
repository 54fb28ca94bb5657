// A state as bytes: the same state is always the same bytes, whatever path led to it.
//
// Left out on purpose: DirEntry::transfers (a counter without bound that decides nothing), DirEntry::slot while
// nobody is remembered, Cold::held while nothing is held, and everything that the core does not read.
#include "explorer/world.hpp"

namespace atoll::explorer {

using coherence::CacheState;
using coherence::DirState;
using coherence::Message;
using coherence::Op;
using coherence::OpKind;
using coherence::OpQueue;

namespace {

constexpr std::uint8_t kNobody = 15;  // kNoNode in four bits

std::uint8_t pack_node(NodeId node) noexcept {
  return node == kNoNode ? kNobody : std::uint8_t(node);
}
NodeId unpack_node(unsigned bits) noexcept {
  return bits == kNobody ? kNoNode : NodeId(bits);
}

void put_message(const Message& message, std::vector<std::uint8_t>& out) {
  out.push_back(std::uint8_t(unsigned(message.kind) | (message.is_try ? 0x80U : 0U)));
  out.push_back(std::uint8_t(pack_node(message.from) | pack_node(message.requester) << 4));
  out.push_back(std::uint8_t(message.slot | unsigned(message.operation) << 4));
}

void put_queue(const OpQueue& queue, std::vector<std::uint8_t>& out) {
  const std::size_t count_at = out.size();
  out.push_back(0);
  for (const Op* op = queue.front(); op != nullptr; op = op->next) {
    out.push_back(static_cast<const ModelOp*>(op)->index);
    ++out[count_at];
  }
}

}  // namespace

struct World::Cursor {
  const std::uint8_t* at;
  std::uint8_t next() noexcept { return *at++; }
  Message message() noexcept {
    const std::uint8_t kind = next();
    const std::uint8_t nodes = next();
    const std::uint8_t slot = next();
    return {wire::Kind(kind & 0x7f),  (kind & 0x80) != 0, unpack_node(nodes & 15U),
            unpack_node(nodes >> 4U), slot & 15U,         std::uint8_t(slot >> 4U)};
  }
};

void World::encode(std::vector<std::uint8_t>& out) const {
  out.clear();
  for (unsigned node = 0; node < options_.nodes; ++node) {
    for (unsigned line = 0; line < options_.lines; ++line) encode_line(node, line, out);
  }
  for (const ModelThread& t : threads_) encode_thread(t, out);
  for (const auto& packets : channels_) {
    out.push_back(std::uint8_t(packets.size()));
    for (const Packet& packet : packets) {
      out.push_back(packet.line);
      put_message(packet.message, out);
    }
  }
}

void World::decode(std::span<const std::uint8_t> bytes) {
  Cursor in{bytes.data()};
  for (unsigned node = 0; node < options_.nodes; ++node) {
    for (unsigned line = 0; line < options_.lines; ++line) decode_line(node, line, in);
  }
  for (ModelThread& t : threads_) decode_thread(t, in);
  for (auto& packets : channels_) {
    packets.clear();
    for (unsigned count = in.next(); count > 0; --count) {
      const std::uint8_t line = in.next();
      packets.push_back({line, in.message()});
    }
  }
  violation_.clear();
}

void World::encode_line(unsigned node, unsigned line, std::vector<std::uint8_t>& out) const {
  const ModelLine& model = at(node, line);
  const std::uint32_t word = model.line.lock.load(std::memory_order_relaxed);
  const unsigned access = model.ref.hot.access();
  out.push_back(std::uint8_t((access & 3U) | (model.lingering & 3U) << 2 | (model.fresh ? 16U : 0U) |
                             (model.has_cold ? 32U : 0U) | (model.line.slot != 0 ? 64U : 0U) |
                             (model.line.version.load(std::memory_order_relaxed) & 1U) << 7));
  out.push_back(std::uint8_t((word & detail::kLockReaders) | ((word & detail::kLockWriter) != 0 ? 64U : 0U) |
                             ((word & detail::kLockWaiters) != 0 ? 128U : 0U)));
  out.push_back(model.line.use);
  out.push_back(std::uint8_t((access >> 2 & 1U) | (model.lingering >> 2 & 1U) << 1 | unsigned(model.operands) << 2 |
                             (model.line.operation.load(std::memory_order_relaxed) & 3U) << 4 |
                             (model.entry.operation & 3U) << 6));
  if (model.ref.is_home()) {
    const coherence::DirEntry& entry = model.entry;
    out.push_back(std::uint8_t(unsigned(entry.state) | unsigned(entry.flags) << 4));
    out.push_back(std::uint8_t(pack_node(entry.owner) | pack_node(entry.requester) << 4));
    out.push_back(std::uint8_t(entry.sharers | std::uint64_t(entry.acks_left) << 4));
    out.push_back(entry.requester == kNoNode ? std::uint8_t{0} : std::uint8_t(entry.slot));
  } else {
    out.push_back(model.line.state);
  }
  if (!model.has_cold) return;
  const coherence::Cold& cold = model.cold;
  out.push_back(std::uint8_t((cold.has_held ? 1U : 0U) | (cold.local_queued ? 2U : 0U) |
                             (cold.trying != nullptr ? 4U : 0U) | (cold.away != nullptr ? 8U : 0U)));
  put_queue(cold.memory, out);
  put_queue(cold.locks, out);
  if (cold.trying != nullptr) out.push_back(static_cast<const ModelOp*>(cold.trying)->index);
  if (cold.away != nullptr) out.push_back(static_cast<const ModelOp*>(cold.away)->index);
  if (cold.has_held) put_message(cold.held, out);
  if (!model.ref.is_home()) return;
  out.push_back(std::uint8_t(cold.requests.size()));
  for (const Message& message : cold.requests) put_message(message, out);
}

void World::decode_line(unsigned node, unsigned line, Cursor& in) {
  clear_line(node, line);
  ModelLine& model = at(node, line);
  const unsigned bits = in.next();
  model.lingering = std::uint8_t(bits >> 2 & 3U);
  model.fresh = (bits & 16U) != 0;
  model.has_cold = (bits & 32U) != 0;
  if ((bits & 64U) != 0) {
    model.line.slot = 1 + line;
  }
  const unsigned word = in.next();
  model.line.lock.store(
      (word & 63U) | ((word & 64U) != 0 ? detail::kLockWriter : 0U) | ((word & 128U) != 0 ? detail::kLockWaiters : 0U),
      std::memory_order_relaxed);
  model.line.use = in.next();
  const unsigned operated = in.next();
  model.ref.hot.set_access(std::uint8_t((bits & 3U) | (operated & 1U) << 2));
  model.lingering = std::uint8_t(model.lingering | (operated >> 1 & 1U) << 2);
  model.operands = Operands(operated >> 2 & 3U);
  model.line.operation.store(std::uint8_t(operated >> 4 & 3U), std::memory_order_relaxed);
  model.entry.operation = operated >> 6;
  if (model.ref.is_home()) {
    const unsigned state = in.next();
    const unsigned nodes = in.next();
    const unsigned sharers = in.next();
    model.entry.state = DirState(state & 15U);
    model.entry.flags = std::uint8_t(state >> 4);
    model.entry.owner = unpack_node(nodes & 15U);
    model.entry.requester = unpack_node(nodes >> 4);
    model.entry.sharers = sharers & 15U;
    model.entry.acks_left = std::uint16_t(sharers >> 4);
    model.entry.slot = in.next();
    model.line.version.store(bits >> 7, std::memory_order_relaxed);
  } else {
    model.line.state = in.next();
  }
  if (!model.has_cold) return;
  const unsigned parts = in.next();
  for (unsigned count = in.next(); count > 0; --count) model.cold.memory.push(op_at(node, in.next()));
  for (unsigned count = in.next(); count > 0; --count) model.cold.locks.push(op_at(node, in.next()));
  if ((parts & 4U) != 0) model.cold.trying = &op_at(node, in.next());
  if ((parts & 8U) != 0) model.cold.away = &op_at(node, in.next());
  model.cold.local_queued = (parts & 2U) != 0;
  model.cold.has_held = (parts & 1U) != 0;
  if (model.cold.has_held) model.cold.held = in.message();
  if (!model.ref.is_home()) return;
  for (unsigned count = in.next(); count > 0; --count) model.cold.requests.push_back(in.message());
}

void World::encode_thread(const ModelThread& t, std::vector<std::uint8_t>& out) const {
  out.push_back(t.blocking.pending
                    ? std::uint8_t(1U + unsigned(t.blocking.kind) + t.blocking_line * 16U + t.blocking.operation * 32U)
                    : std::uint8_t{0});
  unsigned bits = 0;
  for (unsigned line = 0; line < options_.lines; ++line) {
    bits |= (unsigned(t.held[line]) | (t.writes[line].pending ? 4U : 0U)) << (3 * line);
    bits |= (t.writes[line].performed ? 64U : 0U) << line;  // by the home; we do not know yet
  }
  out.push_back(std::uint8_t(bits));
  out.push_back(std::uint8_t((t.telling[0] ? 1U : 0U) | (t.telling[1] ? 2U : 0U) | (t.blocking.performed ? 4U : 0U)));
}

void World::decode_thread(ModelThread& t, Cursor& in) {
  const unsigned blocking = in.next();
  t.blocking.pending = blocking != 0;
  if (blocking != 0) {
    t.blocking.kind = OpKind((blocking - 1U) & 15U);
    t.blocking_line = std::uint8_t((blocking - 1U) >> 4 & 1U);
    t.blocking.operation = std::uint8_t((blocking - 1U) >> 5);
  }
  const unsigned bits = in.next();
  for (unsigned line = 0; line < options_.lines; ++line) {
    const unsigned mine = bits >> (3 * line);
    t.held[line] = Hold(mine & 3U);
    t.writes[line].pending = (mine & 4U) != 0;
    t.writes[line].performed = (bits >> line & 64U) != 0;
  }
  const unsigned telling = in.next();
  t.telling = {(telling & 1U) != 0, (telling & 2U) != 0};
  t.blocking.performed = (telling & 4U) != 0;
}

}  // namespace atoll::explorer
