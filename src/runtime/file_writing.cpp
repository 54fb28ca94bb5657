// Changed pages on their way to their files.
#include <algorithm>
#include <cstring>

#include "base/log.hpp"
#include "coherence/lock_word.hpp"
#include "runtime/files.hpp"

namespace atoll::runtime {

using coherence::DirState;

namespace {
constexpr std::uint64_t kMostTogether_bytes = 1 << 20;  // in one write
constexpr std::uint32_t kMostTogether = 64;             // pages
constexpr std::uint32_t kMostUnderWay = 4;              // writes of one file
}  // namespace

bool Files::is_changed(const Open& file, std::uint64_t number) {
  bool changed = false;
  for_each_line_of(file, number, [&](const LineRef& ref, std::uint8_t line) {
    changed = changed || ((frames_[number].held & line) != 0 && !coherence::Protocol::is_filed(ref));
  });
  return changed;
}

/// Begins to write the first of these pages, as many as go together; those that are locked, or not changed any more,
/// are left out. How many of them it has looked at. REQUIRES: all of one file, none under way.
std::uint32_t Files::write_back(Open& file, std::span<const std::uint64_t> frames, FlushJob* job) {
  std::uint32_t looked = 0;
  if (file.page_bytes != file.line_bytes) {
    for (const std::uint64_t number : frames) {
      if (looked == kMostTogether) break;
      ++looked;
      if (is_changed(file, number)) begin_patch(file, number, job);
    }
    return looked;
  }
  const std::uint64_t most = std::clamp<std::uint64_t>(kMostTogether_bytes / file.page_bytes, 1, kMostTogether);
  Operation operation;
  operation.what = Operation::What::kWrite;
  operation.file = file.first;
  operation.job = job;
  operation.buffer = make_buffer(std::min<std::uint64_t>(most, frames.size()) * file.page_bytes);
  std::vector<storage::PageImage> images;
  for (const std::uint64_t number : frames) {
    if (operation.frames.size() == most) break;
    ++looked;
    const LineRef ref = lines_.ref(GlobalAddress::make(self_, offset_of(number)));
    if (coherence::Protocol::is_filed(ref) || frames_[number].held == 0) continue;
    if (!protocol_.file(ref)) {
      if (job != nullptr) job->left.push_back(number);  // its lock will be over
      continue;
    }
    // A copy: threads may write the line again while the disk works.
    std::byte* const image = operation.buffer.get() + operation.frames.size() * file.page_bytes;
    std::memcpy(image, segment_.memory() + offset_of(number), file.page_bytes);
    images.push_back({offset_of(number) - file.first, {image, file.page_bytes}});
    operation.frames.push_back(number);
    frames_[number].flags |= kWriting;
  }
  if (images.empty()) return looked;
  if (job != nullptr) ++job->under_way;
  ++file.writes_under_way;
  counters_.file_writes.add(images.size());
  const std::uint32_t tag = take_operation(std::move(operation));
  send_now_ = true;
  store_->write(file.number, std::move(images), tag);
  return looked;
}

/// A page of several lines, some of which may be elsewhere: as it is in the file, with the lines over it that are here.
void Files::begin_patch(Open& file, std::uint64_t number, FlushJob* job) {
  frames_[number].flags |= kWriting;
  Operation operation;
  operation.what = Operation::What::kPatch;
  operation.file = file.first;
  operation.job = job;
  operation.frames = {number};
  operation.buffer = make_buffer(file.page_bytes);
  if (job != nullptr) ++job->under_way;
  ++file.writes_under_way;
  std::byte* const into = operation.buffer.get();
  const std::uint32_t tag = take_operation(std::move(operation));
  send_now_ = true;
  store_->read(file.number, offset_of(number) - file.first, {into, file.page_bytes}, tag);
}

void Files::end_patch(Operation& operation) {
  Open& file = *find(operation.file);
  const std::uint64_t number = operation.frames.front();
  bool any = false, locked = false;
  if (operation.status.ok()) {
    for_each_line_of(file, number, [&](const LineRef& ref, std::uint8_t line) {
      if ((frames_[number].held & line) == 0 || coherence::Protocol::is_filed(ref)) return;
      if (!protocol_.file(ref)) {
        locked = true;
        return;
      }
      any = true;
      std::memcpy(operation.buffer.get() + ref.address.offset() % file.page_bytes,
                  segment_.memory() + ref.address.offset(), ref.bytes);
    });
  }
  if (locked && operation.job != nullptr) operation.job->left.push_back(number);
  if (!any) return end_write(operation);
  operation.what = Operation::What::kWrite;
  const storage::PageImage image{offset_of(number) - file.first, {operation.buffer.get(), file.page_bytes}};
  counters_.file_writes.add();
  const std::uint32_t tag = take_operation(std::move(operation));
  send_now_ = true;
  store_->write(file.number, {image}, tag);
}

void Files::end_write(Operation& operation) {
  Open& file = *find(operation.file);
  --file.writes_under_way;
  const bool failed = !operation.status.ok();
  if (failed && !file.failing) {
    spdlog::error("{}: {} changed pages cannot be written, and stay in memory: {}", file.path, operation.frames.size(),
                  operation.status.to_string());
  }
  file.failing = failed;
  for (const std::uint64_t number : operation.frames) {
    frames_[number].flags &= std::uint8_t(~kWriting);
    if (!failed) continue;
    for_each_line_of(file, number, [&](const LineRef& ref, std::uint8_t line) {
      if ((frames_[number].held & line) != 0) protocol_.soil(ref);
    });
  }
  if (operation.job == nullptr) return;
  --operation.job->under_way;
  if (!failed) return;
  operation.job->status = operation.status;
  operation.job->left.clear();
}

/// Changed pages that were in the way of others, in the order of the disk.
void Files::write_marked() {
  if (marked_.empty()) return;
  std::sort(marked_.begin(), marked_.end());
  marked_.erase(std::unique(marked_.begin(), marked_.end()), marked_.end());
  std::vector<std::uint64_t> of_one;
  for (auto& [first, file] : open_) {
    if (file.writes_under_way >= kMostUnderWay || (file.failing && file.writes_under_way > 0)) continue;
    of_one.clear();
    for (const std::uint64_t number : marked_) {
      const std::uint64_t offset = offset_of(number);
      const bool under_way = (frames_[number].flags & (kReading | kWriting)) != 0;
      if (offset >= first && offset < first + file.reserved && !under_way) of_one.push_back(number);
    }
    if (file.read_only) {
      for (const std::uint64_t number : of_one) {
        if (!file.failing) spdlog::warn("{}: changes of a file that was opened to be read are dropped", file.path);
        file.failing = true;
        for_each_line_of(file, number, [&](const LineRef& ref, std::uint8_t) { (void)protocol_.file(ref); });
      }
      continue;
    }
    std::span<const std::uint64_t> left(of_one);
    while (!left.empty() && file.writes_under_way < kMostUnderWay) left = left.subspan(write_back(file, left, nullptr));
  }
  marked_.clear();
}

void Files::begin_flush(FlushJob& job, std::uint64_t from, std::uint64_t to) {
  Open& file = *find(job.first);
  for (std::uint64_t at = from / file.page_bytes * file.page_bytes; at < to; at += file.page_bytes) {
    const std::uint64_t number = frame_of(file, file.first + at);
    const bool writing = (frames_[number].flags & kWriting) != 0;
    if (frames_[number].held != 0 && (writing || is_changed(file, number))) job.left.push_back(number);
  }
  jobs_.push_back(&job);
  busy_.store(true, std::memory_order_relaxed);
}

void Files::abandon(FlushJob& job) {
  std::erase(jobs_, &job);
  for (Operation& operation : operations_) {
    if (operation.job == &job) operation.job = nullptr;
  }
}

bool Files::advance_jobs() {
  bool any = false;
  for (std::size_t i = 0; i < jobs_.size();) {
    FlushJob* const job = jobs_[i];
    const bool ends = job->under_way == 0 && job->left.empty() && (job->syncing || !job->status.ok());
    if (ends) jobs_.erase(jobs_.begin() + std::ptrdiff_t(i));
    any = advance(*job) || any;
    if (!ends) ++i;
  }
  return any;
}

/// Writes what is left of the job, as much as may be under way at once.
void Files::write_some(FlushJob& job, Open& file) {
  std::vector<std::uint64_t> ready;
  for (std::size_t looks = job.left.size(); looks > 0 && job.under_way < kMostUnderWay; --looks) {
    const std::uint64_t number = job.left.front();
    job.left.pop_front();
    if ((frames_[number].flags & (kReading | kWriting)) != 0) {
      job.left.push_back(number);  // written once more, if it is still changed when that is over
    } else if (is_changed(file, number)) {
      ready.push_back(number);
    }
    if (ready.size() < kMostTogether && looks > 1) continue;
    std::span<const std::uint64_t> rest(ready);
    while (!rest.empty()) rest = rest.subspan(write_back(file, rest, &job));
    ready.clear();
  }
  job.left.insert(job.left.end(), ready.begin(), ready.end());
}

/// True: something has begun, or ended.
bool Files::advance(FlushJob& job) {
  Open& file = *find(job.first);
  if (!job.syncing) {
    const std::uint32_t before = job.under_way;
    write_some(job, file);
    if (job.under_way > 0 || !job.left.empty()) return job.under_way > before;
    if (job.status.ok()) {
      job.syncing = true;
      job.under_way = 1;
      Operation operation;
      operation.what = Operation::What::kSync;
      operation.file = file.first;
      operation.job = &job;
      const std::uint32_t tag = take_operation(std::move(operation));
      send_now_ = true;
      store_->sync(file.number, tag);
      return true;
    }
  }
  if (job.under_way > 0) return false;
  ThreadState* const thread = job.thread;
  job.done.store(true, std::memory_order_release);  // nobody has it after this but who waits
  thread->notify();
  return true;
}

}  // namespace atoll::runtime
