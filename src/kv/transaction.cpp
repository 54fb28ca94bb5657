#include "kv/transaction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "kv/execute.hpp"
#include "kv/handlers.hpp"
#include "kv/session.hpp"

namespace atoll::kv {
namespace {

constexpr std::size_t kQueuedOverhead = 128;  // about what a queued command costs beside its bytes

/// What is stored, unless it has expired.
std::optional<std::string_view> alive(Worker& worker, std::optional<std::string_view> stored) {
  const std::optional<Item> item = stored ? decode(*stored) : std::nullopt;
  const bool expired = item && item->expires_at != kNever && item->expires_at <= worker.service.now();
  return expired ? std::nullopt : stored;
}

}  // namespace

bool Transaction::too_large(Session& session) const noexcept {
  return queued_bytes_ + watched_bytes_ > session.service().limits().request_bytes;
}

void Transaction::queue(Session& session, const Command& command, Arguments arguments) {
  RespWriter& reply = session.reply();
  if (command.has(kNotQueued)) {
    fail();
    return reply.error("ERR Command not allowed inside a transaction");
  }
  std::vector<std::string_view> keys;
  add_keys(command, arguments, keys);
  for (const std::string_view key : keys) {
    if (!check_key(key, reply)) return fail();
  }
  queued_bytes_ += kQueuedOverhead;
  for (const std::string_view argument : arguments) queued_bytes_ += argument.size() + sizeof(std::string);
  if (too_large(session)) {
    fail();
    queue_.clear();
    return reply.error("ERR the transaction is too large");
  }
  if (!failed_) queue_.push_back({&command, {arguments.begin(), arguments.end()}, {}});
  reply.simple("QUEUED");
}

void Transaction::watch(Session& session, Arguments keys) {
  RespWriter& reply = session.reply();
  Worker& worker = session.worker();
  for (const std::string_view key : keys) {
    if (!check_key(key, reply)) return;
    const Result<bool> there = worker.service.map().get(key, worker.value);
    if (!there.ok()) return reply_status(reply, there.status());
    const auto stored = alive(worker, *there ? std::optional<std::string_view>(worker.value) : std::nullopt);
    const std::size_t bytes = kQueuedOverhead + key.size() + (stored ? stored->size() : 0);
    watched_bytes_ += bytes;
    if (too_large(session)) {
      watched_bytes_ -= bytes;
      return reply.error("ERR the transaction is too large");
    }
    watched_.push_back({std::string(key), std::nullopt});
    if (stored) watched_.back().stored = *stored;
  }
  reply.ok();
}

void Transaction::execute(Session& session) {
  RespWriter& reply = session.reply();
  if (failed_) return reply.error("EXECABORT Transaction discarded because of previous errors.");
  for (Queued& queued : queue_) queued.arguments.assign(queued.words.begin(), queued.words.end());
  std::size_t at = step_end(0);
  if (!run_step(session, 0, at)) return;
  while (at < queue_.size()) {
    run_whole_map(session, queue_[at++]);
    const std::size_t end = step_end(at);
    (void)run_step(session, at, end);
    at = end;
  }
}

std::size_t Transaction::step_end(std::size_t first) const noexcept {
  while (first < queue_.size() && !queue_[first].command->has(kWholeMap)) ++first;
  return first;
}

bool Transaction::is_idle(Session& session, const Queued& queued) noexcept {
  return session.reply().overflowed() && !queued.command->has(kWrites);
}

void Transaction::run_whole_map(Session& session, const Queued& queued) {
  if (is_idle(session, queued)) return;
  queued.command->on_session(session, queued.arguments);
}

Result<bool> Transaction::unchanged(Worker& worker, HashMap::Step& step) const {
  for (const Watched& watched : watched_) {
    const auto stored = step.get(watched.key);
    if (!stored.ok()) return stored.status();
    const auto now = alive(worker, *stored);
    if (now.has_value() != watched.stored.has_value() || (now && *now != *watched.stored)) return false;
  }
  return true;
}

bool Transaction::run_step(Session& session, std::size_t first, std::size_t end) {
  RespWriter& reply = session.reply();
  Worker& worker = session.worker();
  const std::size_t mark = reply.mark();
  const auto run_all = [&](HashMap::Step* step) {
    if (first == 0) reply.array(queue_.size());
    for (std::size_t i = first; i < end; ++i) {
      const Queued& queued = queue_[i];
      if (is_idle(session, queued)) continue;
      if (queued.command->on_keys == nullptr) {
        queued.command->on_session(session, queued.arguments);
      } else {
        run_in_step(worker, *step, *queued.command, queued.arguments, reply);
      }
    }
  };
  std::vector<std::string_view> keys;
  for (std::size_t i = first; i < end; ++i) add_keys(*queue_[i].command, queue_[i].arguments, keys);
  if (first == 0) {
    for (const Watched& watched : watched_) keys.emplace_back(watched.key);
  }
  if (keys.empty()) {
    run_all(nullptr);
    return true;
  }
  bool same = true;
  const auto function = [&](HashMap::Step& of_map) -> Status {
    CachedStep step(of_map);
    const Result<bool> compared = first == 0 ? unchanged(worker, step) : Result<bool>(true);
    if (!compared.ok()) return compared.status();
    same = *compared;
    if (same) run_all(&step);
    return {};
  };
  const Status done = worker.service.map().together(keys, std::ref(function));
  if (!same) reply.null_array();
  if (done.ok()) return same;
  // The whole answer at first; later each command of this step has its own.
  reply.take_back(mark);
  if (first == 0) {
    reply_status(reply, done);
    return false;
  }
  for (std::size_t i = first; i < end; ++i) reply_status(reply, done);
  return true;
}

namespace commands {

void multi(Session& session, Arguments) {
  if (session.transaction().open()) return session.reply().error("ERR MULTI calls can not be nested");
  session.transaction().begin();
  session.reply().ok();
}

void exec(Session& session, Arguments) {
  if (!session.transaction().open()) return session.reply().error("ERR EXEC without MULTI");
  Transaction transaction = std::move(session.transaction());
  session.transaction().discard();
  transaction.execute(session);
}

void discard(Session& session, Arguments) {
  if (!session.transaction().open()) return session.reply().error("ERR DISCARD without MULTI");
  session.transaction().discard();
  session.reply().ok();
}

void watch(Session& session, Arguments arguments) {
  if (session.transaction().open()) return session.reply().error("ERR WATCH inside MULTI is not allowed");
  session.transaction().watch(session, arguments.subspan(1));
}

void unwatch(Session& session, Arguments) {
  session.transaction().unwatch();
  session.reply().ok();
}

}  // namespace commands
}  // namespace atoll::kv
