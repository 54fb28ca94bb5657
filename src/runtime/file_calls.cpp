// What is done with files as a whole, by threads of their node and for others: open, close, resize, flush, unlink. What
// is done with their bytes is done as with any memory. See docs/files.md.
//
// A node that wants something done elsewhere writes what it wants into its own memory and sends the address; a thread
// of the file's node reads it there, does it, and sends the answer. So a path needs no place in a message, and whoever
// does it may wait.
#include <poll.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/log.hpp"
#include "coherence/lock_word.hpp"
#include "runtime/file_calls.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

using coherence::DirState;
using coherence::OpKind;
using wire::Kind;

namespace {

constexpr std::chrono::seconds kMostPatience{30};       // for locks of others, and nodes that do not answer
constexpr std::chrono::microseconds kBetweenLooks{50};  // at what is still away
constexpr std::uint64_t kPiece_bytes = 64 << 20;        // of a file that is looked at in one go
constexpr std::size_t kTogether = 32;                   // lines that are fetched from their owners at once
constexpr std::uint32_t kIdle_us = 100'000;
constexpr std::size_t kMostCalls = 1 << 16;  // of other nodes that wait
constexpr int kPoll_ms = 100;
constexpr std::chrono::microseconds kDrivenStandBy{200};

constexpr const char* kNoSuchFile = "no file is open here: open it at this node first";
constexpr const char* kNoFileSpace = "that node was joined without --file-space: it can open no files";

/// What an error of a file's node is here. Texts do not travel; that node's log has more.
Status status_of(const FileAnswer& answer, NodeId node) noexcept {
  switch (answer.code) {
    case Errc::kOk: return {};
    case Errc::kNotFound: return {Errc::kNotFound, "there is no such file", node};
    case Errc::kAlreadyExists: return {Errc::kAlreadyExists, "the file is there, or another process has it open", node};
    case Errc::kStorageFull: return {Errc::kStorageFull, "the disk is full", node};
    case Errc::kStorage: return {Errc::kStorage, "the file cannot be used so; the log of its node says why", node};
    case Errc::kOutOfMemory:
      return {Errc::kOutOfMemory, "no address space for so long a file: reserve less, or join with more --file-space",
              node};
    case Errc::kInvalidArgument:
    case Errc::kNullAddress:
    case Errc::kBadAddress:
    case Errc::kNotAllocated:
    case Errc::kCacheFull:
    case Errc::kNotHeld:
    case Errc::kWouldDeadlock:
    case Errc::kRefused:
    case Errc::kDeadline:
    case Errc::kNodeDied:
    case Errc::kInDoubt:
    case Errc::kClusterDown:
    case Errc::kFenced: break;
  }
  return {answer.code, "refused by the file's node, whose log says why", node};
}

/// What travels of the options, and back.
void pack(const FileOptions& options, FileRequest& request) noexcept {
  request.reserve_bytes = options.reserve_bytes;
  request.page_bytes = options.page_bytes;
  request.flags = (options.create ? FileRequest::kCreate : 0u) | (options.exclusive ? FileRequest::kExclusive : 0u) |
                  (options.read_only ? FileRequest::kReadOnly : 0u) | (options.direct ? 0u : FileRequest::kBuffered) |
                  (options.whole_pages ? 0u : FileRequest::kTorn);
}
FileOptions options_in(const FileRequest& request) noexcept {
  FileOptions options;
  options.create = (request.flags & FileRequest::kCreate) != 0;
  options.exclusive = (request.flags & FileRequest::kExclusive) != 0;
  options.read_only = (request.flags & FileRequest::kReadOnly) != 0;
  options.direct = (request.flags & FileRequest::kBuffered) == 0;
  options.whole_pages = (request.flags & FileRequest::kTorn) == 0;
  options.page_bytes = request.page_bytes;
  options.reserve_bytes = request.reserve_bytes;
  return options;
}

}  // namespace

void FileCalls::start() {
  if (node_.files_ == nullptr) return;
  if (node_.nodes_ > 1) server_ = node_.host_.start([this] { serve(); });
  const bool simulated = !node_.host_.work_takes_time();  // its disks wake nobody
  if (node_.files_->wake_fd() >= 0 || simulated) disk_watcher_ = node_.host_.start([this] { watch_disk(); });
}

/// REQUIRES: the node is stopping.
void FileCalls::stop() {
  bell_.fetch_add(1, std::memory_order_release);
  node_.host_.wake(bell_, base::FutexScope::kProcess);
  server_.reset();
  disk_watcher_.reset();
}

/// Pages arrive also while no thread waits for one, and what was asked for ahead must be sent: somebody must see to it.
/// Threads that wait do so themselves.
void FileCalls::watch_disk() {
  pollfd wake{node_.files_->wake_fd(), POLLIN, 0};
  while (!node_.stopping_.load(std::memory_order_acquire)) {
    const bool awaited =
        node_.waiters_.load(std::memory_order_relaxed) > node_.sleepers_.load(std::memory_order_relaxed);
    if (awaited || !node_.files_->is_busy()) {
      node_.host_.sleep_for(awaited ? kDrivenStandBy : 5 * kDrivenStandBy);
      continue;
    }
    const bool arrived = wake.fd < 0 || ::poll(&wake, 1, node_.files_->has_unsent() ? 0 : kPoll_ms) > 0;
    node_.host_.sleep_for(kBetweenLooks);  // a thread that asks for the next page takes in those before it as well
    if ((!arrived && !node_.files_->has_unsent()) || !node_.files_->is_busy() || !node_.mutex_.try_lock()) continue;
    if (arrived) node_.files_->calm();
    if (node_.may_act() && !node_.is_over()) {
      node_.files_->work(true);
      node_.progress();
    }
    node_.mutex_.unlock();
  }
}

/// Calls of other nodes, one at a time.
void FileCalls::serve() {
  while (!node_.stopping_.load(std::memory_order_acquire)) {
    const std::uint32_t ticket = bell_.load(std::memory_order_acquire);
    std::deque<wire::Message> calls;
    {
      base::MutexLock lock(node_.mutex_);
      calls.swap(calls_);
    }
    for (const wire::Message& call : calls) answer_call(call);
    if (calls.empty()) node_.host_.wait(bell_, ticket, kIdle_us, base::FutexScope::kProcess);
  }
}

/// Receive FileCall: it is done by a thread that may wait.
void FileCalls::handle_call(const wire::Message& message) ATOLL_NO_THREAD_SAFETY_ANALYSIS {
  if (node_.files_ == nullptr) {  // nobody would do it
    wire::Message reply;
    reply.kind = Kind::kFileReply;
    reply.line = message.line;
    reply.slots[0] = std::uint32_t(Errc::kOutOfMemory);
    return node_.call_home(message.from, reply);
  }
  if (calls_.size() >= kMostCalls) return node_.cut_off(message.from, "more file calls than threads can wait for");
  calls_.push_back(message);
  bell_.fetch_add(1, std::memory_order_release);
  node_.host_.wake(bell_, base::FutexScope::kProcess);
}

void FileCalls::answer_call(const wire::Message& message) {
  const auto request = std::make_unique<FileRequest>();
  FileAnswer answer;
  const GlobalAddress at(message.argument);
  Status status = at.node() == message.from
                      ? node_.read(at, reinterpret_cast<std::byte*>(request.get()), sizeof(FileRequest))
                      : Status(Errc::kInvalidArgument, "a file call that stands elsewhere");
  if (status.ok()) {
    answer = do_call(*request, message.from);
    if (answer.code != Errc::kOk) {  // only the code travels
      spdlog::info("what node {} wanted of a file failed: {}", message.from,
                   Status(answer.code, answer.what).to_string());
    }
  }
  wire::Message reply;
  reply.kind = Kind::kFileReply;
  reply.line = message.line;
  reply.argument = answer.info.address.bits();
  reply.slots = std::bit_cast<decltype(reply.slots)>(
      FileAnswerSlots{std::uint32_t(status.ok() ? answer.code : status.code()), answer.info.page_bytes,
                      answer.info.bytes, answer.info.reserved, answer.info.read_only ? 1u : 0u, 0});
  const Runtime::Entry entry(node_);
  if (!node_.is_dead(message.from)) node_.call_home(message.from, reply);
  node_.flush();
}

/// Receive FileReply.
void FileCalls::handle_reply(const wire::Message& message, NodeId from) ATOLL_NO_THREAD_SAFETY_ANALYSIS {
  const auto found = waits_.find(message.line);
  if (found == waits_.end()) return;  // nobody waits any more
  FileWait& wait = *found->second;
  if (wait.node != from) return node_.cut_off(from, "an answer to what another node was asked");
  const auto slots = std::bit_cast<FileAnswerSlots>(message.slots);
  const bool known = slots.code <= std::uint32_t(Errc::kStorageFull);
  wait.answer.code = known ? Errc(slots.code) : Errc::kInvalidArgument;
  wait.answer.info = {GlobalAddress(message.argument), slots.bytes, slots.reserved, slots.page_bytes,
                      slots.read_only != 0};
  ThreadState* const thread = wait.thread;
  waits_.erase(found);
  wait.done.store(true, std::memory_order_release);
  thread->notify();
}

/// Has a file's node do something, which may be this one.
Result<FileInfo> FileCalls::call_home_of(NodeId node, const FileRequest& request) {
  if (node >= node_.nodes_) return {Errc::kInvalidArgument, "there is no such node", node};
  if (node_.is_over()) return node_.why_over();
  if (node == node_.self_) {
    const FileAnswer answer = do_call(request, node_.self_);
    if (answer.code != Errc::kOk) return Status(answer.code, answer.what, node);
    return answer.info;
  }
  if (node_.is_dead(node)) return {Errc::kNodeDied, "the file's node is gone", node};
  const Result<GlobalAddress> place = node_.allocate(sizeof(FileRequest), Placement::local().uninitialized());
  if (!place.ok()) return place.status();
  const Result<FileInfo> result = send_call(node, request, *place);
  if (result.status().code() != Errc::kDeadline) (void)node_.free(*place);  // else it may still be read
  return result;
}

Result<FileInfo> FileCalls::send_call(NodeId node, const FileRequest& request, GlobalAddress place) {
  Status status =
      node_.write(place, reinterpret_cast<const std::byte*>(&request), sizeof(request), Consistency::kDefault);
  if (status.ok()) status = node_.fence();
  if (!status.ok()) return status;
  ThreadState& thread = node_.threads_.current();
  FileWait waiting;
  waiting.thread = &thread;
  waiting.node = node;
  std::uint64_t number = 0;
  {
    const Runtime::Entry entry(node_);
    number = node_.next_call_++;
    waits_[number] = &waiting;
    wire::Message message;
    message.kind = Kind::kFileCall;
    message.line = number;
    message.argument = place.bits();
    node_.call_home(node, message);
    node_.flush();
  }
  status = node_.wait(thread, node, base::Host::Clock::time_point::max(),
                      [&] { return waiting.done.load(std::memory_order_acquire); });
  {
    const Runtime::Entry entry(node_);
    waits_.erase(number);
  }
  if (!waiting.done.load(std::memory_order_acquire)) return status;
  if (waiting.answer.code != Errc::kOk) return status_of(waiting.answer, node);
  return waiting.answer.info;
}

/// At the file's node, by a thread that may wait.
FileAnswer FileCalls::do_call(const FileRequest& request, NodeId from) {
  const auto refused = [](const Status& status) { return FileAnswer{status.code(), status.what(), {}}; };
  if (node_.files_ == nullptr) return {Errc::kOutOfMemory, kNoFileSpace, {}};
  if (request.path_bytes >= sizeof(request.path)) return {Errc::kInvalidArgument, "a path that is too long", {}};
  const std::string path(request.path, request.path_bytes);
  Status status;
  if (request.what == FileRequest::kOpen) {
    const Result<FileInfo> info = open_here(path, options_in(request), from);
    return info.ok() ? FileAnswer{Errc::kOk, "", *info} : refused(info.status());
  }
  if (request.what == FileRequest::kClose) {
    status = close_here(request.first, from);
  } else if (request.what == FileRequest::kFlush) {
    status = flush_here(request.first, request.offset, request.bytes);
  } else if (request.what == FileRequest::kResize) {
    status = resize_here(request.first, request.bytes);
  } else if (request.what == FileRequest::kUnlink) {
    const Runtime::Entry entry(node_);
    status = node_.files_->unlink(path);
  } else if (request.what != FileRequest::kAsk) {
    status = {Errc::kInvalidArgument, "no such call of a file"};
  }
  if (!status.ok()) return refused(status);
  if (request.what == FileRequest::kUnlink || request.what == FileRequest::kClose) return {};
  const Runtime::Entry entry(node_);
  const Files::Open* const file = node_.files_->find(request.first);
  if (file == nullptr) return {Errc::kBadAddress, kNoSuchFile, {}};
  return {Errc::kOk, "", info_of(*file)};
}

FileInfo FileCalls::info_of(const Files::Open& file) const noexcept {
  return {GlobalAddress::make(node_.self_, file.first), file.bytes, file.reserved, file.line_bytes, file.read_only};
}

Result<FileInfo> FileCalls::open_here(const std::string& path, const FileOptions& options, NodeId user) {
  if (path.empty()) return {Errc::kInvalidArgument, "a path needs at least one character"};
  if (options.page_bytes < node_.options_.line_bytes) {
    return {Errc::kInvalidArgument, "pages of a file are no smaller than the lines of the heap (--line)", node_.self_};
  }
  if (node_.nodes_ > 1 && options.page_bytes > node_.largest_line_bytes()) {
    return {Errc::kInvalidArgument, "pages so large need a larger cache at some node: 16 of them, at least",
            node_.self_};
  }
  const Runtime::Entry entry(node_);
  bool fresh = false;
  const Result<Files::Open*> file = node_.files_->open(path, options, user, &fresh);
  if (!file.ok()) return file.status();
  if (fresh) {
    const auto larger = std::uint8_t(std::countr_zero((*file)->line_bytes / node_.options_.line_bytes));
    node_.change_region(GlobalAddress::make(node_.self_, (*file)->first), (*file)->reserved, larger);
  }
  return info_of(**file);
}

/// Lines that other nodes have come home: to be read here, or to be nobody else's.
Status FileCalls::come_home(ThreadState& thread, std::span<const GlobalAddress> lines, bool alone) {
  std::deque<Task> tasks;
  std::vector<Task*> waiting;
  {
    const Runtime::Entry entry(node_);
    for (const GlobalAddress line : lines) {
      const OpKind kind = alone ? OpKind::kAtomic : OpKind::kRead;
      waiting.push_back(&tasks.emplace_back(kind, Action::kNone, line, 0, nullptr, &thread));
      node_.protocol_.submit(node_.lines_->ref(line), tasks.back());
    }
    node_.flush();
  }
  return node_.finish(thread, waiting);
}

/// Lines of a part of a file come home: those that other nodes have written, or (`all`) have at all.
Status FileCalls::bring_home(std::uint64_t first, std::uint64_t from, std::uint64_t to, bool all) {
  ThreadState& thread = node_.threads_.current();
  std::vector<GlobalAddress> away;
  while (from < to) {  // a piece at a time: others want the engine too
    const std::uint64_t until = std::min(to, from + kPiece_bytes);
    away.clear();
    {
      const Runtime::Entry entry(node_);
      const Files::Open* const file = node_.files_->find(first);
      if (file == nullptr) return {Errc::kBadAddress, kNoSuchFile, node_.self_};
      node_.files_->for_each_line(*file, from, until, [&](const coherence::LineRef& ref) {
        const DirState state = ref.directory->state;
        const bool at_home = state == DirState::kStored || state == DirState::kUnshared;
        const bool may_stay = !all && (state == DirState::kShared || state == DirState::kParked);
        if (!at_home && !may_stay) away.push_back(ref.address);
      });
    }
    for (std::size_t begin = 0; begin < away.size(); begin += kTogether) {
      const std::span<const GlobalAddress> some(away.data() + begin, std::min(kTogether, away.size() - begin));
      if (const Status status = come_home(thread, some, all); !status.ok()) return status;
    }
    from = until;
  }
  return {};
}

Status FileCalls::flush_here(std::uint64_t first, std::uint64_t offset, std::uint64_t bytes) {
  if (const Status status = node_.fence(); !status.ok()) return status;
  std::uint64_t end = 0;
  {
    const Runtime::Entry entry(node_);
    const Files::Open* const file = node_.files_->find(first);
    if (file == nullptr || file->first != first) return {Errc::kBadAddress, kNoSuchFile, node_.self_};
    if (offset > file->bytes || bytes > file->bytes - offset) {
      return {Errc::kInvalidArgument, "more than the file has", node_.self_};
    }
    if (file->read_only) return {};
    end = offset + bytes;
  }
  if (const Status status = bring_home(first, offset, end, false); !status.ok()) return status;
  FlushJob job;
  ThreadState& thread = node_.threads_.current();
  job.first = first;
  job.thread = &thread;
  {
    const Runtime::Entry entry(node_);
    node_.files_->begin_flush(job, offset, end);
    node_.flush();
  }
  const Status waited = node_.wait(thread, kNoNode, node_.host_.now() + kMostPatience,
                                   [&] { return job.done.load(std::memory_order_acquire); });
  if (!job.done.load(std::memory_order_acquire)) {
    const Runtime::Entry entry(node_);
    if (!job.done.load(std::memory_order_acquire)) {
      node_.files_->abandon(job);
      return waited.code() == Errc::kDeadline
                 ? Status(Errc::kDeadline, "pages of the file stay locked to be written, or the disk does not answer",
                          node_.self_)
                 : waited;
    }
  }
  return job.status.ok() ? Status() : Status(job.status.code(), job.status.what(), node_.self_);
}

/// One user less. The last one's close brings everything home, writes it, and gives up every page.
Status FileCalls::close_here(std::uint64_t first, NodeId user) {
  std::uint64_t bytes = 0, reserved = 0;
  {
    const Runtime::Entry entry(node_);
    Files::Open* const file = node_.files_->find(first);
    if (file == nullptr || file->first != first || file->users[user] == 0) {
      return {Errc::kBadAddress, kNoSuchFile, node_.self_};
    }
    const bool last = std::accumulate(file->users.begin(), file->users.end(), std::uint32_t(0)) == 1;
    if (!last) {
      --file->users[user];
      return {};
    }
    bytes = file->bytes;
    reserved = file->reserved;
  }
  Status flushed = flush_here(first, 0, bytes);
  if (const Status status = empty_file(first, 0, reserved); !status.ok()) return status;
  const Runtime::Entry entry(node_);
  Files::Open* const file = node_.files_->find(first);
  if (file == nullptr) return {Errc::kBadAddress, kNoSuchFile, node_.self_};
  const GlobalAddress begin = GlobalAddress::make(node_.self_, first);
  node_.change_region(begin, reserved, std::uint8_t(node_.lines_->larger_at(begin) | detail::kLargerClosed));
  const Status closed = node_.files_->close(*file);
  return flushed.ok() ? closed : flushed;
}

/// Nobody has a line of this part of a file any more, nor the memory here; what was not written is lost.
Status FileCalls::empty_file(std::uint64_t first, std::uint64_t from, std::uint64_t to) {
  const base::Host::Clock::time_point deadline = node_.host_.now() + kMostPatience;
  while (true) {
    if (const Status status = bring_home(first, from, to, true); !status.ok()) return status;
    bool left = false;
    {
      const Runtime::Entry entry(node_);
      Files::Open* const file = node_.files_->find(first);
      if (file == nullptr) return {Errc::kBadAddress, kNoSuchFile, node_.self_};
      left = file->writes_under_way > 0;
      node_.files_->for_each_line(*file, from, to, [&](const coherence::LineRef& ref) ATOLL_NO_THREAD_SAFETY_ANALYSIS {
        if (ref.directory->state == DirState::kStored) return;
        const bool idle = file->writes_under_way == 0 && ref.directory->state == DirState::kUnshared;
        if (!idle || !node_.protocol_.file(ref) || !node_.protocol_.drop(ref)) left = true;
      });
      node_.flush();
    }
    if (!left) return {};
    if (node_.host_.now() >= deadline) return {Errc::kDeadline, "pages of the file are locked", node_.self_};
    (void)node_.wait(node_.threads_.current(), kNoNode, node_.host_.now() + kBetweenLooks, [] { return false; });
  }
}

Status FileCalls::resize_here(std::uint64_t first, std::uint64_t bytes) {
  std::uint64_t before = 0;
  std::uint32_t page = 0;
  {
    const Runtime::Entry entry(node_);
    Files::Open* const file = node_.files_->find(first);
    if (file == nullptr || file->first != first) return {Errc::kBadAddress, kNoSuchFile, node_.self_};
    before = file->bytes;
    page = file->page_bytes;
    if (bytes >= before || file->read_only) return node_.files_->resize(*file, bytes);
  }
  // What is cut off goes from memory first, in whole pages; what is left of the last one becomes zeros.
  const std::uint64_t whole = (bytes + page - 1) / page * page;
  if (const Status status = empty_file(first, whole, std::max(before, whole)); !status.ok()) return status;
  const std::uint64_t rest = std::min(before, whole) - std::min(bytes, before);
  if (rest > 0) {
    if (const Status status = node_.zero(GlobalAddress::make(node_.self_, first + bytes), rest); !status.ok())
      return status;
    if (const Status status = flush_here(first, bytes, rest); !status.ok()) return status;
  }
  const base::Host::Clock::time_point deadline = node_.host_.now() + kMostPatience;
  const auto is_quiet = [&] {
    base::MutexLock lock(node_.mutex_);
    const Files::Open* const file = node_.files_->find(first);
    return file == nullptr || file->writes_under_way == 0;
  };
  if (const Status status = node_.wait(node_.threads_.current(), kNoNode, deadline, is_quiet); !status.ok())
    return status;
  const Runtime::Entry entry(node_);
  Files::Open* const file = node_.files_->find(first);
  return file == nullptr ? Status(Errc::kBadAddress, kNoSuchFile, node_.self_) : node_.files_->resize(*file, bytes);
}

// ---- what Node and File ask for, at any node ----

Result<FileInfo> FileCalls::open(std::string_view path, const FileOptions& options) {
  const auto request = std::make_unique<FileRequest>();
  if (path.size() >= sizeof(request->path)) return {Errc::kInvalidArgument, "a path of more than 4095 characters"};
  if (node_.journal_ != nullptr) {
    return {Errc::kInvalidArgument, "files are not for clusters with a log (--log) yet: their pages are in no log"};
  }
  request->what = FileRequest::kOpen;
  pack(options, *request);
  request->path_bytes = std::uint32_t(path.size());
  std::memcpy(request->path, path.data(), path.size());
  const NodeId home = options.node == kNoNode ? node_.self_ : options.node;
  const Result<FileInfo> info = call_home_of(home, *request);
  if (!info.ok() || home == node_.self_) return info;
  const bool sound = info->address.node() == home && node_.lines_->contains(info->address, info->reserved) &&
                     node_.lines_->is_file(info->address) && info->address.offset() % detail::kGrainBytes == 0 &&
                     info->reserved % detail::kGrainBytes == 0 && std::has_single_bit(info->page_bytes) &&
                     info->page_bytes >= node_.options_.line_bytes && info->page_bytes <= node_.largest_line_bytes();
  const Runtime::Entry entry(node_);
  if (!sound) {
    node_.cut_off(home, "it opened a file where it has none");
    return {Errc::kNodeDied, "the node asked opened the file where it has none", home};
  }
  const auto larger = std::uint8_t(std::countr_zero(info->page_bytes / node_.options_.line_bytes));
  if (++open_[info->address.bits()] == 1) node_.change_region(info->address, info->reserved, larger);
  return info;
}

Status FileCalls::close(const FileInfo& info) {
  const NodeId home = info.address.node();
  const auto request = std::make_unique<FileRequest>();
  request->what = FileRequest::kClose;
  request->first = info.address.offset();
  if (const Status status = node_.fence(); !status.ok()) return status;
  bool last = false;
  if (home != node_.self_) {
    {
      const Runtime::Entry entry(node_);
      last = --open_[info.address.bits()] == 0;
      if (last) open_.erase(info.address.bits());
    }
    // What this node has of it goes home before the home is told.
    if (last) {
      if (const Status status = node_.close_region(info.address, info.reserved); !status.ok()) return status;
    }
  }
  return call_home_of(home, *request).status();
}

Result<FileInfo> FileCalls::call(const FileInfo& info, std::uint32_t what, std::uint64_t offset, std::uint64_t bytes) {
  if (const Status status = node_.fence(); !status.ok()) return status;
  const auto request = std::make_unique<FileRequest>();
  request->what = what;
  request->first = info.address.offset();
  request->offset = offset;
  request->bytes = bytes;
  return call_home_of(info.address.node(), *request);
}

Status FileCalls::unlink(std::string_view path, NodeId node) {
  const auto request = std::make_unique<FileRequest>();
  if (path.size() >= sizeof(request->path)) return {Errc::kInvalidArgument, "a path of more than 4095 characters"};
  request->what = FileRequest::kUnlink;
  request->path_bytes = std::uint32_t(path.size());
  std::memcpy(request->path, path.data(), path.size());
  return call_home_of(node == kNoNode ? node_.self_ : node, *request).status();
}

/// Everybody has left: what is still open is written and closed.
void FileCalls::close_all() {
  if (node_.files_ == nullptr) return;
  while (true) {
    std::uint64_t first = 0;
    std::string path;
    {
      base::MutexLock lock(node_.mutex_);
      if (node_.files_->all().empty()) return;
      Files::Open& file = node_.files_->all().begin()->second;
      std::fill(file.users.begin(), file.users.end(), 0);
      file.users[node_.self_] = 1;
      first = file.first;
      path = file.path;
    }
    const Status status = close_here(first, node_.self_);
    if (status.ok()) continue;
    spdlog::error("{} is left as it was last written: {}", path, status.to_string());
    return;
  }
}

}  // namespace atoll::runtime
