// How a node joins: it is introduced to the master, and through it to its peers.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/boot_clock.hpp"
#include "base/log.hpp"
#include "cluster/lease_frames.hpp"
#include "cluster/master_membership.hpp"

namespace atoll::cluster {
namespace {

constexpr std::uint64_t kMaxLease_ms = kNoLease_ms;

std::uint32_t make_incarnation() {
  std::uint32_t number = 0;
  while (number == 0) fill_random({reinterpret_cast<std::uint8_t*>(&number), sizeof(number)});
  return number;
}

}  // namespace

void describe_self(Peer& self, const memory::Segment& segment) {
  self.pid = ::getpid();
  self.memory_bytes = segment.memory_bytes();
  self.cache_bytes = segment.cache_bytes();
  self.line_bytes = segment.layout().line_bytes;
}

MasterPlace find_master(const std::string& name) {
  MasterPlace place{name, std::nullopt, std::nullopt};
  if (!is_tcp_address(name)) return place;
  place.tcp = parse_tcp_address(name, "ATOLL_MASTER");
  if (place.tcp->port == 0) throw Error(fmt::format("ATOLL_MASTER=\"{}\": nobody can listen at port 0", name));
  place.key = Key::from_environment();
  if (!place.key) {
    throw Error(
        fmt::format("ATOLL_MASTER=\"{}\" wants the cluster key: set ATOLL_KEY_FILE to the file that `atoll key "
                    "--out FILE` made, or ATOLL_KEY to the key",
                    name));
  }
  return place;
}

Connection connect_master(const MasterPlace& place, Clock::time_point deadline) {
  if (!place.tcp) return Connection(connect_abstract(place.name, deadline));
  return connect_trusted(*place.tcp, *place.key, deadline);
}

MasterMembership::MasterMembership(const Options& options, MasterPlace place, NodeId id, NodeId count)
    : place_(std::move(place)),
      id_(id),
      count_(count),
      incarnation_(make_incarnation()),
      memory_bytes_(options.memory_bytes),
      cache_bytes_(options.cache_bytes),
      line_bytes_(options.line_bytes),
      join_timeout_(bounded_timeout(options.join_timeout)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_.valid()) throw Error(fmt::format("cannot make an eventfd: {}", std::strerror(errno)));
  const auto deadline = Clock::now() + join_timeout_;
  const base::MutexLock lock(mutex_);
  connection_.emplace(connect_master(place_, deadline));
  connection_->send(introduction("join"));
  take_joined(await_start(deadline, "joined"));
}

/// What a node says first, whether it comes for the first time or comes back.
Json MasterMembership::introduction(const char* op) const {
  return {{"op", op},
          {"node", id_},
          {"incarnation", incarnation_},
          {"pid", ::getpid()},
          {"memory", memory_bytes_},
          {"cache", cache_bytes_},
          {"line", line_bytes_},
          {"version", kProtocolVersion}};
}

void MasterMembership::take_joined(const Frame& frame) {
  Fields fields(frame.body);
  const std::uint64_t nodes = fields.number("nodes");
  term_ = fields.number("term");
  const std::uint64_t lease_ms = fields.number("lease_ms", kMaxLease_ms);
  const std::uint64_t grace_ms = fields.number("grace_ms", kMaxLease_ms);
  const auto flag = [&](const char* key) {
    const auto at = frame.body.find(key);
    return at != frame.body.end() && at->is_boolean() && at->get<bool>();
  };
  uses_doors_ = flag("doors");
  master_returns_ = flag("returns");
  recoverable_ = flag("recoverable");
  is_return_ = recoverable_ && flag("return");
  if (uses_doors_) local_address_ = fields.text("listens", kMaxHostNameBytes);
  if (!fields.ok()) throw Error("the master's answer makes no sense: " + fields.why());
  if (lease_ms < kShortestLease_ms) throw Error(fmt::format("the master gives leases of {} ms", lease_ms));
  find_local_address();
  if (nodes != count_) {
    throw Error(fmt::format("this node was started as one of {}, but the master has {} nodes", count_, nodes));
  }
  lease_ = std::chrono::milliseconds(lease_ms);
  keeper_.emplace(id_, incarnation_, LeaseTimes::of_ms(std::int64_t(lease_ms), std::int64_t(grace_ms)));
}

/// Who came over TCP knows by which of its addresses; who came by the master's own socket is on the master's host.
void MasterMembership::find_local_address() {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  const bool known = ::getsockname(connection_->fd(), reinterpret_cast<sockaddr*>(&address), &bytes) == 0;
  if (known && (address.ss_family == AF_INET || address.ss_family == AF_INET6)) {
    local_address_ = address_of(address).host;
  } else if (!uses_doors_) {
    local_address_ = "127.0.0.1";
  } else if (local_address_ == "0.0.0.0" || local_address_ == "::") {
    local_address_.clear();  // any: the transport looks for one
  }
}

MasterMembership::~MasterMembership() {
  {
    const base::MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake();
  changed_.notify_all();
  if (reader_.joinable()) reader_.join();
  if (finder_.joinable()) finder_.join();
}

/// The next frame while the cluster starts: `what`, or "peers". Throws Error for anything else.
Frame MasterMembership::await_start(Clock::time_point deadline, const char* what) {
  Frame frame;
  fail_unless(await_frame(*connection_, frame, deadline));
  if (frame.op() != what && frame.op() != "peers") fail_to_start(frame);
  return frame;
}

/// What a wait for the master came to, as an Error.
void MasterMembership::fail_unless(const Status& status) const {
  if (status.ok()) return;
  if (status.code() != Errc::kDeadline) {
    throw Error("the master was lost while joining: " + connection_->why(), Errc::kClusterDown);
  }
  throw Error(fmt::format("not all {} nodes joined within {:.1f} s; `atoll status` shows which did", count_,
                          double(join_timeout_.count()) / 1000),
              Errc::kDeadline);
}

void MasterMembership::fail_to_start(const Frame& frame) const {
  const std::string& op = frame.op();
  if (op != "refused" && op != "start_failed") {
    throw Error(fmt::format("the master sent \"{}\" to a node that joins", clipped(op, 32)));
  }
  Fields fields(frame.body);
  const std::string why = fields.text("why", kMaxFrameBytes);
  if (op == "refused") throw Error(fmt::format("the master refused node {}: {}", id_, why), Errc::kRefused);
  throw Error("the cluster cannot start: " + why, Errc::kNodeDied);
}

std::vector<Peer> MasterMembership::exchange(const Offer& offer, Events events) {
  // Who comes back to a cluster that runs may have to wait for others who do, and for what they recover.
  const auto patience = is_return_ ? bounded_timeout(std::chrono::milliseconds::max()) : join_timeout_;
  const auto deadline = Clock::now() + patience;
  memory::Segment own = memory::Segment::open(offer.segment);
  std::vector<Peer> peers;
  {
    const base::MutexLock lock(mutex_);
    if (exchanged_) throw Error("a node exchanges its segment once");
    send_offer(offer, own);
    await_roster(deadline);
    if (uses_doors_) {
      open_doors(deadline);
      connection_->send({{"op", "ready"}});
      (void)await_start(deadline, "go");  // our own door stays open until everybody is ready
    }
    if (!recoverable_) door_.reset();
    await_lease(deadline);
    exchanged_ = true;
    peers = gather_peers();
  }
  describe_self(peers[id_], own);
  if (uses_doors_) own_ = std::move(own);
  events_ = std::move(events);
  reader_ = std::thread([this] { read_loop(); });
  return peers;
}

void MasterMembership::send_offer(const Offer& offer, const memory::Segment& own) {
  base::Fd copy(::fcntl(offer.segment.get(), F_DUPFD_CLOEXEC, 3));
  if (!copy.valid()) throw Error(fmt::format("cannot duplicate the segment's descriptor: {}", std::strerror(errno)));
  offer_ = {{"address", offer.address}, {"host", uses_doors_ ? host_identity() : ""}};
  std::vector<SharedFd> fds;
  if (uses_doors_) {
    segment_ = std::move(copy);
    door_.emplace(segment_);
    offer_["door"] = door_->name();
    offer_["token"] = door_->token();
  } else {
    fds.push_back(std::make_shared<const base::Fd>(std::move(copy)));
  }
  Json body = offer_;
  body["op"] = "exchange";
  body["memory"] = own.memory_bytes();
  body["cache"] = own.cache_bytes();
  connection_->send(std::move(body), std::move(fds));
}

void MasterMembership::await_roster(Clock::time_point deadline) {
  while (true) {
    Frame frame = await_start(deadline, "roster");
    if (frame.op() != "peers") break;
    take_peers(frame);
  }
  for (std::size_t k = 0; k < count_ && !is_return_; ++k) {
    const auto found = arrivals_.lower_bound({NodeId(k), 0});
    const bool named = found != arrivals_.end() && found->first.first == k;
    if (k != id_ && !named) throw Error(fmt::format("the roster lacks node {}", k));
  }
}

/// Who is in now, with what the master told of their processes.
std::vector<Peer> MasterMembership::gather_peers() {
  using Kind = LeaseKeeper::Notice::Kind;
  const Epoch& epoch = keeper_->lease().epoch();
  std::vector<Peer> peers(count_);
  std::vector<LeaseKeeper::Notice> notices = keeper_->take_notices();
  for (std::size_t k = 0; k < count_; ++k) {
    const auto node = NodeId(k);
    const std::uint32_t incarnation = k < epoch.incarnations.size() ? epoch.incarnations[k] : 0;
    auto found = arrivals_.find({node, incarnation});
    const bool in = incarnation != 0;
    if (in && node != id_ && found == arrivals_.end()) {
      throw Error(fmt::format("the master let node {} in without saying where it is", node));
    }
    // Founders know of all; one that died since is told of as any other death.
    if (!in && !is_return_) found = arrivals_.lower_bound({node, 0});
    if (found != arrivals_.end() && found->first.first == node) {
      if (in) open_door(found->second, soon());
      peers[k] = std::move(found->second.peer);
    } else {
      peers[k].alive = node == id_;
    }
    peers[k].id = node;
    peers[k].epoch = in ? epoch.since[k] : 1;
    bool told = in || is_return_;  // what was told of it so far is in what is returned
    std::erase_if(notices, [&](const LeaseKeeper::Notice& notice) {
      const bool about = notice.node == node && (notice.kind == Kind::kDeath || notice.kind == Kind::kReturn);
      return about && (told || notice.kind == Kind::kReturn || !(told = true));
    });
  }
  arrivals_.clear();
  keeper_->put_back(std::move(notices));
  return peers;
}

/// A node may touch memory when the master has said so, and the master says so when all others know of this one.
void MasterMembership::await_lease(Clock::time_point deadline) {
  if (!keeper_->connected(term_, base::boot_ns())) throw Error("a node that joins obeys no master yet");
  while (keeper_->lease().state() == LeaseState::kJoining) {
    send_report();
    const auto until = std::chrono::nanoseconds(std::max<LeaseTime>(keeper_->next_look() - base::boot_ns(), 0));
    Frame frame;
    const Status status = await_frame(*connection_, frame, std::min(deadline, Clock::now() + until));
    if (status.code() == Errc::kDeadline && Clock::now() < deadline) continue;
    fail_unless(status);
    const std::string& op = frame.op();
    if (op != "answer" && op != "death" && op != "newcomer" && op != "given_up") fail_to_start(frame);
    if (const std::string why = on_frame(frame); !why.empty()) throw Error("the master makes no sense: " + why);
  }
  show_right();
  if (keeper_->fenced()) throw Error("this node was declared out while it joined", Errc::kFenced);
}

void MasterMembership::take_peers(Frame& frame) {
  const auto list = frame.body.find("peers");
  const auto count = list == frame.body.end() || !list->is_array() ? 0 : list->size();
  if (count == 0 || frame.fds.size() != (uses_doors_ ? 0 : count)) {
    throw Error("the master's roster makes no sense: its segments do not match its nodes");
  }
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t before = arrivals_.size();
    const std::string why = take_arrival((*list)[k], uses_doors_ ? base::Fd() : std::move(frame.fds[k]));
    if (!why.empty()) throw Error("the master's roster makes no sense: " + why);
    if (arrivals_.size() == before) throw Error("the roster names a node twice");
  }
}

/// Nothing when the entry makes sense, else why not.
std::string MasterMembership::take_arrival(const Json& entry, base::Fd segment) {
  Fields fields(entry);
  Arrival arrival;
  Peer& peer = arrival.peer;
  peer.id = NodeId(fields.number("node", count_ - 1u));
  const auto incarnation = std::uint32_t(fields.number("incarnation", UINT32_MAX));
  peer.epoch = std::uint32_t(fields.number("epoch", UINT32_MAX));
  peer.pid = int(fields.number("pid", std::numeric_limits<int>::max()));
  peer.address = fields.text("address", kMaxAddressBytes);
  peer.memory_bytes = fields.number("memory", GlobalAddress::kOffsetMask + 1);
  peer.cache_bytes = fields.number("cache", GlobalAddress::kOffsetMask + 1);
  peer.line_bytes = std::uint32_t(fields.number("line", UINT32_MAX));
  if (uses_doors_ && entry.contains("door")) {
    arrival.door = {fields.printable("door", kMaxDoorBytes), fields.printable("token", kMaxDoorBytes)};
  }
  if (!fields.ok()) return fields.why();
  if (incarnation == 0 || peer.id == id_) return "there is no other node's process";
  if (arrivals_.size() > 2u * count_) return "there are more processes than any cluster needs";
  peer.segment = std::move(segment);
  arrivals_[{peer.id, incarnation}] = std::move(arrival);
  return {};
}

/// Gets the segments of the peers on this host.
void MasterMembership::open_doors(Clock::time_point deadline) {
  for (auto& [who, arrival] : arrivals_) open_door(arrival, deadline);
}

void MasterMembership::open_door(Arrival& arrival, Clock::time_point deadline) const {
  if (arrival.door.name.empty()) return;
  const DoorPlate door = std::exchange(arrival.door, {});
  try {
    arrival.peer.segment = fetch_segment(door.name, door.token, deadline);
  } catch (const Error& error) {
    if (error.code() != Errc::kNotFound) {
      throw Error(fmt::format("cannot get the segment of node {}: {}", arrival.peer.id, error.what()), error.code());
    }
    // Two hosts that look alike (copies of one running machine), or a death, of which the master will tell.
    spdlog::info("node {} says that it is on this host: {}", arrival.peer.id, error.what());
  }
}

}  // namespace atoll::cluster
