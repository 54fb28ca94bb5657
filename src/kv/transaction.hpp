// MULTI, EXEC and WATCH.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kv/command.hpp"

namespace atoll::kv {

/// What a client has queued since MULTI, and what it watches.
///
/// EXEC runs it as one step on the keys of all its commands. Commands about the map as a whole (kWholeMap) cannot be in
/// a step: what is before and what is after such a command are steps of their own.
///
/// WATCH remembers what the keys have, and EXEC compares: a key that was changed and changed back does not count.
///
/// Thread-safety: none.
class Transaction {
 public:
  [[nodiscard]] bool open() const noexcept { return open_; }
  void begin() noexcept { open_ = true; }
  /// After an error while queueing: EXEC will do nothing.
  void fail() noexcept { failed_ = open_; }
  void queue(Session& session, const Command& command, Arguments arguments);
  void watch(Session& session, Arguments keys);
  [[nodiscard]] std::size_t held_bytes() const noexcept { return queued_bytes_ + watched_bytes_; }
  void unwatch() noexcept {
    watched_.clear();
    watched_bytes_ = 0;
  }
  /// REQUIRES: open().
  void execute(Session& session);
  void discard() noexcept { *this = Transaction(); }

 private:
  struct Queued {
    const Command* command;
    std::vector<std::string> words;
    std::vector<std::string_view> arguments;  // the same
  };
  struct Watched {
    std::string key;
    std::optional<std::string> stored;
  };
  [[nodiscard]] bool too_large(Session& session) const noexcept;
  [[nodiscard]] std::size_t step_end(std::size_t first) const noexcept;
  /// Runs commands of the queue that may be in one step; with the first ones, compares what is watched. False: it has
  /// changed, or that could not be found out; the client has been told.
  bool run_step(Session& session, std::size_t first, std::size_t end);
  [[nodiscard]] Result<bool> unchanged(Worker& worker, HashMap::Step& step) const;
  void run_whole_map(Session& session, const Queued& queued);
  /// The client is to be cut, for its answer is too long already: what changes something is run all the same, but who
  /// only reads would do it for nobody.
  [[nodiscard]] static bool is_idle(Session& session, const Queued& queued) noexcept;

  bool open_ = false, failed_ = false;
  std::size_t queued_bytes_ = 0, watched_bytes_ = 0;
  std::vector<Queued> queue_;
  std::vector<Watched> watched_;
};

}  // namespace atoll::kv
