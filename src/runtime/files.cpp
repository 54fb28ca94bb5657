// Pages of files: from the core's wish to the page in its place.
#include "runtime/files.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/log.hpp"

namespace atoll::runtime {

using coherence::DirState;

namespace {
constexpr std::uint32_t kFirstCredit = 64;
constexpr std::uint32_t kSentTogether = 8;    // reads
constexpr std::chrono::seconds kPatience{2};  // for a frame, while every page is locked
}  // namespace

Files::Files(Setup setup, std::unique_ptr<storage::PageStore> store)
    : self_(setup.self),
      nodes_(setup.nodes),
      budget_bytes_(std::max<std::uint64_t>(setup.budget_bytes, 2 * detail::kGrainBytes)),
      heap_bytes_(setup.segment->heap_bytes()),
      segment_(*setup.segment),
      lines_(*setup.lines),
      protocol_(*setup.protocol),
      counters_(*setup.counters),
      host_(*setup.host),
      busy_(*setup.busy),
      offer_(std::move(setup.offer)),
      is_dead_(std::move(setup.is_dead)),
      store_(std::move(store)),
      frames_(setup.segment->file_bytes() / kBlockBytes),
      queue_(setup.segment->file_bytes() / kBlockBytes),
      credit_(setup.nodes, kFirstCredit) {
  free_[heap_bytes_] = setup.segment->file_bytes();
  queue_.set_capacity(budget_bytes_ / kBlockBytes);
}

Files::Buffer Files::make_buffer(std::uint64_t bytes) {
  auto* const at = static_cast<std::byte*>(std::aligned_alloc(storage::kPageAlignment, bytes));
  if (at == nullptr) throw std::bad_alloc();
  return Buffer(at);
}

std::uint32_t Files::take_operation(Operation operation) {
  if (free_operations_.empty()) {
    free_operations_.push_back(std::uint32_t(operations_.size()));
    operations_.emplace_back();
  }
  const std::uint32_t tag = free_operations_.back();
  free_operations_.pop_back();
  operations_[tag] = std::move(operation);
  ++under_way_;
  return tag;
}

/// The core wants a line. It is read with its whole page, when there is room: nothing is begun here, for the core is in
/// the middle of a step.
void Files::load(const LineRef& ref) {
  Open* const file = find(ref.address.offset());
  ATOLL_CHECK(file != nullptr);
  const std::uint64_t number = frame_of(*file, ref.address.offset());
  Frame& frame = frames_[number];
  frame.loading |= std::uint8_t(1u << (ref.address.offset() % file->page_bytes) / file->line_bytes);
  busy_.store(true, std::memory_order_relaxed);
  if ((frame.flags & (kReading | kAwaited)) != 0) return;
  frame.flags |= kAwaited;
  awaited_.push_back(number);
}

void Files::note_held(const LineRef& ref, bool held) {
  Open* const file = find(ref.address.offset());
  ATOLL_CHECK(file != nullptr);
  const std::uint64_t number = frame_of(*file, ref.address.offset());
  Frame& frame = frames_[number];
  const auto line = std::uint8_t(1u << (ref.address.offset() % file->page_bytes) / file->line_bytes);
  asked_.erase(ref.address.bits());
  if (held) {
    frame.held |= line;
    if (queue_.is_resident(number)) return;
    queue_.admit(number);
    resident_bytes_ += file->page_bytes;
    if (resident_bytes_ > budget_bytes_) busy_.store(true, std::memory_order_relaxed);
    return;
  }
  frame.held &= std::uint8_t(~line);
  if (frame.held == 0 && (frame.flags & kReading) == 0) leave(*file, number);
}

/// A page that another node took because there was no room for it here is nearer than the disk.
NodeId Files::sharer_to_ask(const LineRef& ref) {
  for (std::uint64_t rest = nodes_ <= 64 ? ref.directory->sharers : 0; rest != 0; rest &= rest - 1) {
    const auto node = NodeId(std::countr_zero(rest));
    if (is_dead_(node)) continue;
    asked_[ref.address.bits()] = node;
    credit_[node] = std::min(credit_[node] + 1, 4 * kFirstCredit);
    counters_.file_copies.add();
    return node;
  }
  return kNoNode;
}

void Files::forget_peer(NodeId node) {
  std::vector<GlobalAddress> lost;
  for (const auto& [line, sharer] : asked_) {
    if (sharer == node) lost.emplace_back(line);
  }
  for (const GlobalAddress line : lost) {
    const LineRef ref = lines_.ref(line);
    asked_.erase(line.bits());
    const bool waits = ref.directory->state == DirState::kFetching && ref.directory->requester == node;
    if (waits) protocol_.receive(ref, {coherence::Kind::kNoCopy, false, node, node, 0});
  }
  for (auto& [first, file] : open_) {
    file.users[node] = 0;
    if (nodes_ <= 64) {
      for_each_line(file, 0, file.reserved, [&](const LineRef& ref) { forget_copy(ref, node); });
    }
  }
}

/// A copy that died with its node: as if the node had dropped it, or answered when it was told to.
void Files::forget_copy(const LineRef& ref, NodeId node) {
  if ((ref.directory->sharers >> node & 1) == 0) return;
  const DirState state = ref.directory->state;
  if (state == DirState::kShared || state == DirState::kParked || state == DirState::kFetching) {
    protocol_.receive(ref, {coherence::Kind::kPutShared, false, node, node, 0});
  } else if (ref.directory->acks_left > 0 && ref.directory->requester != node) {
    protocol_.receive(ref, {coherence::Kind::kInvalidateAck, false, node, ref.directory->requester, 0});
  }
}

void Files::work(bool all) {
  if (working_) return;  // the core came back here
  working_ = true;
  while (finish_done() || begin_awaited() || advance_jobs()) {
  }
  if (resident_bytes_ > budget_bytes_) (void)make_room(0);
  write_marked();
  if (all || send_now_ || unsent_.size() >= kSentTogether || is_unsent_awaited()) {
    store_->flush();
    unsent_.clear();
    send_now_ = false;
  }
  has_unsent_.store(!unsent_.empty(), std::memory_order_relaxed);
  busy_.store(under_way_ > 0 || !awaited_.empty() || !jobs_.empty(), std::memory_order_relaxed);
  working_ = false;
}

/// Does anybody wait for a page that the system was not told of yet? One call of the system serves several that nobody
/// waits for.
bool Files::is_unsent_awaited() {
  return std::any_of(unsent_.begin(), unsent_.end(), [&](std::uint64_t number) {
    const Open& file = *find(offset_of(number));
    bool awaited = false;
    for_each_line_of(file, number, [&](const LineRef& ref, std::uint8_t) { awaited = awaited || ref.line->cold != 0; });
    return awaited;
  });
}

bool Files::finish_done() {
  std::array<storage::PageDone, 64> done;
  std::size_t count = store_->under_way() == 0 ? 0 : store_->reap(done);
  while (!ended_.empty() && count < done.size()) {
    done[count++] = {ended_.front(), {}};
    ended_.pop_front();
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto tag = std::uint32_t(done[i].tag);
    Operation operation = std::exchange(operations_[tag], {});
    operation.status = done[i].status;
    free_operations_.push_back(tag);
    --under_way_;
    switch (operation.what) {
      case Operation::What::kRead: end_read(operation); break;
      case Operation::What::kPatch: end_patch(operation); break;
      case Operation::What::kWrite: end_write(operation); break;
      case Operation::What::kSync:
        if (operation.job == nullptr) break;  // nobody waits for it any more
        operation.job->status = operation.status;
        --operation.job->under_way;
        break;
    }
  }
  return count > 0;
}

/// Begins the reads that there is room for, first come first served.
bool Files::begin_awaited() {
  bool any = false;
  while (!awaited_.empty()) {
    const std::uint64_t number = awaited_.front();
    Open& file = *find(offset_of(number));
    if (!queue_.is_resident(number) && !make_room(file.page_bytes)) {
      if (!is_hopeless(file)) return any;
      awaited_.pop_front();
      frames_[number].flags &= std::uint8_t(~kAwaited);
      fail_read(file, number,
                file.failing ? "changed pages are in the way, and cannot be written"
                             : "every page in memory is locked: unlock some, or join with more --file-memory");
      any = true;
      continue;
    }
    blocked_since_ns_ = 0;
    awaited_.pop_front();
    begin_read(file, number);
    any = true;
  }
  return any;
}

/// There is no room. What is under way makes some; if nothing is, and all that is here is locked, or changed and cannot
/// be written, there may never be any.
bool Files::is_hopeless(const Open& file) {
  if (under_way_ > 0) {
    blocked_since_ns_ = 0;
    return false;
  }
  const std::int64_t now = host_.coarse_ns();
  if (blocked_since_ns_ == 0) blocked_since_ns_ = now;
  return file.failing || now - blocked_since_ns_ >= std::chrono::nanoseconds(kPatience).count();
}

void Files::begin_read(Open& file, std::uint64_t number) {
  Frame& frame = frames_[number];
  frame.flags = std::uint8_t((frame.flags & ~kAwaited) | kReading);
  if (!queue_.is_resident(number)) {
    queue_.admit(number);
    resident_bytes_ += file.page_bytes;
  }
  if (file.page_bytes != file.line_bytes) fetch_rest(file, number);
  Operation operation;
  operation.file = file.first;
  operation.frames = {number};
  const std::uint64_t at = offset_of(number) - file.first;
  const bool beyond = at >= file.bytes;
  if (file.page_bytes != file.line_bytes) operation.buffer = make_buffer(file.page_bytes);
  std::byte* const into = operation.buffer ? operation.buffer.get() : segment_.memory() + offset_of(number);
  const std::uint32_t page_bytes = file.page_bytes;
  const std::uint32_t tag = take_operation(std::move(operation));
  if (beyond) {
    std::memset(into, 0, page_bytes);
    ended_.push_back(tag);
    return;
  }
  counters_.file_reads.add();
  unsent_.push_back(number);
  store_->read(file.number, at, {into, page_bytes}, tag);
}

/// The other lines of a page that is read anyway.
void Files::fetch_rest(Open& file, std::uint64_t number) {
  for_each_line_of(file, number, [&](const LineRef& ref, std::uint8_t) {
    if (ref.directory->state == DirState::kStored) (void)protocol_.fetch_home(ref);
  });
}

void Files::end_read(Operation& operation) {
  Open& file = *find(operation.file);
  const std::uint64_t number = operation.frames.front();
  Frame& frame = frames_[number];
  frame.flags &= std::uint8_t(~(kReading | kOffered));
  if (!operation.status.ok()) return fail_read(file, number, operation.status.what());
  for_each_line_of(file, number, [&](const LineRef& ref, std::uint8_t line) {
    if ((frame.loading & line) == 0) return;
    frame.loading &= std::uint8_t(~line);
    if (operation.buffer) {
      std::memcpy(segment_.memory() + ref.address.offset(),
                  operation.buffer.get() + ref.address.offset() % file.page_bytes, ref.bytes);
    }
    protocol_.loaded(ref, true);
  });
}

void Files::fail_read(Open& file, std::uint64_t number, const char* why) {
  spdlog::error("{} cannot be read at {}: {}", file.path, offset_of(number) - file.first, why);
  Frame& frame = frames_[number];
  for_each_line_of(file, number, [&](const LineRef& ref, std::uint8_t line) {
    if ((frame.loading & line) == 0) return;
    frame.loading &= std::uint8_t(~line);
    protocol_.loaded(ref, false);
  });
  if (frame.held == 0 && queue_.is_resident(number)) leave(file, number);
}

}  // namespace atoll::runtime
