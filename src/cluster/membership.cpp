#include "cluster/membership.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <thread>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "cluster/control.hpp"
#include "cluster/door.hpp"
#include "cluster/environment.hpp"
#include "cluster/key.hpp"
#include "cluster/roots.hpp"
#include "cluster/stats_json.hpp"
#include "cluster/tcp.hpp"
#include "memory/segment.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;

// How much longer than asked a node waits for the master's answer, before it takes the master for stuck.
constexpr auto kReplySlack = 10s;
constexpr std::uint64_t kMaxHeartbeat_ms = 3'600'000;

/// What a code means when the master's answer carries it. Status holds static strings only.
Status status_of(Errc code) noexcept {
  switch (code) {
    case Errc::kOk: return {};
    case Errc::kNotFound: return {code, "no node has published that name"};
    case Errc::kDeadline: return {code, "no node published that name in time"};
    case Errc::kAlreadyExists: return {code, "the name stands for another address"};
    case Errc::kOutOfMemory: return {code, "the master keeps as many names or lookups as it can"};
    case Errc::kInvalidArgument: return {code, "the master does not take that name"};
    case Errc::kNullAddress: return {code, "a null address cannot be published"};
    case Errc::kClusterDown: return {code, "the master is lost"};
    case Errc::kBadAddress:
    case Errc::kNotAllocated:
    case Errc::kCacheFull:
    case Errc::kNotHeld:
    case Errc::kWouldDeadlock:
    case Errc::kRefused:
    case Errc::kNodeDied:
    case Errc::kInDoubt: return {code};
  }
  return {Errc::kClusterDown, "the master answers with an unknown code"};
}

void describe_self(Peer& self, const memory::Segment& segment) {
  self.pid = ::getpid();
  self.memory_bytes = segment.memory_bytes();
  self.cache_bytes = segment.cache_bytes();
  self.line_bytes = segment.layout().line_bytes;
}

/// A cluster of one: no master, names in a local table.
///
/// Thread-safety: every method may be called from any thread.
class LocalMembership final : public Membership {
 public:
  std::vector<Peer> exchange(const Offer& offer, Events /*events*/) override {
    std::vector<Peer> peers(1);
    describe_self(peers[0], memory::Segment::open(offer.segment));
    return peers;
  }
  [[nodiscard]] NodeId id() const noexcept override { return 0; }
  [[nodiscard]] NodeId count() const noexcept override { return 1; }
  [[nodiscard]] std::uint32_t epoch() const noexcept override { return 1; }

  Status publish(std::string_view name, GlobalAddress address) override {
    const base::MutexLock lock(mutex_);
    const Status status = roots_.publish(name, address);
    if (status.ok()) published_.notify_all();
    return status;
  }

  Result<GlobalAddress> lookup(std::string_view name, std::chrono::milliseconds timeout) override {
    if (const Status status = check_root_name(name); !status.ok()) return status;
    timeout = bounded_timeout(timeout);
    const auto deadline = Clock::now() + timeout;
    const base::MutexLock lock(mutex_);
    while (true) {
      if (const auto address = roots_.find(name)) return *address;
      if (timeout == 0ms) return status_of(Errc::kNotFound);
      if (Clock::now() >= deadline) return status_of(Errc::kDeadline);
      (void)published_.wait_until(mutex_, deadline);
    }
  }

  void leave() noexcept override {}

 private:
  base::Mutex mutex_;
  std::condition_variable_any published_;
  RootTable roots_ ATOLL_GUARDED_BY(mutex_);
};

/// A node that talks to a master: requests from any thread, answers and notices through a thread of its own.
///
/// Thread-safety: every method may be called from any thread; from a callback, neither leave nor the destructor.
/// Invariants:
///   1. Until `exchange` returns only the thread that joins uses the connection; from then on, the mutex guards it.
///   2. A waiting call ends with the master's answer, its own deadline, or the loss of the master.
///   3. Callbacks run without the mutex, on the reader thread, in the order of the master's notices.
class MasterMembership final : public Membership {
 public:
  MasterMembership(const Options& options, Connection master, NodeId id, NodeId count);
  ~MasterMembership() override;

  std::vector<Peer> exchange(const Offer& offer, Events events) override;
  [[nodiscard]] NodeId id() const noexcept override { return id_; }
  [[nodiscard]] NodeId count() const noexcept override { return count_; }
  [[nodiscard]] std::uint32_t epoch() const noexcept override { return epoch_.load(std::memory_order_acquire); }
  Status publish(std::string_view name, GlobalAddress address) override;
  [[nodiscard]] bool spans_hosts() const noexcept override { return uses_doors_; }
  [[nodiscard]] std::string local_address() const override { return local_address_; }
  Result<GlobalAddress> lookup(std::string_view name, std::chrono::milliseconds timeout) override;
  void leave() noexcept override;

 private:
  struct Answer {
    Errc code = Errc::kOk;
    GlobalAddress address;
  };
  struct Notice {
    NodeId node = kNoNode;  // kNoNode: the master is lost
    std::string why;
  };

  struct DoorPlate {
    std::string name, token;  // empty where there is no door
  };
  /// What the master told of the others.
  struct Roster {
    std::vector<Peer> peers;
    std::vector<bool> named;
    std::vector<DoorPlate> doors;
  };

  void find_local_address();
  Frame await_start(Clock::time_point deadline, const char* what) ATOLL_REQUIRES(mutex_);
  Roster await_roster(Clock::time_point deadline) ATOLL_REQUIRES(mutex_);
  void take_peers(Frame& frame, Roster& roster) const;
  void open_doors(Roster& roster, Clock::time_point deadline) const;
  void take_epoch(const Frame& frame);
  void beat() ATOLL_REQUIRES(mutex_);
  Result<GlobalAddress> request(Json body, std::chrono::milliseconds timeout) ATOLL_EXCLUDES(mutex_);
  void read_loop() noexcept;
  bool read_some(std::vector<Notice>& notices) ATOLL_EXCLUDES(mutex_);
  bool on_frame(const Frame& frame, std::vector<Notice>& notices) ATOLL_REQUIRES(mutex_);
  void lost(const std::string& why, std::vector<Notice>& notices) ATOLL_REQUIRES(mutex_);
  void wake() noexcept;

  const NodeId id_, count_;
  const std::chrono::milliseconds join_timeout_;
  std::atomic<std::uint32_t> epoch_{1};
  base::Fd wake_;
  // Set before the reader starts:
  Events events_;
  bool uses_doors_ = false;
  std::string local_address_;
  std::chrono::milliseconds heartbeat_{0};  // 0: none are wanted
  memory::Segment own_;  // a mapping of its own, whose counters outlive the node's; empty without heartbeats

  base::Mutex mutex_;
  std::condition_variable_any changed_;
  Connection connection_ ATOLL_GUARDED_BY(mutex_);
  std::uint64_t next_request_ ATOLL_GUARDED_BY(mutex_) = 1;
  std::map<std::uint64_t, std::optional<Answer>> requests_ ATOLL_GUARDED_BY(mutex_);  // those that wait
  bool exchanged_ ATOLL_GUARDED_BY(mutex_) = false;
  bool all_left_ ATOLL_GUARDED_BY(mutex_) = false;
  bool lost_ ATOLL_GUARDED_BY(mutex_) = false;
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
  Clock::time_point next_beat_ ATOLL_GUARDED_BY(mutex_){};
  int poll_fd_ = -1;  // the connection's, which never changes
  std::thread reader_;
};

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

// ---- requests ----

Result<GlobalAddress> MasterMembership::request(Json body, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout + kReplySlack;
  const base::MutexLock lock(mutex_);
  if (!exchanged_) return {Errc::kClusterDown, "this node has not joined yet"};
  if (lost_) return status_of(Errc::kClusterDown);
  const std::uint64_t id = next_request_++;
  body["id"] = id;
  requests_.emplace(id, std::nullopt);
  connection_.send(std::move(body));  // a failure is found, and told, by the reader
  if (connection_.wants_write() || !connection_.why().empty()) wake();
  while (!requests_.at(id) && !lost_ && Clock::now() < deadline) (void)changed_.wait_until(mutex_, deadline);
  const std::optional<Answer> answer = requests_.at(id);
  requests_.erase(id);
  if (!answer) return lost_ ? status_of(Errc::kClusterDown) : Status{Errc::kDeadline, "the master does not answer"};
  if (answer->code != Errc::kOk) return status_of(answer->code);
  return answer->address;
}

Status MasterMembership::publish(std::string_view name, GlobalAddress address) {
  if (const Status status = check_root_name(name); !status.ok()) return status;
  if (!address) return status_of(Errc::kNullAddress);
  return request({{"op", "publish"}, {"name", name}, {"address", address.bits()}}, 0ms).status();
}

Result<GlobalAddress> MasterMembership::lookup(std::string_view name, std::chrono::milliseconds timeout) {
  if (const Status status = check_root_name(name); !status.ok()) return status;
  timeout = bounded_timeout(timeout);
  const auto wait_ms = std::uint64_t(timeout.count());
  const auto found = request({{"op", "lookup"}, {"name", name}, {"timeout_ms", wait_ms}}, timeout);
  if (found.ok() && !*found) return {Errc::kClusterDown, "the master answered a lookup without an address"};
  return found;
}

void MasterMembership::leave() noexcept {
  const base::MutexLock lock(mutex_);
  if (!exchanged_) return;
  if (!lost_ && !all_left_) connection_.send({{"op", "leave"}});
  wake();
  // No deadline: others may compute for hours on this node's memory. The end of the master ends it.
  while (!all_left_ && !lost_) changed_.wait(mutex_);
}

// ---- the reader ----

void MasterMembership::read_loop() noexcept {
  std::vector<Notice> notices;
  while (true) {
    const bool more = read_some(notices);
    for (const Notice& notice : notices) {
      if (notice.node != kNoNode) {
        if (events_.on_death) events_.on_death(notice.node, notice.why);
      } else if (events_.on_master_lost) {
        events_.on_master_lost();
      }
    }
    notices.clear();
    if (!more) return;
    pollfd polls[] = {{poll_fd_, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    int timeout = -1;
    {
      const base::MutexLock lock(mutex_);
      beat();
      if (heartbeat_.count() > 0) timeout = poll_timeout(next_beat_);
      if (connection_.stalled()) {
        timeout = timeout < 0 ? 10 : std::min(timeout, 10);
      } else if (connection_.wants_write()) {
        polls[0].events |= POLLOUT;
      }
    }
    // Cannot be waited for any more: cut it, so that the next read finds the master lost.
    if (::poll(polls, 2, timeout) < 0 && errno != EINTR) (void)::shutdown(poll_fd_, SHUT_RDWR);
    std::uint64_t rung = 0;
    if (polls[1].revents != 0) (void)!::read(wake_.get(), &rung, sizeof(rung));
  }
}

/// Says that this node lives, when it is time to.
void MasterMembership::beat() {
  const auto now = Clock::now();
  if (heartbeat_.count() == 0 || now < next_beat_) return;
  next_beat_ = now + heartbeat_;
  connection_.send({{"op", "heartbeat"}, {"counters", counters_to_json(own_.header().counters.snapshot())}});
}

/// Reads and handles what has come. False when nothing more will come, or nobody wants it.
bool MasterMembership::read_some(std::vector<Notice>& notices) {
  const base::MutexLock lock(mutex_);
  (void)connection_.flush();  // if it is broken, the loop below finds out after the last frame
  Frame frame;
  while (!stopping_) {
    switch (connection_.next(frame)) {
      case Decoded::kFrame:
        if (!on_frame(frame, notices)) return false;
        continue;
      case Decoded::kBad: lost(connection_.why(), notices); return false;
      case Decoded::kNeedMore: break;
    }
    switch (connection_.receive()) {
      case Connection::Received::kSome: continue;
      case Connection::Received::kNothingYet: return true;
      case Connection::Received::kEnded: lost(connection_.why(), notices); return false;
    }
  }
  return false;
}

/// False when the master makes no sense and is given up.
bool MasterMembership::on_frame(const Frame& frame, std::vector<Notice>& notices) {
  const std::string& op = frame.op();
  Fields fields(frame.body);
  if (op == "reply") {
    const std::uint64_t id = fields.number("id");
    const auto code = Errc(fields.number("code", std::uint8_t(Errc::kAlreadyExists)));
    const GlobalAddress address(frame.body.contains("address") ? fields.number("address") : 0);
    const auto waiting = requests_.find(id);  // it may have given up
    if (fields.ok() && waiting != requests_.end()) waiting->second = Answer{code, address};
  } else if (op == "death") {
    const auto node = NodeId(fields.number("node", count_ - 1u));
    const auto epoch = std::uint32_t(fields.number("epoch", UINT32_MAX));
    std::string why = fields.text("why", kMaxFrameBytes);
    if (fields.ok()) {
      epoch_.store(epoch, std::memory_order_release);
      notices.push_back({node, std::move(why)});
    }
  } else if (op == "all_left") {
    all_left_ = true;
  } else {
    lost(fmt::format("it sent \"{}\", which a node does not know", clipped(op, 32)), notices);
    return false;
  }
  if (!fields.ok()) {
    lost(fmt::format("it sent a \"{}\" in which {}", op, fields.why()), notices);
    return false;
  }
  changed_.notify_all();
  return true;
}

void MasterMembership::lost(const std::string& why, std::vector<Notice>& notices) {
  lost_ = true;
  changed_.notify_all();
  if (all_left_) return;  // its end is the proper end
  spdlog::error("node {} lost the master: {}", id_, why);
  notices.push_back({kNoNode, why});
}

// ---- the environment ----

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

}  // namespace

std::unique_ptr<Membership> Membership::connect(const Options& options) {
  base::init_logging();
  const char* master = std::getenv("ATOLL_MASTER");
  if (master == nullptr) return std::make_unique<LocalMembership>();
  if (*master == '\0') {
    throw Error("ATOLL_MASTER=\"\": must be the master's address or the name of its socket, or not be set");
  }
  const Place place = place_from([](const char* name) { return std::getenv(name); });
  spdlog::info("node {} of {}, as {} say", place.node, place.nodes, place.source);
  const auto deadline = Clock::now() + bounded_timeout(options.join_timeout);
  return std::make_unique<MasterMembership>(options, connect_master(master, deadline), place.node, place.nodes);
}

}  // namespace atoll::cluster
