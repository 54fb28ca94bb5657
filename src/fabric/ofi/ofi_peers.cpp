// Who the peers are: meeting them, losing one, and having it back.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "fabric/ofi/frames.hpp"
#include "fabric/ofi/ofi_fabric.hpp"

namespace atoll::fabric {
namespace {

using Clock = std::chrono::steady_clock;
using wire::Message;

constexpr int kMostLeftOver = 4096;  // looks at the queue for what a peer's last life has sent

}  // namespace

Introduced OfiFabric::introduce(NodeId node, const OfiAddress& address) {
  if (address.name.size() != endpoint_.name().size()) {
    throw Error(
        fmt::format("node {} has an address of another kind than this one; give both one of the same family", node));
  }
  return {address, endpoint_.insert_peer(address.name)};
}

void OfiFabric::present(NodeId node, const Introduced& introduced) {
  Peer& peer = peers_[node];
  peer.address = introduced.address;
  peer.handle = introduced.handle;
  peer.next_sent = first_number(cookie_, peer.address.cookie);
  peer.next_received = first_number(peer.address.cookie, cookie_);
  peer.present = true;
}

void OfiFabric::greet(NodeId node) {
  Message hello;
  hello.from = self_;
  hello.argument = kHello;
  stage(node, hello);
}

void OfiFabric::meet(Clock::time_point deadline, const std::function<bool(NodeId)>& is_dead) {
  for (NodeId node = 0; node < peers_.size(); ++node) {
    if (peers_[node].present) greet(node);
  }
  const auto missing = [&] {
    for (NodeId node = 0; node < peers_.size(); ++node) {
      const Peer& peer = peers_[node];
      // Its hello is here and ours is out: nobody need wait for the other.
      if (peer.present && (!peer.met || !peer.queue.empty()) && !is_dead(node)) return node;
    }
    return kNoNode;
  };
  const auto give_up = [&](NodeId node, const std::string& why) {
    throw Error(
        fmt::format("node {} cannot be reached over {}: {}. Does a firewall stand in the way, or has it given an "
                    "address that is not reachable from here?",
                    node, endpoint_.describe(), why),
        Errc::kDeadline);
  };
  flush_out();
  while (missing() != kNoNode) {
    // The node is not ready yet to be told of it; one whose death it knows is no reason to give up.
    for (const auto& [node, error] : broken_) {
      if (!is_dead(node)) give_up(node, ofi_library().strerror(error));
    }
    if (Clock::now() > deadline) give_up(missing(), "no word of it came in time");
    if (!read_queue()) wait(10);
    flush_out();
  }
}

void OfiFabric::forget(NodeId node) noexcept {
  Peer& peer = peers_[node];
  if (!peer.present) return;
  peer.present = false;
  if (peer.frame != nullptr) TxPool::give_back(*std::exchange(peer.frame, nullptr));
  if (peer.line) TxPool::give_back(*peer.line->buffer);
  peer.line.reset();
  if (peer.run) TxPool::give_back(*peer.run->buffer);
  peer.run.reset();
  peer.staged_count = 0;
  for (const Outgoing& out : peer.queue) TxPool::give_back(*out.buffer);
  peer.queue.clear();
  drop_arrived(node);
}

/// What came of a peer and was not taken out yet.
void OfiFabric::drop_arrived(NodeId from) {
  const auto sender = [](const RxBuffer& frame) {
    Message first;
    std::memcpy(&first, frame.data, sizeof(first));
    return first.from;
  };
  std::erase_if(arrived_, [&](const Arrived& each) {
    const NodeId of = each.frame == nullptr ? NodeId(each.notice >> kNoticeSlotBits) : sender(*each.frame);
    if (of == from && each.frame != nullptr) listen(*each.frame);
    return of == from;
  });
  if (current_ != nullptr && sender(*current_) == from) listen(*std::exchange(current_, nullptr));
  const auto is_of = [&](std::uint64_t key) { return NodeId(key >> 32) == from; };
  std::erase_if(lines_, [&](const auto& entry) { return is_of(entry.first); });
  std::erase_if(fetched_, is_of);
}

/// What the last life has sent, and its host has delivered since, is still with the provider: it is taken out while it
/// counts as a stranger's. Not for ever, for real strangers may send as fast as we drop; notices that came even later
/// are dropped until the new process has greeted.
void OfiFabric::readmit(NodeId node, const Introduced& introduced) noexcept {
  forget(node);
  for (int looks = 0; looks < kMostLeftOver && read_queue(); ++looks) continue;
  Peer& peer = peers_[node];
  // A provider may never say what became of what was under way when a connection ended (over tcp, libfabric 1.17 was
  // not seen to). That of the life before the last is over for as long as the last one took: its buffers are ours.
  while (peer.last_life.oldest != nullptr) release_until(*peer.last_life.oldest);
  for (TxBuffer* each = peer.issued.oldest; each != nullptr; each = each->next) each->of_last_life = true;
  Peer next;
  next.last_life = peer.issued;
  next.touched = peer.touched;
  if (peer.handle != FI_ADDR_UNSPEC) endpoint_.remove_peer(peer.handle);
  peer = std::move(next);
  std::erase_if(broken_, [&](const auto& each) { return each.first == node; });
  present(node, introduced);
  greet(node);
  flush_out();
}

}  // namespace atoll::fabric
