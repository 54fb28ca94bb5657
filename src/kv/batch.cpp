#include "kv/batch.hpp"

#include <functional>

#include "kv/keys.hpp"
#include "kv/session.hpp"

namespace atoll::kv {

void Batch::run() {
  if (!keys_.empty()) run_gets();
  if (!pairs_.empty()) run_puts();
}

void Batch::answer(std::size_t index, std::optional<std::string_view> stored) {
  if (readers_[index]->postpones(keys_[index])) return;
  RespWriter& reply = readers_[index]->reply();
  std::optional<Item> item;
  if (stored) {
    item = decode(*stored);
    if (!item) return reply.error("ERR the key holds what this server has not written");
    if (item->expires_at != kNever && item->expires_at <= worker_.service.now()) {
      item.reset();
      expired_.push_back(index);
    }
  }
  if (item) {
    ++worker_.counts.hits;
    reply.bulk(item->value);
  } else {
    ++worker_.counts.misses;
    reply.null();
  }
}

void Batch::run_gets() {
  std::size_t answered = 0;
  Status status;
  if (keys_.size() == 1) {
    const Result<bool> there = worker_.service.map().get(keys_[0], worker_.value);
    status = there.status();
    if (there.ok()) {
      answer(0, *there ? std::optional<std::string_view>(worker_.value) : std::nullopt);
      answered = 1;
    }
  } else {
    const auto found = [&](std::size_t index, std::optional<std::string_view> stored) {
      answer(index, stored);
      answered = index + 1;
    };
    status = worker_.service.map().get_many(keys_, std::ref(found));
  }
  for (; answered < keys_.size(); ++answered) {
    if (!readers_[answered]->postpones(keys_[answered])) reply_status(readers_[answered]->reply(), status);
  }
  for (const std::size_t index : expired_) erase_expired(worker_, keys_[index]);
  keys_.clear();
  readers_.clear();
  expired_.clear();
}

void Batch::run_puts() {
  const bool together = pairs_.size() > 1 && puts_alone_ == 0;
  if (puts_alone_ > 0) --puts_alone_;
  if (together && worker_.service.map().put_many(pairs_).ok()) {
    for (Session* const writer : writers_) writer->reply().ok();
  } else {
    // After a failure it is likely that more fail, such as when memory is full. One by one, each is done once or not.
    if (together) puts_alone_ = kPutsAlone;
    for (std::size_t i = 0; i < pairs_.size(); ++i) put_alone(i, together);
  }
  pairs_.clear();
  writers_.clear();
}

/// `again`: one of a batch that failed, which may have been put before: the map does not say. If it is there it is not
/// put twice. If something else is, either it was not put, or somebody has changed the key since; then it is put over
/// that, as if it had come later. To tell all clients of the batch that their SETs failed would be worse.
void Batch::put_alone(std::size_t index, bool again) {
  HashMap& map = worker_.service.map();
  const std::string_view key = pairs_[index].first, stored = pairs_[index].second;
  const auto put_unless_there = [&](std::optional<std::string_view> current, std::string& next) {
    if (current && *current == stored) return Change::kKeep;
    next = stored;
    return Change::kPut;
  };
  const Status done = again ? map.update(key, std::ref(put_unless_there)).status() : map.put(key, stored).status();
  if (done.ok()) {
    writers_[index]->reply().ok();
  } else {
    reply_status(writers_[index]->reply(), done);
  }
}

}  // namespace atoll::kv
