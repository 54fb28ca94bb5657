// One open file of a page store: how its pages get to the disk whole.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "storage/double_write.hpp"
#include "storage/io_runner.hpp"
#include "storage/page_store.hpp"

namespace atoll::storage {

/// Handles of one file: around the system's page cache where it can be, and through it for what is no whole sector.
struct FileHandles {
  int direct = -1;
  int plain = -1;  // the same as `direct` where that cannot be
};

/// What a file needs of its store.
struct PageFileHost {
  AsyncIo& io;
  IoRunner& runner;
  std::function<void(std::uint64_t tag, Status status)> finish;
};

/// Thread-safety: see PageStore.
/// Invariants:
///   1. One batch at a time is written to the companion; a batch is written in place when it is durable there.
///   2. Areas are used in the order of the ring, and become free in the order in which they were used.
///   3. While an area is owed, nothing new is begun; when nothing is under way, all is put in its place again.
class PageFile {
 public:
  /// `companion` is of a new companion that no batch is in; not used where options.whole is false or it is read-only.
  PageFile(PageFileHost& host, std::string path, const PageFileOptions& options, FileHandles file,
           FileHandles companion, std::uint64_t bytes);
  ~PageFile();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// It has a companion.
  [[nodiscard]] bool is_whole() const { return options_.whole && !options_.read_only; }
  void read(std::uint64_t offset, std::span<std::byte> into, std::uint64_t tag);
  void write(std::vector<PageImage> images, std::uint64_t tag);
  void sync(std::uint64_t tag);
  [[nodiscard]] Status resize(std::uint64_t bytes);
  /// It may be opened again, but must live as long as it has loose ends. REQUIRES: no tag is under way.
  [[nodiscard]] Status close();
  /// All tags have ended, but something that nobody waits for has not.
  [[nodiscard]] bool has_loose_ends() const { return syncing_ > 0; }

 private:
  /// A write until all its pages have ended.
  struct Write {
    std::uint64_t tag = 0;
    std::uint64_t pages = 0;
    Status status;
  };
  struct Page {
    std::uint64_t offset = 0;
    const std::byte* bytes = nullptr;
    std::uint32_t length = 0;  // of it that the file has
    std::shared_ptr<Write> write;
  };
  struct Area {
    AreaState state = AreaState::kFree;
    std::uint64_t sequence = 0;
    std::vector<Page> pages;  // until they are in place
  };
  struct Run {
    int handle = -1;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::size_t first_page = 0;
    std::size_t pages = 0;
    std::vector<iovec> parts;
  };
  struct Placement;

  [[nodiscard]] const char* what_is_wrong(const std::vector<PageImage>& images) const;
  [[nodiscard]] bool has_overlap(const std::vector<PageImage>& images) const;
  [[nodiscard]] std::vector<Page> pages_of(const std::vector<PageImage>& images, std::uint64_t tag);

  /// Begins what can begin.
  void advance();
  void start_batch();
  void log_ended(Area& area, int error);
  void secured(Area& area, int error);
  [[nodiscard]] std::vector<Run> runs_of(const std::vector<Page>& pages) const;
  static void add_part(Run& run, const std::byte* at, std::uint64_t bytes);
  /// `ended(failed)` when all is with the system; pages that failed say so to their writes.
  void place(std::vector<Page> pages, std::function<void(bool failed)> ended);
  [[nodiscard]] bool may_tear(int error) const;
  void end_pages(std::vector<Page>& pages);

  void start_sync(bool has_tag, std::uint64_t tag);
  void sync_ended(std::uint64_t covers, int error);
  [[nodiscard]] bool wants_sync() const;
  [[nodiscard]] bool is_owed() const;
  [[nodiscard]] bool is_quiet() const;
  void start_repair();
  void repaired(Status status);
  /// Waits for the disk: all that was written is in its place, and durable there.
  [[nodiscard]] Status settle();
  [[nodiscard]] Status end_companion();
  void apply(Area& area, AreaEvent event) { area.state = next_state(area.state, event); }
  /// The area at next_area_ is the oldest, or the newest while its batch is being logged.
  [[nodiscard]] std::uint32_t oldest_area() const { return next_area_ + (logging_ ? 1 : 0); }
  /// Oldest first; stops where it gives false.
  template <typename F>
  void each_used(F&& visit);

  PageFileHost& host_;
  const std::string path_;
  const std::string companion_path_;
  const PageFileOptions options_;
  const FileHandles file_;
  const FileHandles companion_;
  std::uint64_t bytes_;
  std::uint64_t block_bytes_;
  std::unordered_set<std::uint64_t> busy_;  // offsets of pages with a write under way

  std::array<Area, kAreas> areas_;
  std::uint32_t next_area_ = 0;
  std::uint64_t next_sequence_ = 1;
  bool logging_ = false;
  std::deque<Page> queued_;
  std::deque<std::uint64_t> syncs_;  // tags that have not begun
  std::uint32_t syncing_ = 0;
  bool repairing_ = false;
  Status repair_status_;
  std::unique_ptr<HeaderImage, void (*)(HeaderImage*)> header_;  // at a multiple of 4096
};

}  // namespace atoll::storage
