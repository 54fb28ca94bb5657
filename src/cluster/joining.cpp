// How a node joins: it is introduced to the master, and through it to its peers.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "cluster/door.hpp"
#include "cluster/key.hpp"
#include "cluster/master_membership.hpp"
#include "cluster/tcp.hpp"

namespace atoll::cluster {
namespace {

constexpr std::uint64_t kMaxHeartbeat_ms = 3'600'000;

}  // namespace

void describe_self(Peer& self, const memory::Segment& segment) {
  self.pid = ::getpid();
  self.memory_bytes = segment.memory_bytes();
  self.cache_bytes = segment.cache_bytes();
  self.line_bytes = segment.layout().line_bytes;
}

/// Throws Error.
Connection connect_master(const std::string& master, Clock::time_point deadline) {
  if (!is_tcp_address(master)) return Connection(connect_abstract(master, deadline));
  const TcpAddress address = parse_tcp_address(master, "ATOLL_MASTER");
  if (address.port == 0) throw Error(fmt::format("ATOLL_MASTER=\"{}\": nobody can listen at port 0", master));
  const std::optional<Key> key = Key::from_environment();
  if (!key) {
    throw Error(
        fmt::format("ATOLL_MASTER=\"{}\" wants the cluster key: set ATOLL_KEY_FILE to the file that `atoll key "
                    "--out FILE` made, or ATOLL_KEY to the key",
                    master));
  }
  return connect_trusted(address, *key, deadline);
}

MasterMembership::MasterMembership(const Options& options, Connection master, NodeId id, NodeId count)
    : id_(id),
      count_(count),
      join_timeout_(bounded_timeout(options.join_timeout)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      connection_(std::move(master)) {
  if (!wake_.valid()) throw Error(fmt::format("cannot make an eventfd: {}", std::strerror(errno)));
  const base::MutexLock lock(mutex_);
  poll_fd_ = connection_.fd();
  connection_.send({{"op", "join"},
                    {"node", id_},
                    {"pid", ::getpid()},
                    {"memory", options.memory_bytes},
                    {"cache", options.cache_bytes},
                    {"line", options.line_bytes},
                    {"version", kProtocolVersion}});
  const Frame frame = await_start(Clock::now() + join_timeout_, "joined");
  Fields fields(frame.body);
  const std::uint64_t nodes = fields.number("nodes");
  heartbeat_ = std::chrono::milliseconds(fields.number("heartbeat_ms", kMaxHeartbeat_ms));
  const auto doors = frame.body.find("doors");
  uses_doors_ = doors != frame.body.end() && doors->is_boolean() && doors->get<bool>();
  if (uses_doors_) local_address_ = fields.text("listens", kMaxHostNameBytes);
  if (!fields.ok()) throw Error("the master's answer makes no sense: " + fields.why());
  find_local_address();
  if (nodes != count_) {
    throw Error(fmt::format("this node was started as one of {}, but the master has {} nodes", count_, nodes));
  }
}

/// Who came over TCP knows by which of its addresses; who came by the master's own socket is on the master's host.
void MasterMembership::find_local_address() {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  const bool known = ::getsockname(poll_fd_, reinterpret_cast<sockaddr*>(&address), &bytes) == 0;
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
  if (reader_.joinable()) reader_.join();
}

void MasterMembership::wake() noexcept {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));  // full means that it rings already
}

/// The next frame while the cluster starts: `what`, or "peers". Throws Error for anything else.
Frame MasterMembership::await_start(Clock::time_point deadline, const char* what) {
  Frame frame;
  const Status status = await_frame(connection_, frame, deadline);
  if (status.code() == Errc::kDeadline) {
    throw Error(fmt::format("not all {} nodes joined within {:.1f} s; `atoll status` shows which did", count_,
                            double(join_timeout_.count()) / 1000),
                Errc::kDeadline);
  }
  if (!status.ok()) throw Error("the master was lost while joining: " + connection_.why(), Errc::kClusterDown);
  const std::string& op = frame.op();
  if (op == what || op == "peers") return frame;
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
    connection_.send(std::move(body), std::move(fds));
    roster = await_roster(deadline);
    if (uses_doors_) {
      open_doors(roster, deadline);
      connection_.send({{"op", "ready"}});
      take_epoch(await_start(deadline, "go"));  // our own door stays open until everybody is ready
    }
    exchanged_ = true;
  }
  describe_self(roster.peers[id_], own);
  if (heartbeat_.count() > 0) own_ = std::move(own);
  events_ = std::move(events);
  reader_ = std::thread([this] { read_loop(); });
  return std::move(roster.peers);
}

void MasterMembership::take_epoch(const Frame& frame) {
  Fields fields(frame.body);
  epoch_ = std::uint32_t(fields.number("epoch", UINT32_MAX));
  if (!fields.ok()) throw Error("the master's roster makes no sense: " + fields.why());
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
    take_epoch(frame);
    break;
  }
  for (std::size_t k = 0; k < count_; ++k) {
    if (!roster.named[k]) throw Error(fmt::format("the roster lacks node {}", k));
  }
  return roster;
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
