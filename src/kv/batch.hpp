// Plain GETs and SETs of many clients, which go to the map together.
#pragma once

#include <string_view>
#include <vector>

#include "kv/service.hpp"

namespace atoll::kv {

class Session;

/// Collects while the sessions are gone over, then runs all of it and answers them. The misses of all are under way
/// together, and SETs of one key need its line once.
///
/// Thread-safety: none.
/// Invariant: from one session there are GETs or SETs in it, not both; so their order does not matter.
class Batch {
 public:
  explicit Batch(Worker& worker) : worker_(worker) {}

  /// The key must stay where it is until `run`.
  void add_get(Session& session, std::string_view key) {
    keys_.push_back(key);
    readers_.push_back(&session);
  }
  /// `stored` as `encode` makes it.
  void add_put(Session& session, std::string_view key, std::string_view stored) {
    pairs_.emplace_back(key, stored);
    writers_.push_back(&session);
  }
  void run();

 private:
  void run_gets();
  void run_puts();
  void put_alone(std::size_t index, bool again);
  void answer(std::size_t index, std::optional<std::string_view> stored);

  Worker& worker_;
  std::vector<std::string_view> keys_;
  std::vector<Session*> readers_;
  std::vector<HashMap::KeyValue> pairs_;
  std::vector<Session*> writers_;
  std::vector<std::size_t> expired_;  // of keys_
  static constexpr unsigned kPutsAlone = 64;
  unsigned puts_alone_ = 0;  // so many batches are put one by one
};

}  // namespace atoll::kv
