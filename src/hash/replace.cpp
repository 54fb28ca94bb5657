// Changing a pair without its bucket's lock: one message to the home of the bucket, and one back.
//
// Head and entry are read, the pair is written, and then the home is asked to put the new entry into its place, if the
// head is still what it was. A lock would bring the bucket here first, and others would have to wait for it.
#include <bit>

#include "hash/table.hpp"

namespace atoll::hash {

/// In the hash's group, or elsewhere in the bucket, if that has no more to its chain.
Result<bool> Table::sight_entry(Sighting& seen, const Key& key, std::string* pair) noexcept {
  const auto is_it = [&](unsigned index, const Entry& entry) -> Result<bool> {
    if (entry.address == 0 || entry.hash() != low_bits(key.hash, kHashBits)) return false;
    const Result<std::size_t> value_at = read_pair(node_, entry, key, pair);
    if (!value_at.ok()) return value_at.status();
    seen.index = index;
    seen.entry = entry;
    return *value_at != kAbsent;
  };
  const Result<Group> group = read_group(node_, seen.bucket, key.hash);
  if (!group.ok()) return group.status();
  for (unsigned i = 0; i < group->size(); ++i) {
    const Result<bool> found = is_it(unsigned(first_of(group_of(key.hash)) + int(i)), (*group)[i]);
    if (!found.ok() || *found) return found;
  }
  Bucket copy;
  if (const Status status = read_into(node_, seen.bucket, copy); !status.ok()) return status;
  for (std::uint32_t left = copy.match(key.hash); left != 0; left &= left - 1) {
    const auto index = unsigned(std::countr_zero(left));
    const Result<bool> found = is_it(index, copy.entries[index]);
    if (!found.ok() || *found) return found;
  }
  seen.entry = Entry();
  seen.index = copy.free_for(key.hash);
  return copy.overflow == 0 && seen.index != kEntries;
}

Result<std::optional<Table::Sighting>> Table::sight(const Key& key, std::string* pair) noexcept {
  constexpr std::optional<Sighting> kNone;
  std::uint64_t number = 0;
  const Result<GlobalAddress> bucket = guess(key.hash, &number);
  if (!bucket.ok()) return bucket.status();
  if (bucket->node() == node_.id()) return kNone;       // a lock costs less
  if (node_.line_bytes() < kBucketBytes) return kNone;  // head and entry may lie in different lines
  const auto word = node_.read<std::uint64_t>(*bucket);
  if (!word.ok()) return word.status();
  Sighting seen{*bucket, {*word}, 0, {}};
  if (seen.head.is_changing() || !seen.head.covers(number, key.hash)) return kNone;
  const Result<bool> found = sight_entry(seen, key, pair);
  if (found.ok()) return *found ? std::optional(seen) : kNone;
  const Result<bool> current = is_current({seen.bucket, seen.head});
  if (!current.ok()) return current.status();
  if (*current) return found.status();
  return kNone;  // what was read meanwhile was no entry
}

Result<bool> Table::replace(const Sighting& seen, const Key& key, std::optional<std::string_view> value) noexcept {
  Entry entry;
  if (value) {
    const Result<Entry> written = write_pair(node_, key, *value);
    if (written.status().code() == Errc::kOutOfMemory) return false;  // under the lock it may go without memory
    if (!written.ok()) return written.status();
    entry = *written;
  }
  const std::int64_t more = std::int64_t(value.has_value()) - std::int64_t(seen.is_there());
  const Result<bool> done =
      node_.write_if(global_ptr<std::uint64_t>(seen.bucket), seen.head.word, seen.head.changed(seen.head.level()).word,
                     seen.bucket + entry_at(seen.index), std::as_bytes(std::span(&entry, 1)));
  if (done.status().code() == Errc::kInDoubt) {
    return Status(Errc::kNodeDied, "the pair may have been changed or not", done.status().node());
  }
  if (!done.ok() || !*done) {
    if (value) release(GlobalAddress(entry.address));
    return done;
  }
  if (seen.is_there()) release(GlobalAddress(seen.entry.address));
  if (more != 0) {
    if (const Status status = count(more); !status.ok()) return status;
  }
  return true;
}

}  // namespace atoll::hash
