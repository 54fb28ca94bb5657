#include "kv/keys.hpp"

#include <algorithm>

namespace atoll::kv {

std::int64_t Keys::now() {
  if (now_ == 0) now_ = worker_.service.now();
  return now_;
}

std::optional<Item> Keys::get(std::string_view key) {
  if (!status_.ok()) return std::nullopt;
  const auto stored = read(key);
  if (!stored.ok()) fail(stored.status());
  if (!stored.ok() || !*stored) return std::nullopt;
  const std::optional<Item> item = decode(**stored);
  if (!item) {
    fail({Errc::kInvalidArgument, "the key holds what this server has not written"});
  } else if (item->expires_at != kNever && item->expires_at <= now()) {
    fail(remove(key));
    return std::nullopt;
  }
  return item;
}

void Keys::put(std::string_view key, std::string_view value, std::int64_t expires_at) {
  if (!status_.ok()) return;
  fail(check_length(value));
  if (status_.ok()) fail(write(key, value, expires_at));
}

void Keys::put_all(std::span<const std::string_view> pairs) {
  for (std::size_t i = 1; i < pairs.size(); i += 2) fail(check_length(pairs[i]));
  if (status_.ok()) fail(write_all(pairs));
}

Status Keys::check_length(std::string_view value) noexcept {
  if (value.size() <= kMaxStringBytes) return {};
  return {Errc::kInvalidArgument, "string exceeds maximum allowed size (proto-max-bulk-len)"};
}

Status Keys::write_all(std::span<const std::string_view> pairs) {
  Status status;
  for (std::size_t i = 0; i + 1 < pairs.size() && status.ok(); i += 2) status = write(pairs[i], pairs[i + 1], kNever);
  return status;
}

bool Keys::erase(std::string_view key) {
  if (!get(key)) return false;
  fail(remove(key));
  return status_.ok();
}

namespace {
constexpr Status kOnlyReads(Errc::kInvalidArgument, "a command that only reads tried to write");
}

Status ReadKey::write(std::string_view, std::string_view, std::int64_t) {
  return kOnlyReads;
}

Status ReadKey::remove(std::string_view) {
  met_expired_ = true;
  return {};
}

Result<std::optional<std::string_view>> ReadKeys::read(std::string_view key) {
  const auto found = stored_.find(key);
  if (found == stored_.end() || !found->second) return std::optional<std::string_view>();
  return std::optional<std::string_view>(*found->second);
}

Status ReadKeys::write(std::string_view, std::string_view, std::int64_t) {
  return kOnlyReads;
}

Status ReadKeys::remove(std::string_view key) {
  expired_.push_back(key);
  return {};
}

Status UpdateKey::write(std::string_view, std::string_view value, std::int64_t expires_at) {
  encode(value, expires_at, next_);
  change_ = Change::kPut;
  return {};
}

Status UpdateKey::remove(std::string_view) {
  if (stored_) change_ = Change::kErase;
  return {};
}

Result<std::optional<std::string_view>> CachedStep::get(std::string_view key) {
  auto found = read_.find(key);
  if (found == read_.end()) {
    const auto stored = step_.get(key);
    if (!stored.ok()) return stored.status();
    found = read_.emplace(key, *stored).first;
  }
  return found->second ? std::optional<std::string_view>(*found->second) : std::nullopt;
}

Result<bool> CachedStep::put(std::string_view key, std::string_view value) {
  const Result<bool> is_new = step_.put(key, value);
  const auto found = read_.find(key);
  if (is_new.ok() && found != read_.end()) found->second = value;
  return is_new;
}

Result<bool> CachedStep::erase(std::string_view key) {
  const Result<bool> was_there = step_.erase(key);
  const auto found = read_.find(key);
  if (was_there.ok() && found != read_.end()) found->second.reset();
  return was_there;
}

Status StepKeys::write(std::string_view key, std::string_view value, std::int64_t expires_at) {
  std::string& encoded = worker().encoded;
  encode(value, expires_at, encoded);
  return step_.put(key, encoded).status();
}

Status StepKeys::write_all(std::span<const std::string_view> pairs) {
  std::vector<Write> writes;
  writes.reserve(pairs.size() / 2);
  for (std::size_t i = pairs.size() / 2; i-- > 0;) writes.push_back({pairs[2 * i], pairs[2 * i + 1], {}, false});
  // Each key once, with the value that came last: a large one that is named very often has one copy.
  std::stable_sort(writes.begin(), writes.end(), [](const Write& a, const Write& b) { return a.key < b.key; });
  const auto same = [](const Write& a, const Write& b) { return a.key == b.key; };
  writes.erase(std::unique(writes.begin(), writes.end(), same), writes.end());
  for (Write& each : writes) {
    const auto stored = step_.get(each.key);
    if (!stored.ok()) return stored.status();
    if (*stored) each.former = **stored;
  }
  // New ones first: it is they who need memory most, and to erase them again needs none.
  std::stable_partition(writes.begin(), writes.end(), [](const Write& each) { return !each.former; });
  Status status;
  for (Write& each : writes) {
    status = write(each.key, each.value, kNever);
    if (!status.ok()) break;
    each.is_done = true;
  }
  if (!status.ok()) undo(writes);
  return status;
}

/// The memory of the values that were replaced is free only when the step has ended, so a value that does not fit
/// where the new one stands needs more. If there is none the key keeps the new value, which is better than none.
void StepKeys::undo(std::span<const Write> writes) {
  for (const Write& each : writes) {
    if (!each.is_done) return;
    if (each.former) {
      (void)step_.put(each.key, *each.former);
    } else {
      (void)step_.erase(each.key);
    }
  }
}

void erase_expired(Worker& worker, std::string_view key) {
  bool erased = false;
  const auto check = [&](std::optional<std::string_view> stored, std::string&) {
    const std::optional<Item> item = stored ? decode(*stored) : std::nullopt;
    erased = item && item->expires_at != kNever && item->expires_at <= worker.service.now();
    return erased ? Change::kErase : Change::kKeep;
  };
  // An error leaves it to the next who meets it.
  if (worker.service.map().update(key, std::ref(check)).ok() && erased) ++worker.counts.expired;
}

}  // namespace atoll::kv
