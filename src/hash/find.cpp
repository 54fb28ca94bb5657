// Finding a pair without a lock.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <sched.h>

#include <bit>

#include "hash/table.hpp"

namespace atoll::hash {

namespace {

constexpr unsigned kPatience = 32;       // looks in vain, by others' changes, before a lock is taken
constexpr unsigned kMaxChain = 1 << 20;  // longer is a sign of memory that was reused under the reader

}  // namespace

Key Table::key(std::string_view bytes) const noexcept {
  return {bytes, XXH3_64bits_withSeed(bytes.data(), bytes.size(), directory_.root().seed)};
}

Result<std::size_t> read_pair(Node& node, const Entry& entry, const Key& key, std::string* pair) noexcept {
  const std::size_t value_at = kPairHeadBytes + key.bytes.size();
  if (entry.bytes() < value_at || entry.bytes() > kMaxPairBytes) return Table::kAbsent;
  std::array<char, kPairHeadBytes + HashMap::kMaxKeyBytes> key_only;
  std::span<char> into(key_only.data(), value_at);
  if (pair != nullptr) {
    pair->resize(entry.bytes());
    into = std::span(*pair);
  }
  const Status status = node.read_words(GlobalAddress(entry.address), std::as_writable_bytes(into));
  if (!status.ok()) return status;
  return Pair::parse({into.data(), into.size()}).key == key.bytes ? value_at : Table::kAbsent;
}

Result<bool> Table::is_current(const Version& seen) noexcept {
  const auto now = node_.read<std::uint64_t>(seen.bucket);
  if (!now.ok()) return now.status();
  return *now == seen.head.word;
}

/// Looks through a chain from its first bucket on, of which `copy` is what was read. After each step the head is read
/// again: only if it is the same did the step see what was there, for memory of what is changed is reused at once.
Result<Table::Look> Table::look_in_chain(const Version& version, Bucket& copy, const Key& key,
                                         std::string* pair) noexcept {
  Look look{Seen::kChanged, version.head, kAbsent};
  Status status;  // of what was read last: it counts as that does
  for (unsigned step = 0; step < kMaxChain; ++step) {
    for (std::uint32_t left = status.ok() ? copy.match(key.hash) : 0; left != 0 && status.ok(); left &= left - 1) {
      const Entry& entry = copy.entries[unsigned(std::countr_zero(left))];
      if (entry.address == 0) continue;
      const Result<std::size_t> value_at = read_pair(node_, entry, key, pair);
      status = value_at.status();
      look.value_at = *value_at;
      if (status.ok() && look.value_at != kAbsent) break;
    }
    const Result<bool> current = is_current(version);
    if (!current.ok()) return current.status();
    if (!*current) return look;
    if (!status.ok()) return status;
    if (look.value_at != kAbsent || copy.overflow == 0) {
      look.seen = look.value_at != kAbsent ? Seen::kFound : Seen::kAbsent;
      return look;
    }
    // It may have changed since, and what is read be anything: then this shows after the next step.
    status = read_into(node_, GlobalAddress(copy.overflow), copy);
  }
  return look;
}

Result<Group> read_group(Node& node, GlobalAddress bucket, std::uint64_t hash) noexcept {
  Group group;
  const unsigned number = group_of(hash);
  const Status status = read_into(node, bucket + std::int64_t(number * sizeof(Group)), group);
  if (!status.ok()) return status;
  if (number == 0) group[0] = Entry();
  return group;
}

Result<Table::Look> Table::look(GlobalAddress bucket, std::uint64_t number, const Key& key,
                                std::string* pair) noexcept {
  const auto word = node_.read<std::uint64_t>(bucket);
  if (!word.ok()) return word.status();
  const Version version{bucket, {*word}};
  if (version.head.is_changing()) return Look{Seen::kChanged, version.head, kAbsent};
  if (!version.head.covers(number, key.hash)) return Look{Seen::kSplit, version.head, kAbsent};
  // Most are in their group.
  const Result<Group> group = read_group(node_, bucket, key.hash);
  if (!group.ok()) return group.status();
  for (const Entry& entry : *group) {
    if (entry.address == 0 || entry.hash() != low_bits(key.hash, kHashBits)) continue;
    const Result<std::size_t> value_at = read_pair(node_, entry, key, pair);
    const Result<bool> current = is_current(version);
    if (!current.ok()) return current.status();
    if (!*current) return Look{Seen::kChanged, version.head, kAbsent};
    if (!value_at.ok()) return value_at.status();
    if (*value_at != kAbsent) return Look{Seen::kFound, version.head, *value_at};
  }
  Bucket copy;
  if (const Status status = read_into(node_, bucket, copy); !status.ok()) return status;
  return look_in_chain(version, copy, key, pair);
}

Result<GlobalAddress> Table::guess(std::uint64_t hash, std::uint64_t* number) noexcept {
  *number = directory_.guess(hash);
  return directory_.find(*number);
}

Result<std::size_t> Table::find(const Key& key, std::string* pair, Version* seen) noexcept {
  std::uint64_t number = 0;
  Result<GlobalAddress> bucket = guess(key.hash, &number);
  for (unsigned tries = 0; tries < kPatience;) {
    if (!bucket.ok()) return bucket.status();
    const Result<Look> look = this->look(*bucket, number, key, pair);
    if (!look.ok()) return look.status();
    switch (look->seen) {
      case Seen::kFound:
      case Seen::kAbsent:
        if (seen != nullptr) *seen = {*bucket, look->head};
        return look->value_at;
      case Seen::kSplit:
        number = directory_.go_on(number, key.hash);
        bucket = directory_.find(number);
        break;
      case Seen::kChanged:
        if (++tries % 4 == 0) ::sched_yield();  // who changes it may need this processor
        break;
    }
  }
  std::optional<LockedBucket> locked;
  if (const Status status = lock(key, locked); !status.ok()) return status;
  const Result<Spot> spot = locked->locate(key, pair);
  if (seen != nullptr) *seen = {locked->address(), locked->head()};
  const Status status = locked->unlock();
  if (!spot.ok()) return spot.status();
  if (!status.ok()) return status;
  return spot->is_there ? kPairHeadBytes + key.bytes.size() : kAbsent;
}

}  // namespace atoll::hash
