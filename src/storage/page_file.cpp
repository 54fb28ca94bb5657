#include "storage/page_file.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.hpp"
#include "base/crc32c.hpp"
#include "storage/failure.hpp"

namespace atoll::storage {
namespace {

constexpr std::size_t kMostParts = 512;            // of one request; the system takes 1024
constexpr std::uint64_t kMostRunBytes = 16 << 20;  // so that one of a whole file does not keep all others waiting
constexpr std::uint32_t kSyncAt = kAreas / 2;  // areas that wait for a sync: the other half is used until it has ended

HeaderImage* new_header() {
  void* const at = std::aligned_alloc(kPageAlignment, sizeof(HeaderImage));
  if (at == nullptr) throw std::bad_alloc();
  return new (at) HeaderImage;
}

void free_header(HeaderImage* header) {
  std::free(header);  // it has no destructor
}

bool is_aligned(std::uint64_t number, std::uint64_t to) {
  return number % to == 0;
}

iovec part_of(const std::byte* at, std::uint64_t bytes) {
  return {const_cast<std::byte*>(at), bytes};  // writev() does not write there
}

}  // namespace

/// Pages on their way to their place.
struct PageFile::Placement {
  std::vector<Page> pages;
  std::vector<Run> runs;
  std::size_t under_way = 0;
  bool failed = false;
  std::function<void(bool)> ended;
};

PageFile::PageFile(PageFileHost& host, std::string path, const PageFileOptions& options, FileHandles file,
                   FileHandles companion, std::uint64_t bytes)
    : host_(host),
      path_(std::move(path)),
      companion_path_(path_ + kCompanionSuffix),
      options_(options),
      file_(file),
      companion_(companion),
      bytes_(bytes),
      block_bytes_(host.io.block_bytes(file.plain)),
      header_(new_header(), free_header) {}

PageFile::~PageFile() {
  for (const FileHandles& one : {file_, companion_}) {
    if (one.direct != one.plain) host_.io.close(one.direct);
    host_.io.close(one.plain);
  }
}

// ---- reads ----

void PageFile::read(std::uint64_t offset, std::span<std::byte> into, std::uint64_t tag) {
  if (!is_aligned(offset, options_.page_bytes) || !is_aligned(into.size(), options_.page_bytes) ||
      !is_aligned(std::uint64_t(reinterpret_cast<std::uintptr_t>(into.data())), kPageAlignment)) {
    return host_.finish(tag, {Errc::kInvalidArgument,
                              "what is read of a file of pages is whole pages, in memory at a "
                              "multiple of 4096"});
  }
  const std::uint64_t there = offset < bytes_ ? std::min<std::uint64_t>(bytes_ - offset, into.size()) : 0;
  std::memset(into.data() + there, 0, into.size() - there);
  if (there == 0) return host_.finish(tag, {});
  const auto ended = [this, offset, into, there, tag](int error, std::uint64_t moved) {
    if (error != 0) return host_.finish(tag, failure("read", path_, error));
    const std::uint64_t still = offset < bytes_ ? std::min(bytes_ - offset, there) : 0;  // it may be shorter by now
    if (moved < still) return host_.finish(tag, damage(path_, "it ends too early: somebody else has cut it off"));
    // Direct I/O has perhaps read what is behind the end in the last sector.
    std::memset(into.data() + still, 0, into.size() - still);
    host_.finish(tag, {});
  };
  host_.runner.transfer(IoKind::kRead, file_.direct, offset, {{into.data(), into.size()}}, there, ended);
}

// ---- writes ----

const char* PageFile::what_is_wrong(const std::vector<PageImage>& images) const {
  if (options_.read_only) return "the file was opened for reading only";
  for (const PageImage& image : images) {
    if (!is_aligned(image.offset, options_.page_bytes) || !is_aligned(image.bytes.size(), options_.page_bytes) ||
        !is_aligned(std::uint64_t(reinterpret_cast<std::uintptr_t>(image.bytes.data())), kPageAlignment)) {
      return "what is written to a file of pages is whole pages, in memory at a multiple of 4096";
    }
    if (image.bytes.empty()) continue;
    const std::uint64_t last = image.offset + image.bytes.size() - options_.page_bytes;
    if (last >= bytes_ || last < image.offset) return "a page is beyond the end of the file: resize it first";
    for (std::uint64_t at = image.offset; at <= last; at += options_.page_bytes) {
      if (busy_.contains(at)) return "a write of the same page is under way: wait for it";
    }
  }
  return has_overlap(images) ? "two images of one write have the same page" : nullptr;
}

bool PageFile::has_overlap(const std::vector<PageImage>& images) const {
  if (images.size() < 2) return false;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const PageImage& image : images) {
    if (!image.bytes.empty()) ranges.emplace_back(image.offset, image.offset + image.bytes.size());
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t k = 1; k < ranges.size(); ++k) {
    if (ranges[k].first < ranges[k - 1].second) return true;
  }
  return false;
}

std::vector<PageFile::Page> PageFile::pages_of(const std::vector<PageImage>& images, std::uint64_t tag) {
  const auto write = std::make_shared<Write>();
  write->tag = tag;
  std::vector<Page> pages;
  for (const PageImage& image : images) {
    for (std::uint64_t at = 0; at < image.bytes.size(); at += options_.page_bytes) {
      const std::uint64_t offset = image.offset + at;
      const auto length = std::uint32_t(std::min<std::uint64_t>(options_.page_bytes, bytes_ - offset));
      pages.push_back({offset, image.bytes.data() + at, length, write});
      busy_.insert(offset);
    }
  }
  write->pages = pages.size();
  return pages;
}

void PageFile::write(std::vector<PageImage> images, std::uint64_t tag) {
  if (const char* const wrong = what_is_wrong(images); wrong != nullptr) {
    return host_.finish(tag, {Errc::kInvalidArgument, wrong});
  }
  std::vector<Page> pages = pages_of(images, tag);
  if (pages.empty()) return host_.finish(tag, {});
  if (!is_whole()) return place(std::move(pages), [](bool) {});
  queued_.insert(queued_.end(), std::make_move_iterator(pages.begin()), std::make_move_iterator(pages.end()));
  advance();
}

void PageFile::end_pages(std::vector<Page>& pages) {
  for (Page& page : pages) {
    busy_.erase(page.offset);
    if (--page.write->pages == 0) host_.finish(page.write->tag, page.write->status);
  }
  pages.clear();
}

void PageFile::advance() {
  if (repairing_) return;
  if (is_owed()) {
    if ((!queued_.empty() || !syncs_.empty()) && is_quiet()) start_repair();
    return;
  }
  for (; !syncs_.empty(); syncs_.pop_front()) start_sync(true, syncs_.front());
  if (!logging_ && !queued_.empty() && areas_[next_area_].state == AreaState::kFree) start_batch();
  if (wants_sync()) start_sync(false, 0);
}

void PageFile::start_batch() {
  const std::uint32_t index = next_area_;
  Area& area = areas_[index];
  const std::size_t count = std::min<std::size_t>(queued_.size(), area_pages(options_.page_bytes));
  area.pages.assign(std::make_move_iterator(queued_.begin()),
                    std::make_move_iterator(queued_.begin() + std::ptrdiff_t(count)));
  queued_.erase(queued_.begin(), queued_.begin() + std::ptrdiff_t(count));
  area.sequence = next_sequence_++;
  apply(area, AreaEvent::kTaken);
  logging_ = true;

  std::vector<PageEntry> entries;
  std::vector<iovec> parts{part_of(header_->data(), header_->size())};
  for (const Page& page : area.pages) {
    entries.push_back({page.offset, page.length, base::crc32c(0, {page.bytes, options_.page_bytes})});
    parts.push_back(part_of(page.bytes, options_.page_bytes));
  }
  encode_batch(*header_, area.sequence, entries);
  const std::uint64_t bytes = kHeaderBytes + std::uint64_t(count) * options_.page_bytes;
  host_.runner.transfer(IoKind::kWrite, companion_.direct, area_offset(options_.page_bytes, index), std::move(parts),
                        bytes, [this, &area](int error, std::uint64_t) { log_ended(area, error); });
}

void PageFile::log_ended(Area& area, int error) {
  if (error != 0) return secured(area, error);
  apply(area, AreaEvent::kAdvanced);
  host_.runner.sync(companion_.direct, [this, &area](int failed, std::uint64_t) { secured(area, failed); });
}

void PageFile::secured(Area& area, int error) {
  logging_ = false;
  if (error != 0) {
    apply(area, AreaEvent::kFailed);  // the next batch is written to the same area
    const Status status = failure("write", companion_path_, error);
    for (Page& page : area.pages) page.write->status = status;
    std::vector<Page> pages = std::move(area.pages);
    end_pages(pages);
    return advance();
  }
  apply(area, AreaEvent::kAdvanced);
  next_area_ = (next_area_ + 1) % kAreas;
  place(std::move(area.pages), [this, &area](bool failed) {
    if (failed) apply(area, AreaEvent::kFailed);
    apply(area, AreaEvent::kEnded);
    advance();
  });
  advance();
}

// ---- in place ----

void PageFile::add_part(Run& run, const std::byte* at, std::uint64_t bytes) {
  run.bytes += bytes;
  if (!run.parts.empty()) {
    iovec& last = run.parts.back();
    if (static_cast<const std::byte*>(last.iov_base) + last.iov_len == at) {
      last.iov_len += bytes;
      return;
    }
  }
  run.parts.push_back(part_of(at, bytes));
}

/// Pages that stand one behind the other are written together. What is no whole sector, at the end of the file, cannot
/// be written around the page cache.
std::vector<PageFile::Run> PageFile::runs_of(const std::vector<Page>& pages) const {
  std::vector<Run> runs;
  for (std::size_t k = 0; k < pages.size(); ++k) {
    const Page& page = pages[k];
    const std::uint64_t rest = file_.direct == file_.plain ? 0 : page.length % kPageAlignment;
    const std::uint64_t whole = page.length - rest;
    if (whole > 0) {
      const bool goes_on = !runs.empty() && runs.back().offset + runs.back().bytes == page.offset &&
                           runs.back().parts.size() < kMostParts && runs.back().bytes < kMostRunBytes;
      if (!goes_on) runs.push_back({file_.direct, page.offset, 0, k, 0, {}});
      add_part(runs.back(), page.bytes, whole);
      ++runs.back().pages;
    }
    if (rest > 0) {
      runs.push_back({file_.plain, page.offset + whole, 0, k, 1, {}});
      add_part(runs.back(), page.bytes + whole, rest);
    }
  }
  return runs;
}

/// No page of the file system's blocks is half allocated: where there was no space for it, it is as it was.
bool PageFile::may_tear(int error) const {
  return !((error == ENOSPC || error == EDQUOT) && options_.page_bytes <= block_bytes_);
}

void PageFile::place(std::vector<Page> pages, std::function<void(bool failed)> ended) {
  std::sort(pages.begin(), pages.end(), [](const Page& a, const Page& b) { return a.offset < b.offset; });
  const auto all = std::make_shared<Placement>();
  all->pages = std::move(pages);
  all->runs = runs_of(all->pages);
  all->under_way = all->runs.size();
  all->ended = std::move(ended);
  for (std::size_t k = 0; k < all->runs.size(); ++k) {
    Run& run = all->runs[k];
    const auto then = [this, all, k](int error, std::uint64_t) {
      const Run& done = all->runs[k];
      if (error != 0) {
        all->failed |= may_tear(error);
        const Status status = failure("write", path_, error);
        for (std::size_t p = 0; p < done.pages; ++p) all->pages[done.first_page + p].write->status = status;
      }
      if (--all->under_way > 0) return;
      end_pages(all->pages);
      all->ended(all->failed);
    };
    host_.runner.transfer(IoKind::kWrite, run.handle, run.offset, std::move(run.parts), run.bytes, then);
  }
}

// ---- syncs ----

template <typename F>
void PageFile::each_used(F&& visit) {
  for (std::uint32_t k = 0; k < kAreas; ++k) {
    Area& area = areas_[(oldest_area() + k) % kAreas];
    if (area.state != AreaState::kFree && !visit(area)) return;
  }
}

void PageFile::sync(std::uint64_t tag) {
  syncs_.push_back(tag);
  advance();
}

bool PageFile::wants_sync() const {
  if (syncing_ > 0) return false;
  std::uint32_t placed = 0;
  for (std::uint32_t k = 0; k < kAreas; ++k) {
    const AreaState state = areas_[(oldest_area() + k) % kAreas].state;
    if (state == AreaState::kFree) continue;
    if (state != AreaState::kPlaced) break;
    ++placed;
  }
  return placed >= kSyncAt;
}

void PageFile::start_sync(bool has_tag, std::uint64_t tag) {
  std::uint64_t covers = 0;  // batches with lower sequences
  each_used([&covers](const Area& area) {
    if (area.state != AreaState::kPlaced) return false;
    covers = area.sequence + 1;
    return true;
  });
  ++syncing_;
  host_.runner.sync(file_.plain, [this, covers, has_tag, tag](int error, std::uint64_t) {
    sync_ended(covers, error);
    if (has_tag) host_.finish(tag, error == 0 ? Status() : failure("sync", path_, error));
    advance();
  });
}

void PageFile::sync_ended(std::uint64_t covers, int error) {
  --syncing_;
  if (error != 0) {
    if (!is_whole()) return;
    for (Area& area : areas_) apply(area, AreaEvent::kSyncFailed);
    return;
  }
  each_used([this, covers](Area& area) {
    if (area.state != AreaState::kPlaced || area.sequence >= covers) return false;
    apply(area, AreaEvent::kSynced);
    return true;
  });
}

// ---- after a failure ----

bool PageFile::is_owed() const {
  return std::any_of(areas_.begin(), areas_.end(),
                     [](const Area& a) { return a.state == AreaState::kOwed || a.state == AreaState::kSpoiled; });
}

bool PageFile::is_quiet() const {
  return syncing_ == 0 && std::all_of(areas_.begin(), areas_.end(), [](const Area& area) {
           return area.state == AreaState::kFree || area.state == AreaState::kPlaced || area.state == AreaState::kOwed;
         });
}

void PageFile::start_repair() {
  repairing_ = true;
  const auto work = [this] {
    repair_status_ = replay(host_.io, companion_.plain, companion_path_, file_.plain, path_).status();
    return 0;
  };
  host_.runner.call(work, [this](int, std::uint64_t) { repaired(repair_status_); });
}

void PageFile::repaired(Status status) {
  repairing_ = false;
  if (status.ok()) {
    for (Area& area : areas_) apply(area, AreaEvent::kRepaired);
    return advance();
  }
  std::vector<Page> pages(std::make_move_iterator(queued_.begin()), std::make_move_iterator(queued_.end()));
  queued_.clear();
  for (Page& page : pages) page.write->status = status;
  end_pages(pages);
  for (; !syncs_.empty(); syncs_.pop_front()) host_.finish(syncs_.front(), status);
}

Status PageFile::settle() {
  if (!is_whole()) return {};
  const bool is_clean =
      std::all_of(areas_.begin(), areas_.end(), [](const Area& area) { return area.state == AreaState::kFree; });
  if (is_clean) return {};
  if (is_owed()) {
    const auto done = replay(host_.io, companion_.plain, companion_path_, file_.plain, path_);
    if (!done.ok()) return done.status();
  } else if (const int error = -host_.io.sync_now(file_.plain); error != 0) {
    for (Area& area : areas_) apply(area, AreaEvent::kSyncFailed);
    return failure("sync", path_, error);
  }
  for (Area& area : areas_) apply(area, AreaEvent::kRepaired);
  return {};
}

// ---- length and end ----

Status PageFile::resize(std::uint64_t bytes) {
  if (options_.read_only) return {Errc::kInvalidArgument, "the file was opened for reading only"};
  if (bytes < bytes_) {
    if (!busy_.empty())
      return {Errc::kInvalidArgument, "a write is under way: wait for it before the file gets shorter"};
    // Copies of what is cut off must not come back when the file grows again.
    if (repairing_) return {Errc::kInvalidArgument, "the file is being repaired: wait for what is under way"};
    if (const Status status = settle(); !status.ok()) return status;
    if (is_whole()) {
      const Status status = make_companion(host_.io, companion_.plain, companion_path_, options_.page_bytes);
      if (!status.ok()) return status;
      next_area_ = 0;
    }
  }
  if (const int error = -host_.io.truncate(file_.plain, bytes); error != 0) return failure("resize", path_, error);
  bytes_ = bytes;
  return {};
}

Status PageFile::close() {
  ATOLL_CHECK(busy_.empty() && syncs_.empty());
  if (!is_whole()) return {};
  const Status status = end_companion();
  host_.io.unlock(file_.plain);
  return status;
}

Status PageFile::end_companion() {
  if (const Status status = settle(); !status.ok()) return status;  // the next open() repairs it
  int error = -host_.io.remove(companion_path_);
  if (error == ENOENT) error = 0;
  // If it came back after a crash, its copies would be put over what was written since.
  if (error == 0) error = -host_.io.sync_folder(companion_path_);
  return error == 0 ? Status() : failure("remove", companion_path_, error);
}

}  // namespace atoll::storage
