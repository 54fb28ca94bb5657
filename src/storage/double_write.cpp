#include "storage/double_write.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/crc32c.hpp"
#include "storage/failure.hpp"
#include "storage/page_store.hpp"

namespace atoll::storage {
namespace {

using A = AreaState;
using E = AreaEvent;

struct Row {
  AreaState from;
  AreaEvent event;
  AreaState to;
  const char* why;
};

// Pairs that are missing cannot be.
// clang-format off
constexpr Row kRows[] = {
  {A::kFree,     E::kTaken,      A::kLogging,  "the next batch"},
  {A::kFree,     E::kSyncFailed, A::kFree,     "what was here was synced before"},
  {A::kFree,     E::kRepaired,   A::kFree,     "the same"},
  {A::kLogging,  E::kAdvanced,   A::kSecuring, "it is written, not durable"},
  {A::kLogging,  E::kFailed,     A::kFree,     "nothing was written in place: the pages are whole, as they were"},
  {A::kLogging,  E::kSyncFailed, A::kLogging,  "nothing of it is in place yet"},
  {A::kSecuring, E::kAdvanced,   A::kPlacing,  "now the pages in place may be torn"},
  {A::kSecuring, E::kFailed,     A::kFree,     "as above; if the copy is durable after all, a crash makes the pages as they were to be"},
  {A::kSecuring, E::kSyncFailed, A::kSecuring, "nothing of it is in place yet"},
  {A::kPlacing,  E::kFailed,     A::kSpoiled,  "a page is torn, perhaps: the copy must stay"},
  {A::kPlacing,  E::kEnded,      A::kPlaced,   "the system has all of it"},
  {A::kPlacing,  E::kSyncFailed, A::kSpoiled,  "the system may have forgotten what is done of it"},
  {A::kSpoiled,  E::kFailed,     A::kSpoiled,  "not worse than before"},
  {A::kSpoiled,  E::kEnded,      A::kOwed,     "repaired when nothing is under way"},
  {A::kSpoiled,  E::kSyncFailed, A::kSpoiled,  "not worse than before"},
  {A::kPlaced,   E::kSynced,     A::kFree,     "durable in its place"},
  {A::kPlaced,   E::kSyncFailed, A::kOwed,     "the system has forgotten it, perhaps: a sync that ends well later does not tell"},
  {A::kPlaced,   E::kRepaired,   A::kFree,     "a repair syncs the file"},
  {A::kOwed,     E::kSyncFailed, A::kOwed,     "not worse than before"},
  {A::kOwed,     E::kRepaired,   A::kFree,     "durable in its place"},
};
// clang-format on

constexpr auto kNext = [] {
  std::array<std::array<std::uint8_t, kAreaEvents>, kAreaStates> next{};
  for (auto& row : next) row.fill(UINT8_MAX);
  for (const Row& row : kRows) next[std::size_t(row.from)][std::size_t(row.event)] = std::uint8_t(row.to);
  return next;
}();

constexpr bool kNoPairTwice = [] {
  for (const Row& one : kRows) {
    int count = 0;
    for (const Row& other : kRows) count += one.from == other.from && one.event == other.event ? 1 : 0;
    if (count != 1) return false;
  }
  return true;
}();
static_assert(kNoPairTwice);

constexpr char kCompanionMagic[8] = {'A', 'T', 'O', 'L', 'L', 'P', 'G', 'S'};
constexpr char kBatchMagic[8] = {'A', 'T', 'O', 'L', 'L', 'P', 'G', 'B'};

template <typename Header>
std::uint32_t crc_of(const Header& header) {
  return base::crc32c(0, std::as_bytes(std::span(&header, 1)).first(offsetof(Header, crc)));
}

/// What a batch consists of, if it has no torn header.
struct Batch {
  std::uint64_t sequence = 0;
  std::uint32_t area = 0;
  std::vector<PageEntry> entries;
};

/// Nothing: it was not made to the end, so nothing was ever in it.
Result<std::optional<CompanionHeader>> read_companion(AsyncIo& io, int companion, const std::string& path) {
  CompanionHeader header{};
  const std::int64_t got = io.read_now(companion, 0, std::as_writable_bytes(std::span(&header, 1)));
  if (got < 0) return failure("read", path, int(-got));
  if (got != sizeof(header) || std::memcmp(header.magic, kCompanionMagic, sizeof(kCompanionMagic)) != 0 ||
      header.crc != crc_of(header)) {
    return std::optional<CompanionHeader>();
  }
  if (header.version != kCompanionVersion || header.page_bytes < kLeastPageBytes || header.areas == 0 ||
      header.page_bytes > kMostPageBytes || header.area_pages == 0 || header.area_pages > kMostAreaPages) {
    return damage(path, "another version of Atoll has made it: open the file with that one first");
  }
  return std::optional(header);
}

std::uint64_t offset_of(const CompanionHeader& header, std::uint32_t area) {
  return kHeaderBytes + area * (kHeaderBytes + std::uint64_t(header.area_pages) * header.page_bytes);
}

std::optional<Batch> decode_batch(std::span<const std::byte> bytes, std::uint32_t area, std::uint32_t most) {
  BatchHeader header{};
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kBatchMagic, sizeof(kBatchMagic)) != 0 || header.crc != crc_of(header)) return {};
  if (header.count == 0 || header.count > most) return {};
  Batch batch{header.sequence, area, std::vector<PageEntry>(header.count)};
  const auto entries = bytes.subspan(sizeof(header), header.count * sizeof(PageEntry));
  if (base::crc32c(0, entries) != header.entries_crc) return {};
  std::memcpy(batch.entries.data(), entries.data(), entries.size());
  return batch;
}

/// Reads an area; whether its batch is whole. `into` has then the area.
Result<std::optional<Batch>> read_batch(AsyncIo& io, int companion, const std::string& path,
                                        const CompanionHeader& shape, std::uint32_t area,
                                        std::vector<std::byte>& into) {
  into.resize(kHeaderBytes + std::size_t(shape.area_pages) * shape.page_bytes);
  const std::int64_t got = io.read_now(companion, offset_of(shape, area), into);
  if (got < 0) return failure("read", path, int(-got));
  if (got < std::int64_t(kHeaderBytes)) return std::optional<Batch>();
  std::optional<Batch> batch = decode_batch(into, area, shape.area_pages);
  if (!batch) return batch;
  for (std::size_t k = 0; k < batch->entries.size(); ++k) {
    const std::size_t at = kHeaderBytes + k * shape.page_bytes;
    const bool there = at + shape.page_bytes <= std::size_t(got);
    if (!there || batch->entries[k].bytes > shape.page_bytes ||
        base::crc32c(0, std::span(into).subspan(at, shape.page_bytes)) != batch->entries[k].crc) {
      return std::optional<Batch>();
    }
  }
  return batch;
}

/// The whole ones, newest first.
Result<std::vector<Batch>> read_batches(AsyncIo& io, int companion, const std::string& path,
                                        const CompanionHeader& shape) {
  std::vector<Batch> batches;
  std::vector<std::byte> bytes;
  for (std::uint32_t area = 0; area < shape.areas; ++area) {
    auto batch = read_batch(io, companion, path, shape, area, bytes);
    if (!batch.ok()) return batch.status();
    if (*batch) batches.push_back(**batch);
  }
  std::sort(batches.begin(), batches.end(), [](const Batch& a, const Batch& b) { return a.sequence > b.sequence; });
  return batches;
}

}  // namespace

bool may_be(AreaState state, AreaEvent event) {
  return kNext[std::size_t(state)][std::size_t(event)] != UINT8_MAX;
}

AreaState next_state(AreaState state, AreaEvent event) {
  ATOLL_CHECK(may_be(state, event));
  return AreaState(kNext[std::size_t(state)][std::size_t(event)]);
}

std::uint32_t area_pages(std::uint32_t page_bytes) {
  return std::clamp<std::uint32_t>((1u << 20) / page_bytes, 4, kMostAreaPages);
}

std::uint64_t area_offset(std::uint32_t page_bytes, std::uint32_t area) {
  return kHeaderBytes + area * (kHeaderBytes + std::uint64_t(area_pages(page_bytes)) * page_bytes);
}

void encode_companion(HeaderImage& into, std::uint32_t page_bytes) {
  CompanionHeader header{{}, kCompanionVersion, page_bytes, kAreas, area_pages(page_bytes), 0, 0};
  std::memcpy(header.magic, kCompanionMagic, sizeof(kCompanionMagic));
  header.crc = crc_of(header);
  into.fill(std::byte{});
  std::memcpy(into.data(), &header, sizeof(header));
}

void encode_batch(std::span<std::byte> into, std::uint64_t sequence, std::span<const PageEntry> entries) {
  ATOLL_CHECK(into.size() == kHeaderBytes && entries.size() <= kMostAreaPages);
  BatchHeader header{{}, sequence, std::uint32_t(entries.size()), base::crc32c(0, std::as_bytes(entries)), 0, 0};
  std::memcpy(header.magic, kBatchMagic, sizeof(kBatchMagic));
  header.crc = crc_of(header);
  std::memset(into.data(), 0, into.size());
  std::memcpy(into.data(), &header, sizeof(header));
  std::memcpy(into.data() + sizeof(header), entries.data(), entries.size_bytes());
}

Status make_companion(AsyncIo& io, int companion, const std::string& path, std::uint32_t page_bytes) {
  HeaderImage image;
  encode_companion(image, page_bytes);
  int error = -io.truncate(companion, 0);
  // That nothing is in it must be durable before the file is written to: what was in it would come back otherwise.
  if (error == 0) error = -io.sync_now(companion);
  if (error == 0) error = -io.write_now(companion, 0, image);
  if (error == 0) error = -io.sync_now(companion);
  if (error == 0) error = -io.sync_folder(path);
  return error == 0 ? Status() : failure("write", path, error);
}

Result<bool> has_batches(AsyncIo& io, int companion, const std::string& companion_path) {
  const auto shape = read_companion(io, companion, companion_path);
  if (!shape.ok()) return shape.status();
  if (!*shape) return false;
  const auto batches = read_batches(io, companion, companion_path, **shape);
  if (!batches.ok()) return batches.status();
  return !batches->empty();
}

Result<std::uint64_t> replay(AsyncIo& io, int companion, const std::string& companion_path, int file,
                             const std::string& path) {
  const auto shape = read_companion(io, companion, companion_path);
  if (!shape.ok()) return shape.status();
  if (!*shape) return std::uint64_t(0);
  const auto batches = read_batches(io, companion, companion_path, **shape);
  if (!batches.ok()) return batches.status();
  const std::int64_t length = io.length(file);
  if (length < 0) return failure("look at", path, int(-length));

  const std::uint64_t block_bytes = io.block_bytes(file);
  std::set<std::uint64_t> placed;
  std::vector<std::byte> bytes;
  for (const Batch& one : *batches) {
    const auto batch = read_batch(io, companion, companion_path, **shape, one.area, bytes);
    if (!batch.ok()) return batch.status();
    if (!*batch) return damage(companion_path, "it changes while it is read");
    for (std::size_t k = 0; k < one.entries.size(); ++k) {
      const PageEntry& entry = one.entries[k];
      // What is beyond the end was cut off, or its growing was not durable.
      if (entry.offset >= std::uint64_t(length) || !placed.insert(entry.offset).second) continue;
      const std::uint64_t part = std::min<std::uint64_t>(entry.bytes, std::uint64_t(length) - entry.offset);
      const auto page = std::span(bytes).subspan(kHeaderBytes + k * (*shape)->page_bytes, part);
      const int error = -io.write_now(file, entry.offset, page);
      // No space for it: it has none until now, so it was never in its place. Nobody was told that it is.
      if ((error == ENOSPC || error == EDQUOT) && (*shape)->page_bytes <= block_bytes) continue;
      if (error != 0) return failure("write", path, error);
    }
  }
  if (placed.empty()) return std::uint64_t(0);
  if (const int error = -io.sync_now(file); error != 0) return failure("sync", path, error);
  return std::uint64_t(placed.size());
}

}  // namespace atoll::storage
