#include "atoll/hash_map.hpp"

#include <charconv>

#include "hash/table.hpp"

namespace atoll {

using hash::Key;
using hash::Table;

namespace {

constexpr int kPatienceMs = 30'000;  // with the node that makes a named map
constexpr Status kKeyTooLong(Errc::kInvalidArgument, "the key is longer than keys may be");

constexpr Table::Needs kMayInsert{.value = false, .may_insert = true};
constexpr Table::Needs kByValue{.value = true, .may_insert = true};
constexpr Table::Needs kOnce{.value = true, .may_insert = true, .once = true};

bool fits(std::string_view key) noexcept {
  return key.size() <= HashMap::kMaxKeyBytes;
}

std::string root_name(std::string_view name) {
  return "hash/" + std::string(name);
}

/// Node 0 makes it, once, however often it is opened there.
std::unique_ptr<Table> open_named(Node& node, std::string_view name, const HashMapOptions& options) {
  const std::string root = root_name(name);
  const Result<GlobalAddress> there = node.lookup(root, std::chrono::milliseconds(node.id() == 0 ? 0 : kPatienceMs));
  if (there.ok() || node.id() != 0) return std::make_unique<Table>(node, there.value());
  auto table = std::make_unique<Table>(node, options);
  const Status published = node.publish(root, table->directory().root_address());
  if (published.code() != Errc::kAlreadyExists) {
    published.or_throw();
    return table;
  }
  table->directory().destroy().or_throw();  // another thread was quicker
  return std::make_unique<Table>(node, node.lookup(root).value());
}

/// All of the text is the number: no blanks, no plus, no zero before other digits.
std::optional<std::int64_t> number_in(std::string_view text) noexcept {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.starts_with('0') && text != "0") return {};
  return number;
}

}  // namespace

HashMap::HashMap(Node& node, std::string_view name, const HashMapOptions& options)
    : table_(open_named(node, name, options)) {}
HashMap::HashMap(Node& node, const HashMapOptions& options) : table_(std::make_unique<Table>(node, options)) {}
HashMap::HashMap(Node& node, GlobalAddress address) : table_(std::make_unique<Table>(node, address)) {}
HashMap::~HashMap() = default;
HashMap::HashMap(HashMap&&) noexcept = default;
HashMap& HashMap::operator=(HashMap&&) noexcept = default;

GlobalAddress HashMap::address() const noexcept {
  return table_->directory().root_address();
}

// ---- one key ----

Result<bool> HashMap::get(std::string_view key, std::string& value) const noexcept {
  if (!fits(key)) return kKeyTooLong;
  const Result<std::size_t> value_at = table_->find(table_->key(key), &value);
  if (!value_at.ok()) return value_at.status();
  if (*value_at == Table::kAbsent) return false;
  value.erase(0, *value_at);
  return true;
}

Result<std::optional<std::string>> HashMap::get(std::string_view key) const noexcept {
  std::string value;
  const Result<bool> there = get(key, value);
  if (!there.ok()) return there.status();
  return *there ? std::optional(std::move(value)) : std::nullopt;
}

Result<bool> HashMap::contains(std::string_view key) const noexcept {
  if (!fits(key)) return kKeyTooLong;
  const Result<std::size_t> value_at = table_->find(table_->key(key), nullptr);
  if (!value_at.ok()) return value_at.status();
  return *value_at != Table::kAbsent;
}

Result<bool> HashMap::put(std::string_view key, std::string_view value) noexcept {
  if (!fits(key)) return kKeyTooLong;
  const Key hashed = table_->key(key);
  bool was_there = false;
  const auto done = table_->change_unlocked(hashed, {}, [&](auto current, std::string_view& next) {
    was_there = current.has_value();
    next = value;
    return Change::kPut;
  });
  if (!done.ok()) return done.status();
  if (*done) return !was_there;
  std::optional<hash::LockedBucket> locked;
  const Result<bool> is_new = table_->put(hashed, value, locked);
  if (!is_new.ok()) return is_new;
  if (const Status status = locked->unlock(); !status.ok()) return status;
  return is_new;
}

Result<bool> HashMap::put_if_absent(std::string_view key, std::string_view value) noexcept {
  if (!fits(key)) return kKeyTooLong;
  const auto done = table_->change(table_->key(key), kMayInsert, [&](auto current, std::string_view& next) {
    next = value;
    return current ? Change::kKeep : Change::kPut;
  });
  if (!done.ok()) return done.status();
  return *done == Change::kPut;
}

Result<bool> HashMap::erase(std::string_view key) noexcept {
  if (!fits(key)) return kKeyTooLong;
  const auto done = table_->change(
      table_->key(key), {}, [](auto current, std::string_view&) { return current ? Change::kErase : Change::kKeep; });
  if (!done.ok()) return done.status();
  return *done == Change::kErase;
}

Result<bool> HashMap::compare_and_swap(std::string_view key, std::string_view expected,
                                       std::string_view desired) noexcept {
  if (!fits(key)) return kKeyTooLong;
  const auto done = table_->change(table_->key(key), {.value = true}, [&](auto current, std::string_view& next) {
    next = desired;
    return current == expected ? Change::kPut : Change::kKeep;
  });
  if (!done.ok()) return done.status();
  return *done == Change::kPut;
}

Result<std::int64_t> HashMap::increment(std::string_view key, std::int64_t by) noexcept {
  if (!fits(key)) return kKeyTooLong;
  Result<std::int64_t> sum = 0;
  std::array<char, 24> digits;
  const auto done = table_->change(table_->key(key), kByValue, [&](auto current, std::string_view& next) {
    const std::optional<std::int64_t> before = current ? number_in(*current) : std::optional<std::int64_t>(0);
    std::int64_t after = 0;
    if (!before) {
      sum = Status(Errc::kInvalidArgument, "the value is not a number");
    } else if (__builtin_add_overflow(*before, by, &after)) {
      sum = Status(Errc::kInvalidArgument, "the sum does not fit 64 bits");
    } else {
      sum = after;
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), after).ptr;
      next = {digits.data(), std::size_t(end - digits.data())};
      return Change::kPut;
    }
    return Change::kKeep;
  });
  if (!done.ok()) return done.status();
  return sum;
}

Result<Change> HashMap::update(std::string_view key, const Function& function) noexcept {
  if (!fits(key)) return kKeyTooLong;
  std::string own;
  return table_->change(table_->key(key), kOnce, [&](auto current, std::string_view& next) {
    const Change change = function(current, own);
    next = own;
    return change;
  });
}

// ---- many keys ----

Status HashMap::get_many(std::span<const std::string_view> keys, const Found& found) const noexcept {
  return table_->get_many(keys, found);
}

Status HashMap::get_together(std::span<const std::string_view> keys, const Found& found) const noexcept {
  return table_->get_together(keys, found);
}

Result<std::size_t> HashMap::put_many(std::span<const KeyValue> pairs) noexcept {
  return table_->put_many(pairs);
}

Status HashMap::together(std::span<const std::string_view> keys,
                         const std::function<Status(Step&)>& function) noexcept {
  for (const std::string_view key : keys) {
    if (!fits(key)) return kKeyTooLong;
  }
  return table_->together(keys, function);
}

// ---- all ----

Result<std::int64_t> HashMap::size() const noexcept {
  std::int64_t sum = 0;
  for (NodeId node = 0; node < table_->node().count(); ++node) {
    const auto count = table_->node().read(table_->directory().count_of(node));
    if (!count.ok()) return count;
    sum += *count;
  }
  return sum;
}

Result<std::uint64_t> HashMap::scan(std::uint64_t cursor, const Visit& visit) const noexcept {
  const Result<Table::Part> part = table_->read_part(cursor);
  if (!part.ok()) return part.status();
  for (const std::string& bytes : part->pairs) {
    const hash::Pair pair = hash::Pair::parse(bytes);
    if (!visit(pair.key, pair.value)) return 0;
  }
  return part->next;
}

Status HashMap::for_each(const Visit& visit) const noexcept {
  std::uint64_t cursor = 0;
  do {
    const Result<std::uint64_t> next = scan(cursor, visit);
    if (!next.ok()) return next.status();
    cursor = *next;
  } while (cursor != 0);
  return {};
}

Status HashMap::clear() noexcept {
  std::uint64_t cursor = 0;
  do {
    std::optional<hash::LockedBucket> locked;
    if (const Status status = table_->lock(Key{{}, cursor}, locked); !status.ok()) return status;
    if (const auto erased = locked->clear(); !erased.ok()) return erased.status();
    cursor = hash::after(locked->number(), locked->head().level());
    if (const Status status = locked->unlock(); !status.ok()) return status;
  } while (cursor != 0);
  return {};
}

Result<HashMapStats> HashMap::stats() const noexcept {
  HashMapStats stats;
  std::uint64_t cursor = 0;
  do {
    const Result<Table::Part> part = table_->read_part(cursor);
    if (!part.ok()) return part.status();
    stats.pairs += part->pairs.size();
    for (const std::string& pair : part->pairs) stats.pair_bytes += pair.size() - hash::kPairHeadBytes;
    stats.buckets += 1;
    stats.overflow_buckets += part->overflow_buckets;
    cursor = part->next;
  } while (cursor != 0);
  return stats;
}

Status HashMap::destroy() noexcept {
  if (const Status status = clear(); !status.ok()) return status;
  return table_->directory().destroy();
}

}  // namespace atoll
