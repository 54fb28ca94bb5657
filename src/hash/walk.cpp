// Walking over all pairs, a bucket at a time.
#include <sched.h>

#include <bit>

#include "hash/table.hpp"

namespace atoll::hash {

namespace {

constexpr unsigned kPatience = 16;

std::uint64_t reversed(std::uint64_t bits, unsigned count) noexcept {
  std::uint64_t result = 0;
  for (unsigned i = 0; i < count; ++i) result |= (bits >> i & 1) << (count - 1 - i);
  return result;
}

}  // namespace

std::uint64_t after(std::uint64_t number, unsigned level) noexcept {
  const std::uint64_t next = reversed(number, level) + 1;
  return next >> level != 0 ? 0 : reversed(next, level);
}

/// False: the bucket has changed meanwhile.
Result<bool> Table::read_part_unlocked(GlobalAddress bucket, Head head, Part& part) noexcept {
  const Version version{bucket, head};
  part.pairs.clear();
  part.overflow_buckets = 0;
  while (bucket) {
    Bucket copy;
    Status status = read_into(node_, bucket, copy);
    Result<bool> current = is_current(version);
    if (!current.ok() || !*current) return current;
    if (!status.ok()) return status;
    for (const Entry& entry : copy.entries) {
      if (entry.address == 0 || entry.bytes() > kMaxPairBytes) continue;
      std::string& pair = part.pairs.emplace_back(entry.bytes(), '\0');
      status = node_.read_words(GlobalAddress(entry.address), std::as_writable_bytes(std::span(pair)));
      if (!status.ok()) break;
    }
    current = is_current(version);
    if (!current.ok() || !*current) return current;
    if (!status.ok()) return status;
    bucket = GlobalAddress(copy.overflow);
    if (bucket) ++part.overflow_buckets;
  }
  return true;
}

Result<Table::Part> Table::read_part(std::uint64_t cursor) noexcept {
  const Key key{{}, low_bits(cursor, kHashBits)};
  Part part;
  std::uint64_t number = 0;
  Result<GlobalAddress> bucket = guess(key.hash, &number);
  for (unsigned tries = 0; tries < kPatience;) {
    if (!bucket.ok()) return bucket.status();
    const auto word = node_.read<std::uint64_t>(*bucket);
    if (!word.ok()) return word.status();
    const Head head{*word};
    if (!head.is_changing()) {
      if (!head.covers(number, key.hash)) {
        number = directory_.go_on(number, key.hash);
        bucket = directory_.find(number);
        continue;
      }
      const Result<bool> read = read_part_unlocked(*bucket, head, part);
      if (!read.ok()) return read.status();
      part.next = after(number, head.level());
      if (*read) return part;
    }
    if (++tries % 4 == 0) ::sched_yield();
  }
  std::optional<LockedBucket> locked;
  if (const Status status = lock(key, locked); !status.ok()) return status;
  const Result<bool> read = read_part_unlocked(locked->address(), locked->head(), part);
  if (!read.ok()) return read.status();
  part.next = after(locked->number(), locked->head().level());
  if (const Status status = locked->unlock(); !status.ok()) return status;
  return part;
}

}  // namespace atoll::hash
