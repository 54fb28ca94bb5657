#include "kv/keys.hpp"

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
  if (value.size() > kMaxStringBytes) {
    return fail({Errc::kInvalidArgument, "string exceeds maximum allowed size (proto-max-bulk-len)"});
  }
  fail(write(key, value, expires_at));
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

Status StepKeys::write(std::string_view key, std::string_view value, std::int64_t expires_at) {
  std::string& encoded = worker().encoded;
  encode(value, expires_at, encoded);
  return step_.put(key, encoded).status();
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
