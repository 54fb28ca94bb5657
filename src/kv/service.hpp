// What the sessions of one node share: the map, the clock, the limits, the figures of INFO.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "atoll/hash_map.hpp"
#include "atoll/node.hpp"
#include "kv/limits.hpp"

namespace atoll::kv {

/// What happened, counted since the start.
struct Counts {
  std::uint64_t commands = 0;
  std::uint64_t hits = 0, misses = 0;
  std::uint64_t expired = 0;
  std::uint64_t connections = 0, rejected = 0;
  std::uint64_t cut_for_output = 0, cut_for_time = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;
};

/// Unix time in milliseconds.
using Clock = std::function<std::int64_t()>;
[[nodiscard]] std::int64_t system_clock_ms();

struct ServiceOptions {
  Limits limits;
  std::string password;  // empty: none is needed
  std::string bind = "127.0.0.1";
  std::uint16_t port = 0;
  std::string version;  // of Atoll
  Clock clock = system_clock_ms;
};

/// Thread-safety: every method may be called from any thread.
class Service {
 public:
  Service(Node& node, HashMap& map, ServiceOptions options);

  [[nodiscard]] Node& node() noexcept { return node_; }
  [[nodiscard]] HashMap& map() noexcept { return map_; }
  [[nodiscard]] const ServiceOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Limits& limits() const noexcept { return options_.limits; }
  [[nodiscard]] std::int64_t now() const { return options_.clock(); }
  [[nodiscard]] std::int64_t uptime_ms() const { return now() - started_; }

  [[nodiscard]] std::uint64_t next_client_id() noexcept { return ++last_client_; }
  /// Takes as long for a wrong password as for the right one.
  [[nodiscard]] bool is_password(std::string_view given) const noexcept;

  /// False: there are as many as there may be.
  bool add_client() noexcept;
  void remove_client() noexcept { clients_.fetch_sub(1, std::memory_order_relaxed); }
  [[nodiscard]] std::size_t clients() const noexcept { return clients_.load(std::memory_order_relaxed); }

  /// Clients have so many bytes more, or less. What all have now.
  std::size_t hold(std::ptrdiff_t more) noexcept {
    return held_.fetch_add(std::size_t(more), std::memory_order_relaxed) + std::size_t(more);
  }

  /// Adds what a worker has counted, and sets that back to 0.
  void add(Counts& counted) noexcept;
  [[nodiscard]] Counts counts() const noexcept;

 private:
  static constexpr std::size_t kCounts = sizeof(Counts) / sizeof(std::uint64_t);

  Node& node_;
  HashMap& map_;
  const ServiceOptions options_;
  const std::int64_t started_;
  std::atomic<std::uint64_t> last_client_{0};
  std::atomic<std::size_t> clients_{0};
  std::atomic<std::size_t> held_{0};
  std::atomic<std::uint64_t> counts_[kCounts] = {};
};

/// What one thread needs to run commands.
///
/// Thread-safety: none; each thread has its own.
struct Worker {
  explicit Worker(Service& of) : service(of) {}
  Service& service;
  Counts counts;        // not yet added to the service's
  std::string value;    // a value that was read
  std::string encoded;  // one that is to be written
  std::string text;     // one that a command makes
};

}  // namespace atoll::kv
