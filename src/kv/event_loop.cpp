#include "kv/event_loop.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"

namespace atoll::kv {
namespace {

constexpr int kMaxEvents = 256;
constexpr int kMaxAccepted = 64;  // in a round
constexpr std::chrono::milliseconds kTick{100};
constexpr unsigned kTicksPerCheck = 10;

base::Fd checked(int fd, const char* what) {
  if (fd < 0) throw Error(fmt::format("{}: {}", what, std::strerror(errno)));
  return base::Fd(fd);
}

}  // namespace

EventLoop::EventLoop(Service& service)
    : service_(service),
      worker_(service),
      batch_(worker_),
      sweeper_(worker_),
      epoll_(checked(::epoll_create1(EPOLL_CLOEXEC), "cannot make an epoll descriptor")),
      wake_(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "cannot make an event descriptor")),
      now_(std::chrono::steady_clock::now()),
      next_tick_(now_ + kTick) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = this;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    throw Error(fmt::format("epoll: {}", std::strerror(errno)));
  }
}

EventLoop::~EventLoop() {
  for (std::size_t i = 0; i < connections_.size(); ++i) service_.remove_client();
  service_.add(worker_.counts);
}

void EventLoop::listen(int socket, std::vector<EventLoop*> loops) {
  listener_ = socket;
  loops_ = std::move(loops);
  accept_more();
}

void EventLoop::stop() noexcept {
  stopping_.store(true);
  wake();
}

void EventLoop::wake() noexcept {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
}

void EventLoop::add(base::Fd socket) {
  {
    const base::MutexLock lock(mutex_);
    added_.push_back(std::move(socket));
  }
  wake();
}

void EventLoop::run() {
  while (!stopping_.load()) {
    wait_for_events();
    run_requests();
    send_answers();
    drop_closed();
    service_.add(worker_.counts);
  }
}

void EventLoop::drop_closed() {
  if (closed_.empty()) return;
  std::erase_if(waiting_, [](const Connection* connection) { return connection->gone; });
  for (Connection* const connection : closed_) connections_.erase(connection);
  closed_.clear();
}

void EventLoop::wait_for_events() {
  using namespace std::chrono;
  int timeout = int(std::max<std::int64_t>(0, duration_cast<milliseconds>(next_tick_ - now_).count() + 1));
  if (!waiting_.empty() || sweep_soon_) timeout = 0;
  epoll_event events[kMaxEvents];
  const int count = ::epoll_wait(epoll_.get(), events, kMaxEvents, timeout);
  now_ = steady_clock::now();
  ready_.swap(waiting_);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.ptr == this) {
      std::uint64_t ignored = 0;
      (void)!::read(wake_.get(), &ignored, sizeof(ignored));
      take_added();
    } else if (events[i].data.ptr == &listener_) {
      accept_clients();
    } else {
      on_event(*static_cast<Connection*>(events[i].data.ptr), events[i].events);
    }
  }
  if (now_ >= next_tick_ || sweep_soon_) on_tick();
}

void EventLoop::accept_more() {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &listener_;
  accepting_ = ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_, &event) == 0;
}

void EventLoop::accept_clients() {
  for (int i = 0; i < kMaxAccepted; ++i) {
    base::Fd socket(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      accept_one(std::move(socket));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      spdlog::warn("kv: cannot accept a client: {}; trying again soon", std::strerror(errno));
      (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_, nullptr);
      accepting_ = false;  // until the next tick
    }
    if (errno != EINTR && errno != ECONNABORTED) return;
  }
}

void EventLoop::accept_one(base::Fd socket) {
  ++worker_.counts.connections;
  if (!service_.add_client()) {
    ++worker_.counts.rejected;
    constexpr std::string_view kFull = "-ERR max number of clients reached\r\n";
    (void)!::send(socket.get(), kFull.data(), kFull.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return;
  }
  const int on = 1;
  (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  loops_[next_loop_++ % loops_.size()]->add(std::move(socket));
}

void EventLoop::take_added() {
  std::vector<base::Fd> added;
  {
    const base::MutexLock lock(mutex_);
    added.swap(added_);
  }
  for (base::Fd& socket : added) {
    auto made = std::make_unique<Connection>(worker_, std::move(socket), now_);
    epoll_event event{};
    event.events = made->interest = EPOLLIN;
    event.data.ptr = made.get();
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, made->socket(), &event) != 0) {
      spdlog::warn("kv: cannot wait for a client: {}", std::strerror(errno));
      service_.remove_client();
      continue;
    }
    Connection* const connection = made.get();
    connections_.emplace(connection, std::move(made));
  }
}

void EventLoop::on_event(Connection& connection, std::uint32_t events) {
  if (connection.gone) return;
  if ((events & (EPOLLERR | EPOLLHUP)) != 0 && (events & EPOLLIN) == 0) return close(connection);
  // One that has requests left is not read from: they are views of what has been read.
  if ((events & EPOLLIN) != 0 && connection.progress == Session::Progress::kIdle) {
    pool_.lend(connection.session.in());
    if (!connection.receive(worker_.counts)) return close(connection);
    connection.last_request = now_;
  }
  if (!connection.listed) ready_.push_back(&connection);
  connection.listed = true;
}

/// Goes over the clients again and again until none can go on. Each adds what it can to the batch, and goes on when
/// that has been run.
void EventLoop::run_requests() {
  std::erase_if(ready_, [](const Connection* connection) { return connection->gone; });
  active_ = ready_;
  while (!active_.empty()) {
    for (Connection* const connection : active_) {
      pool_.lend(connection->session.out());
      connection->progress = connection->session.advance(batch_);
    }
    batch_.run();
    std::erase_if(active_,
                  [](const Connection* connection) { return connection->progress != Session::Progress::kAgain; });
  }
}

void EventLoop::send_answers() {
  for (Connection* const connection : ready_) {
    connection->listed = false;
    if (connection->gone) continue;
    settle(*connection);
    if (!connection->gone) account(*connection);
  }
  ready_.clear();
}

/// After a round: sends, and says what the client has to wait for.
void EventLoop::settle(Connection& connection) {
  Session& session = connection.session;
  if (session.reply().overflowed()) {
    ++worker_.counts.cut_for_output;
    spdlog::info("kv: client {} is cut: more than {} bytes wait for it", session.id(),
                 service_.limits().output_limit_bytes);
    return close(connection);
  }
  const std::size_t before = session.out().size();
  if (!connection.send(worker_.counts)) return close(connection);
  const bool blocked = !session.out().empty();
  if (blocked && (connection.interest == EPOLLIN || session.out().size() < before)) connection.last_sent = now_;
  if (!blocked && session.closing()) return close(connection);
  pool_.take_back(session.in());
  pool_.take_back(session.out());
  const std::uint32_t wanted = blocked ? EPOLLOUT : EPOLLIN;
  if (wanted != connection.interest) {
    epoll_event event{};
    event.events = wanted;
    event.data.ptr = &connection;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.socket(), &event) != 0) return close(connection);
    connection.interest = wanted;
  }
  if (blocked || connection.progress == Session::Progress::kIdle) return;
  waiting_.push_back(&connection);
  connection.listed = true;
}

/// Tells the service what the client holds now. When that is too much together, somebody has to go.
void EventLoop::account(Connection& connection) {
  const std::size_t held = connection.session.held_bytes();
  if (held == connection.held) return;
  const std::size_t all = service_.hold(std::ptrdiff_t(held) - std::ptrdiff_t(connection.held));
  connection.held = held;
  if (all > service_.limits().buffer_bytes) cut_largest();
}

/// Of this loop's clients: the others cut theirs. One that holds little is not the reason.
void EventLoop::cut_largest() {
  constexpr std::size_t kLittle = 256 << 10;
  Connection* largest = nullptr;
  for (const auto& [connection, owned] : connections_) {
    if (!connection->gone && (largest == nullptr || connection->held > largest->held)) largest = connection;
  }
  if (largest == nullptr || largest->held <= kLittle) return;
  ++worker_.counts.cut_for_output;
  spdlog::info("kv: client {} is cut: of {} bytes that clients may hold together, it holds {}", largest->session.id(),
               service_.limits().buffer_bytes, largest->held);
  close(*largest);
}

void EventLoop::close(Connection& connection) {
  if (connection.gone) return;
  connection.gone = true;
  (void)service_.hold(-std::ptrdiff_t(connection.held));
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.socket(), nullptr);
  service_.remove_client();
  closed_.push_back(&connection);
}

void EventLoop::on_tick() {
  sweep_soon_ = sweeping_ && sweeper_.tick();
  if (now_ < next_tick_) return;
  next_tick_ = now_ + kTick;
  if (listener_ >= 0 && !accepting_) accept_more();
  if (++ticks_ % kTicksPerCheck == 0) cut_slow_clients();
}

void EventLoop::cut_slow_clients() {
  const Limits& limits = service_.limits();
  for (const auto& [connection, owned] : connections_) {
    if (connection->gone) continue;
    const bool blocked = connection->interest != EPOLLIN;
    const bool stalled = blocked && now_ - connection->last_sent > limits.stalled;
    const bool idle = limits.idle.count() > 0 && !blocked && now_ - connection->last_request > limits.idle;
    if (!stalled && !idle) continue;
    ++worker_.counts.cut_for_time;
    spdlog::info("kv: client {} is cut: it {} for too long", connection->session.id(),
                 stalled ? "has not taken its answers" : "has been idle");
    close(*connection);
  }
}

}  // namespace atoll::kv
