// The companion of a file of whole pages: each batch of pages is written and synced there before it is written in
// place, so that a crash leaves one whole copy of each page at least. docs/formats.md has its bytes.
//
// Its areas are used one behind the other, in a ring, and one batch at a time is written there. An area is used again
// only when the batch in it is in place and synced, and all before it are. So the batches that a crash leaves whole are
// the last ones, without a gap: of each page that is in any of them, the newest is the newest there is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "atoll/status.hpp"
#include "storage/async_io.hpp"

namespace atoll::storage {

inline constexpr std::uint32_t kAreas = 8;
inline constexpr std::size_t kHeaderBytes = 4096;  // of the companion, and of each area
inline constexpr std::uint32_t kCompanionVersion = 1;

/// At its beginning.
struct CompanionHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t page_bytes;
  std::uint32_t areas;
  std::uint32_t area_pages;
  std::uint32_t zero;
  std::uint32_t crc;  // of what stands before
};
static_assert(sizeof(CompanionHeader) == 32);

/// At the beginning of an area; `count` entries behind it; the pages follow after kHeaderBytes.
struct BatchHeader {
  char magic[8];
  std::uint64_t sequence;
  std::uint32_t count;
  std::uint32_t entries_crc;
  std::uint32_t zero;
  std::uint32_t crc;  // of what stands before
};
static_assert(sizeof(BatchHeader) == 32);

struct PageEntry {
  std::uint64_t offset;  // in the file
  std::uint32_t bytes;   // how much of the page the file has: less than all of it at its end
  std::uint32_t crc;     // of the whole page
};
static_assert(sizeof(PageEntry) == 16);

inline constexpr std::uint32_t kMostAreaPages = 250;
static_assert(sizeof(BatchHeader) + kMostAreaPages * sizeof(PageEntry) <= kHeaderBytes);

/// About a megabyte, and four pages at least.
[[nodiscard]] std::uint32_t area_pages(std::uint32_t page_bytes);
[[nodiscard]] std::uint64_t area_offset(std::uint32_t page_bytes, std::uint32_t area);
using HeaderImage = std::array<std::byte, kHeaderBytes>;
void encode_companion(HeaderImage& into, std::uint32_t page_bytes);
/// REQUIRES: into is kHeaderBytes, and so many entries fit.
void encode_batch(std::span<std::byte> into, std::uint64_t sequence, std::span<const PageEntry> entries);

/// Makes it anew: no batch is in it. Its name is durable too.
[[nodiscard]] Status make_companion(AsyncIo& io, int companion, const std::string& path, std::uint32_t page_bytes);
/// Puts the newest whole copy of each page in its place and syncs the file. What is torn is left out, for its page is
/// whole where it belongs. How many pages it was. `file` and `companion` are not opened for direct I/O; nothing writes
/// to either at the same time.
[[nodiscard]] Result<std::uint64_t> replay(AsyncIo& io, int companion, const std::string& companion_path, int file,
                                           const std::string& path);
/// Is there any batch in it that replay() would put in its place?
[[nodiscard]] Result<bool> has_batches(AsyncIo& io, int companion, const std::string& companion_path);

// ---- what an area is for ----

enum class AreaState : std::uint8_t {
  kFree,      // what is in it is not needed
  kLogging,   // its batch is being written to it
  kSecuring,  // and synced
  kPlacing,   // and written in place
  kSpoiled,   // the same, but some of that has failed, or what was done is perhaps lost
  kPlaced,    // in place, but not synced there
  kOwed,      // nobody knows what is in place: it must be written there again from here
};
enum class AreaEvent : std::uint8_t {
  kTaken,       // a batch was given to it
  kAdvanced,    // what was under way has ended well
  kFailed,      // something under way has failed, or a sync of the file while this was written in place
  kEnded,       // nothing is under way any more
  kSynced,      // a sync of the file has ended well that began when this batch and all before were in place
  kSyncFailed,  // a sync of the file has failed
  kRepaired,    // all is in its place, and synced
};
inline constexpr std::size_t kAreaStates = 7;
inline constexpr std::size_t kAreaEvents = 7;

/// ATOLL_CHECKs that the event may be.
[[nodiscard]] AreaState next_state(AreaState state, AreaEvent event);
/// False: the event is our own bug.
[[nodiscard]] bool may_be(AreaState state, AreaEvent event);

}  // namespace atoll::storage
