// One thread's clients: waits for their requests, runs them together, sends the answers.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/fd.hpp"
#include "base/mutex.hpp"
#include "kv/connection.hpp"
#include "kv/sweeper.hpp"

namespace atoll::kv {

/// Thread-safety: `add` and `stop` may be called from any thread, and `stop` from a signal handler; the rest belongs to
/// the thread that calls `run`.
/// Invariants:
///   1. A session's requests run in their order. Those of different sessions that are there at the same time may run in
///   any.
///   2. While a client does not take its answers, nothing more is read from it.
class EventLoop {
 public:
  /// Throws Error.
  explicit EventLoop(Service& service);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Takes clients from this socket, which stays open meanwhile, and deals them out to `loops` in turn.
  void listen(int socket, std::vector<EventLoop*> loops);
  /// Erases what has expired from now on.
  void sweep() { sweeping_ = true; }
  /// Until `stop`.
  void run();
  void stop() noexcept;
  /// Hands over a client that has been accepted and counted.
  void add(base::Fd socket) ATOLL_EXCLUDES(mutex_);

 private:
  using Time = std::chrono::steady_clock::time_point;

  void wait_for_events();
  void accept_clients();
  void accept_one(base::Fd socket);
  void take_added() ATOLL_EXCLUDES(mutex_);
  void on_event(Connection& connection, std::uint32_t events);
  void run_requests();
  void drop_closed();
  void send_answers();
  void settle(Connection& connection);
  void account(Connection& connection);
  void cut_largest();
  void close(Connection& connection);
  void accept_more();
  void on_tick();
  void cut_slow_clients();
  void wake() noexcept;

  Service& service_;
  Worker worker_;
  Batch batch_;
  Sweeper sweeper_;
  BufferPool pool_;
  base::Fd epoll_, wake_;
  std::atomic<bool> stopping_{false};
  int listener_ = -1;
  bool accepting_ = false, sweeping_ = false, sweep_soon_ = false;
  std::vector<EventLoop*> loops_;
  std::size_t next_loop_ = 0;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> ready_;    // have requests, or answers to send, in this round
  std::vector<Connection*> waiting_;  // have requests for the next round
  std::vector<Connection*> active_;
  std::vector<Connection*> closed_;  // in this round
  Time now_;                         // as of this round
  Time next_tick_;
  unsigned ticks_ = 0;

  base::Mutex mutex_;
  std::vector<base::Fd> added_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atoll::kv
