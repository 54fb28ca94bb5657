#include "kv/execute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace atoll::kv {
namespace {

/// Runs the handler. What it answered is replaced when something went wrong.
void call_handler(const Command& command, Arguments arguments, Keys& keys, RespWriter& reply) {
  const std::size_t mark = reply.mark();
  Call call{command, arguments, keys, reply};
  command.on_keys(call);
  if (keys.status().ok()) return;
  reply.take_back(mark);
  reply_status(reply, keys.status());
}

void read_one(Worker& worker, const Command& command, Arguments arguments, RespWriter& reply) {
  const std::string_view key = arguments[std::size_t(command.first_key)];
  const Result<bool> there = worker.service.map().get(key, worker.value);
  if (!there.ok()) return reply_status(reply, there.status());
  ReadKey keys(worker, *there ? std::optional<std::string_view>(worker.value) : std::nullopt);
  call_handler(command, arguments, keys, reply);
  if (keys.met_expired()) erase_expired(worker, key);
}

void update_one(Worker& worker, const Command& command, Arguments arguments, RespWriter& reply) {
  const std::string_view key = arguments[std::size_t(command.first_key)];
  const std::size_t mark = reply.mark();
  const auto function = [&](std::optional<std::string_view> stored, std::string& next) {
    UpdateKey keys(worker, stored, next);
    call_handler(command, arguments, keys, reply);
    return keys.change();
  };
  const Result<Change> done = worker.service.map().update(key, std::ref(function));
  if (done.ok()) return;
  reply.take_back(mark);
  reply_status(reply, done.status());
}

/// Without a lock, unless the keys keep changing.
void read_several(Worker& worker, const Command& command, Arguments arguments, std::vector<std::string_view> keys,
                  RespWriter& reply) {
  // Each once: the map holds all values at a time, and a request has room for very many names of a large one.
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  ReadKeys read(worker);
  const auto found = [&](std::size_t i, std::optional<std::string_view> stored) { read.add(keys[i], stored); };
  const Status status = worker.service.map().get_together(keys, std::ref(found));
  if (!status.ok()) return reply_status(reply, status);
  call_handler(command, arguments, read, reply);
  for (const std::string_view key : read.expired()) erase_expired(worker, key);
}

}  // namespace

void add_keys(const Command& command, Arguments arguments, std::vector<std::string_view>& keys) {
  if (command.first_key == 0) return;
  const int last = command.last_key < 0 ? int(arguments.size()) - 1 : command.last_key;
  for (int i = command.first_key; i <= last; i += command.key_step) keys.push_back(arguments[std::size_t(i)]);
}

bool check_key(std::string_view key, RespWriter& reply) {
  if (key.size() <= HashMap::kMaxKeyBytes) [[likely]]
    return true;
  reply.error(fmt::format("ERR the key is longer than {} bytes", HashMap::kMaxKeyBytes));
  return false;
}

void run_on_keys(Worker& worker, const Command& command, Arguments arguments, RespWriter& reply) {
  const auto first = std::size_t(command.first_key);
  const bool one = command.last_key == command.first_key || arguments.size() <= first + std::size_t(command.key_step);
  if (one) {
    if (!check_key(arguments[first], reply)) return;
    if (command.has(kWrites)) return update_one(worker, command, arguments, reply);
    return read_one(worker, command, arguments, reply);
  }
  std::vector<std::string_view> keys;
  add_keys(command, arguments, keys);
  for (const std::string_view key : keys) {
    if (!check_key(key, reply)) return;
  }
  if (!command.has(kWrites)) return read_several(worker, command, arguments, std::move(keys), reply);
  const std::size_t mark = reply.mark();
  const auto function = [&](HashMap::Step& step) {
    run_in_step(worker, step, command, arguments, reply);
    return Status();
  };
  const Status done = worker.service.map().together(keys, std::ref(function));
  if (done.ok()) return;
  reply.take_back(mark);
  reply_status(reply, done);
}

void run_in_step(Worker& worker, HashMap::Step& step, const Command& command, Arguments arguments, RespWriter& reply) {
  StepKeys keys(worker, step);
  call_handler(command, arguments, keys, reply);
}

}  // namespace atoll::kv
