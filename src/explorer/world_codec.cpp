// A state as bytes: the same state is always the same bytes, whatever path led to it.
//
// Left out on purpose: DirEntry::transfers (a counter without bound that decides nothing), DirEntry::slot while
// nobody is remembered, Cold::held while nothing is held, and everything that the core does not read.
//
// In logged worlds tenures do decide something, but only by which is the greater one: each becomes its place among all
// that are anywhere. There is room for one between two of them, for the home's own that follows an owner's.
#include "explorer/world.hpp"

#include <algorithm>

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

std::uint8_t rank_of(std::uint64_t tenure, const std::vector<std::uint64_t>& tenures) noexcept {
  if (tenure == 0) return 0;
  return std::uint8_t(1 + (std::lower_bound(tenures.begin(), tenures.end(), tenure) - tenures.begin()));
}

/// `tenures`: all that there are; none where nothing is logged.
void put_message(const Message& message, const std::vector<std::uint64_t>& tenures, std::vector<std::uint8_t>& out) {
  out.push_back(std::uint8_t(unsigned(message.kind) | (message.is_try ? 0x80U : 0U)));
  out.push_back(std::uint8_t(pack_node(message.from) | pack_node(message.requester) << 4));
  out.push_back(std::uint8_t(message.slot | unsigned(message.operation) << 4));
  if (has_tenure(message.kind)) out.push_back(rank_of(message.tenure, tenures));
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

Message World::Cursor::message() noexcept {
  const std::uint8_t kind = next();
  const std::uint8_t nodes = next();
  const std::uint8_t slot = next();
  return {wire::Kind(kind & 0x7f),
          (kind & 0x80) != 0,
          unpack_node(nodes & 15U),
          unpack_node(nodes >> 4U),
          slot & 15U,
          std::uint8_t(slot >> 4U),
          has_tenure(wire::Kind(kind & 0x7f)) ? tenure() : 0};
}

/// Has the slot a tenure that counts?
static bool owns(CacheState state) noexcept {
  return state == CacheState::kDirty || state == CacheState::kDirtyToShared || state == CacheState::kDirtyToInvalid;
}

void World::gather_tenures(std::vector<std::uint64_t>& out) const {
  out.clear();
  if (!options_.logged) return;
  for (const ModelLine& model : lines_) {
    for (const std::uint64_t tenure : {model.entry.transfers, model.log.tenure}) out.push_back(tenure);
    if (options_.power) out.push_back(model.durable.tenure);
    if (owns(model.ref.state())) out.push_back(model.tenure);
  }
  for (const auto* all : {&channels_, &late_}) {
    for (const auto& packets : *all) {
      for (const Packet& packet : packets) out.push_back(packet.message.tenure);
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  if (!out.empty() && out.front() == 0) out.erase(out.begin());
}

void World::encode(std::vector<std::uint8_t>& out) const {
  out.clear();
  gather_tenures(tenures_);
  for (unsigned node = 0; node < options_.nodes; ++node) {
    for (unsigned line = 0; line < options_.lines; ++line) encode_line(node, line, out);
  }
  for (const ModelThread& t : threads_) encode_thread(t, out);
  const auto put_channels = [&](const std::vector<std::deque<Packet>>& channels) {
    for (const auto& packets : channels) {
      out.push_back(std::uint8_t(packets.size()));
      for (const Packet& packet : packets) {
        out.push_back(packet.line);
        put_message(packet.message, tenures_, out);
      }
    }
  };
  put_channels(channels_);
  if (options_.files) encode_files(out);
  if (!options_.logged) return;
  if (options_.late_acks || options_.power) put_channels(late_);
  encode_recovery(out);
}

void World::decode(std::span<const std::uint8_t> bytes) {
  Cursor in{bytes.data()};
  for (unsigned node = 0; node < options_.nodes; ++node) {
    for (unsigned line = 0; line < options_.lines; ++line) decode_line(node, line, in);
  }
  for (ModelThread& t : threads_) decode_thread(t, in);
  const auto take_channels = [&](std::vector<std::deque<Packet>>& channels) {
    for (auto& packets : channels) {
      packets.clear();
      for (unsigned count = in.next(); count > 0; --count) {
        const std::uint8_t line = in.next();
        packets.push_back({line, in.message()});
      }
    }
  };
  take_channels(channels_);
  if (options_.files) decode_files(in);
  if (options_.logged && (options_.late_acks || options_.power)) take_channels(late_);
  if (options_.logged) decode_recovery(in);
  violation_.clear();
}

void World::encode_recovery(std::vector<std::uint8_t>& out) const {
  out.push_back(std::uint8_t(dead_ | crashes_left_ << 4));
  for (unsigned node = 0; node < options_.nodes; ++node) {
    out.push_back(std::uint8_t(unnoticed_[node] | awaits_[node] << 4));
    out.push_back(opened_[node]);
    for (unsigned line = 0; line < options_.lines; ++line) {
      const ModelLine& model = at(node, line);
      const bool at_risk = tentative_[line] != kNoNode;
      const auto put_log = [&](const ModelLog& log) {
        out.push_back(std::uint8_t((log.any ? 1U : 0U) | (log.fresh ? 2U : 0U) | (at_risk && log.was_fresh ? 4U : 0U) |
                                   unsigned(pack_node(log.owner)) << 4));
        out.push_back(rank_of(log.tenure, tenures_));
      };
      put_log(model.log);
      if (model.ref.is_home()) out.push_back(rank_of(model.entry.transfers, tenures_));
      if (owns(model.ref.state())) out.push_back(rank_of(model.tenure, tenures_));
      if (!options_.power) continue;
      out.push_back(std::uint8_t((model.unsettled ? 1U : 0U) | (at_risk && model.was_fresh ? 2U : 0U)));
      if (model.unsettled) put_log(model.durable);
    }
  }
  for (unsigned line = 0; line < options_.lines && options_.power; ++line) out.push_back(pack_node(tentative_[line]));
}

void World::decode_recovery(Cursor& in) {
  const unsigned first = in.next();
  dead_ = std::uint8_t(first & 15U);
  crashes_left_ = first >> 4;
  for (unsigned node = 0; node < options_.nodes; ++node) {
    const unsigned sets = in.next();
    unnoticed_[node] = std::uint8_t(sets & 15U);
    awaits_[node] = std::uint8_t(sets >> 4);
    opened_[node] = in.next();
    for (unsigned line = 0; line < options_.lines; ++line) {
      ModelLine& model = at(node, line);
      const auto log = [&] {
        const unsigned bits = in.next();
        return ModelLog{(bits & 1U) != 0, (bits & 2U) != 0, (bits & 4U) != 0, unpack_node(bits >> 4), in.tenure()};
      };
      model.log = log();
      if (model.ref.is_home()) model.entry.transfers = in.tenure();
      if (owns(model.ref.state())) model.tenure = in.tenure();
      model.was_fresh = model.fresh;
      model.unsettled = false;
      if (!options_.power) continue;
      const unsigned bits = in.next();
      model.unsettled = (bits & 1U) != 0;
      model.was_fresh = (bits & 2U) != 0;
      model.durable = model.unsettled ? log() : model.log;
    }
  }
  for (unsigned line = 0; line < options_.lines && options_.power; ++line) tentative_[line] = unpack_node(in.next());
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
  out.push_back(std::uint8_t(model.line.use | (model.line.lives & detail::Line::kFetchedAhead)));
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
  if (cold.has_held) put_message(cold.held, tenures_, out);
  if (!model.ref.is_home()) return;
  if (options_.logged) out.push_back(std::uint8_t(cold.unanswered));
  out.push_back(std::uint8_t(cold.requests.size()));
  for (const Message& message : cold.requests) put_message(message, tenures_, out);
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
  const unsigned use = in.next();
  model.line.use = use & 3U;
  model.line.lives = std::uint8_t(use & detail::Line::kFetchedAhead);
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
  if (options_.logged) model.cold.unanswered = in.next();
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
