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
#include "cluster/door.hpp"
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
  const auto deadline = Clock::now() + join_timeout_;
  memory::Segment own = memory::Segment::open(offer.segment);
  std::optional<Door> door;
  Json body = {{"op", "exchange"},
               {"address", offer.address},
               {"memory", own.memory_bytes()},
               {"cache", own.cache_bytes()},
               {"host", uses_doors_ ? host_identity() : ""}};
  std::vector<SharedFd> fds;
  if (uses_doors_) {
    door.emplace(offer.segment);
    body["door"] = door->name();
    body["token"] = door->token();
  } else {
    base::Fd copy(::fcntl(offer.segment.get(), F_DUPFD_CLOEXEC, 3));
    if (!copy.valid()) throw Error(fmt::format("cannot duplicate the segment's descriptor: {}", std::strerror(errno)));
    fds.push_back(std::make_shared<const base::Fd>(std::move(copy)));
  }
  Roster roster;
  {
    const base::MutexLock lock(mutex_);
    if (exchanged_) throw Error("a node exchanges its segment once");
    connection_->send(std::move(body), std::move(fds));
    roster = await_roster(deadline);
    if (uses_doors_) {
      open_doors(roster, deadline);
      connection_->send({{"op", "ready"}});
      (void)await_start(deadline, "go");  // our own door stays open until everybody is ready
    }
    await_lease(deadline);
    exchanged_ = true;
  }
  describe_self(roster.peers[id_], own);
  if (uses_doors_) own_ = std::move(own);
  events_ = std::move(events);
  reader_ = std::thread([this] { read_loop(); });
  return std::move(roster.peers);
}

MasterMembership::Roster MasterMembership::await_roster(Clock::time_point deadline) {
  Roster roster{std::vector<Peer>(count_), std::vector<bool>(count_), std::vector<DoorPlate>(count_)};
  for (std::size_t k = 0; k < count_; ++k) roster.peers[k].id = NodeId(k);
  roster.named[id_] = true;
  while (true) {
    Frame frame = await_start(deadline, "roster");
    if (frame.op() == "peers") {
      take_peers(frame, roster);
      continue;
    }
    break;
  }
  for (std::size_t k = 0; k < count_; ++k) {
    if (!roster.named[k]) throw Error(fmt::format("the roster lacks node {}", k));
  }
  return roster;
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
    if (frame.op() != "answer" && frame.op() != "death") fail_to_start(frame);
    if (const std::string why = on_frame(frame); !why.empty()) throw Error("the master makes no sense: " + why);
  }
  show_right();
  if (keeper_->fenced()) throw Error("this node was declared out while it joined", Errc::kFenced);
}

void MasterMembership::take_peers(Frame& frame, Roster& roster) const {
  const auto list = frame.body.find("peers");
  const auto count = list == frame.body.end() || !list->is_array() ? 0 : list->size();
  if (count == 0 || frame.fds.size() != (uses_doors_ ? 0 : count)) {
    throw Error("the master's roster makes no sense: its segments do not match its nodes");
  }
  for (std::size_t k = 0; k < count; ++k) {
    Fields fields((*list)[k]);
    const std::uint64_t node = fields.number("node", count_ - 1u);
    Peer peer;
    peer.id = NodeId(node);
    peer.pid = int(fields.number("pid", std::numeric_limits<int>::max()));
    peer.address = fields.text("address", kMaxAddressBytes);
    peer.memory_bytes = fields.number("memory", GlobalAddress::kOffsetMask + 1);
    peer.cache_bytes = fields.number("cache", GlobalAddress::kOffsetMask + 1);
    peer.line_bytes = std::uint32_t(fields.number("line", UINT32_MAX));
    DoorPlate door;
    if (uses_doors_ && (*list)[k].contains("door")) {
      door = {fields.printable("door", kMaxDoorBytes), fields.printable("token", kMaxDoorBytes)};
    }
    if (!fields.ok()) throw Error("the master's roster makes no sense: " + fields.why());
    if (roster.named[node]) throw Error(fmt::format("the roster names node {} twice", node));
    if (!uses_doors_) peer.segment = std::move(frame.fds[k]);
    roster.named[node] = true;
    roster.peers[node] = std::move(peer);
    roster.doors[node] = std::move(door);
  }
}

/// Gets the segments of the peers on this host.
void MasterMembership::open_doors(Roster& roster, Clock::time_point deadline) const {
  for (Peer& peer : roster.peers) {
    const DoorPlate& door = roster.doors[peer.id];
    if (door.name.empty()) continue;
    try {
      peer.segment = fetch_segment(door.name, door.token, deadline);
    } catch (const Error& error) {
      if (error.code() != Errc::kNotFound) {
        throw Error(fmt::format("cannot get the segment of node {}: {}", peer.id, error.what()), error.code());
      }
      // Two hosts that look alike (copies of one running machine), or a death, of which the master will tell.
      spdlog::info("node {} says that it is on this host: {}", peer.id, error.what());
    }
  }
}

}  // namespace atoll::cluster
