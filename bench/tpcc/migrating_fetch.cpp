// How rows come: the one who asks, and the one who is asked.
#include <algorithm>
#include <bit>

#include "base/check.hpp"
#include "bench/tpcc/migrating_wire.hpp"

namespace atoll::bench::tpcc::migrating {
namespace {

constexpr std::uint64_t bit(NodeId node) noexcept {
  return std::uint64_t{1} << node;
}

template <typename T>
T read_at(std::span<const std::byte> bytes, std::size_t at) noexcept {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <typename T>
void write_at(std::span<std::byte> bytes, std::size_t at, const T& value) noexcept {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

}  // namespace

/// At its home. REQUIRES: the caller has the latch.
void Core::forget(Entry& entry, std::uint64_t gave) noexcept {
  entry.others &= ~gave;
  if (entry.others == 0 && entry.here == Here::kShared) entry.here = Here::kOwned;
}

// ---- who asks ----

/// All of `fetches`, or as many as can be had: those stay here.
Status Core::fetch(Worker& worker) noexcept {
  for (Fetch& fetch : worker.fetches) {
    if (fetch.entry->home != self_) continue;
    const Latch latch(*fetch.entry);
    fetch.others = fetch.entry->others;
    fetch.stage = Fetch::Stage::kAskOthers;
  }
  Status status = ask_all(worker, Question::kWant);
  if (status.ok()) status = ask_all(worker, Question::kGiveUp);
  settle(worker);
  worker.fetches.clear();
  if (status.code() == Errc::kRefused) return refuse(worker);
  if (!status.ok()) worker.broken = status;
  return status;
}

/// Until there is nothing left to ask, or somebody refuses: then the transaction begins again anyway.
Status Core::ask_all(Worker& worker, Question kind) noexcept {
  Status status;
  for (bool any = true; any && status.ok();) {
    any = false;
    for (NodeId to = 0; to < count_; ++to) {
      worker.asked[to].clear();
      if (to != self_ && status.ok()) status = ask(worker, kind, to);
      any = any || !worker.asked[to].empty();
    }
    for (NodeId from = 0; from < count_; ++from) {
      if (worker.asked[from].empty()) continue;
      const Status heard = hear(worker, kind, from);
      if (status.ok()) status = heard;
    }
  }
  return status;
}

/// One question with as much as fits.
Status Core::ask(Worker& worker, Question kind, NodeId to) noexcept {
  std::vector<std::uint32_t>& asked = worker.asked[to];
  std::uint32_t bytes = sizeof(QuestionHead), answer_bytes = 0;
  for (std::uint32_t i = 0; i < worker.fetches.size() && asked.size() < kMostItems; ++i) {
    const Fetch& fetch = worker.fetches[i];
    const bool is_for_it = kind == Question::kWant
                               ? fetch.stage == Fetch::Stage::kAskHome && fetch.entry->home == to
                               : fetch.stage == Fetch::Stage::kAskOthers && (fetch.others & bit(to)) != 0;
    if (!is_for_it) continue;
    answer_bytes += fetch.table->answer_bytes();
    if (answer_bytes > kAnswerBytes) break;
    bytes += std::uint32_t(sizeof(QuestionItem)) + fetch.table->key_space;
    asked.push_back(i);
  }
  if (asked.empty()) return {};
  const Result<std::span<std::byte>> room = peers_.compose(worker.thread, to, bytes);
  if (!room.ok()) {
    asked.clear();
    return room.status();
  }
  write_at(*room, 0, QuestionHead{kind, std::uint32_t(asked.size()), worker.time});
  std::size_t at = sizeof(QuestionHead);
  for (const std::uint32_t i : asked) {
    const Fetch& fetch = worker.fetches[i];
    write_at(*room, at, QuestionItem{fetch.table->number, fetch.exclusive, false, 0});
    std::memcpy(room->data() + at + sizeof(QuestionItem), fetch.entry->key(), fetch.table->key_bytes);
    at += sizeof(QuestionItem) + fetch.table->key_space;
  }
  peers_.ask(worker.thread, to, bytes);
  return {};
}

Status Core::hear(Worker& worker, Question kind, NodeId from) noexcept {
  const Result<std::span<const std::byte>> answer = peers_.await(worker.thread, from);
  if (!answer.ok()) return answer.status();
  static_assert(sizeof(Reply) == kReplyBytes);
  Status status;
  std::size_t at = 0;
  for (const std::uint32_t i : worker.asked[from]) {
    Fetch& fetch = worker.fetches[i];
    const auto reply = read_at<Reply>(*answer, at);
    if (reply.outcome == Reply::Outcome::kRefused) {
      fetch.stage = Fetch::Stage::kFailed;
      status = {Errc::kRefused, "another transaction is in the way", from};
    } else {
      if (kind == Question::kGiveUp) {
        fetch.others &= ~bit(from);
        fetch.gave |= bit(from);
      }
      take_over(fetch, reply, answer->data() + at + sizeof(Reply), kind == Question::kWant);
    }
    at += fetch.table->answer_bytes();
  }
  return status;
}

/// What was not refused: by its home, or by one of the others.
void Core::take_over(Fetch& fetch, const Reply& reply, const std::byte* row, bool is_from_home) noexcept {
  Entry& entry = *fetch.entry;
  if (reply.has_row) {
    entry.present = reply.present;
    if (reply.present) std::memcpy(fetch.table->row(entry), row, fetch.table->row_bytes);
  }
  if (is_from_home && reply.outcome == Reply::Outcome::kAskOthers) {
    fetch.stage = Fetch::Stage::kAskOthers;
    fetch.others = reply.others;
    fetch.home_is_locked = true;
    return;
  }
  if (!is_from_home && (fetch.stage != Fetch::Stage::kAskOthers || fetch.others != 0)) return;  // not from all yet
  fetch.stage = Fetch::Stage::kDone;
  const Latch latch(entry);
  entry.here = is_from_home && reply.outcome == Reply::Outcome::kShared ? Here::kShared : Here::kOwned;
  if (entry.home == self_) entry.others = 0;
  if (!fetch.exclusive) entry.readers = 1;  // it was locked to write until it came
}

/// Tells the homes that have waited for it how it went.
void Core::settle(Worker& worker) noexcept {
  for (const Fetch& fetch : worker.fetches) {
    if (fetch.entry->home == self_ && fetch.stage != Fetch::Stage::kDone) settle_here(fetch);
  }
  for (NodeId to = 0; to < count_; ++to) {
    while (true) {
      std::uint32_t count = 0, bytes = sizeof(QuestionHead);
      for (const Fetch& fetch : worker.fetches) {
        if (!fetch.home_is_locked || fetch.entry->home != to || count == kMostItems) continue;
        bytes += std::uint32_t(sizeof(QuestionItem)) + fetch.table->key_space;
        ++count;
      }
      if (count == 0) break;
      const Result<std::span<std::byte>> room = peers_.compose(worker.thread, to, bytes);
      if (!room.ok()) break;  // that node is gone
      write_at(*room, 0, QuestionHead{Question::kSettle, count, worker.time});
      std::size_t at = sizeof(QuestionHead);
      for (Fetch& fetch : worker.fetches) {
        if (!fetch.home_is_locked || fetch.entry->home != to || count == 0) continue;
        const bool done = fetch.stage == Fetch::Stage::kDone;
        write_at(*room, at, QuestionItem{fetch.table->number, false, done, fetch.gave});
        std::memcpy(room->data() + at + sizeof(QuestionItem), fetch.entry->key(), fetch.table->key_bytes);
        at += sizeof(QuestionItem) + fetch.table->key_space;
        fetch.home_is_locked = false;
        --count;
      }
      peers_.post(worker.thread, to, bytes);
    }
  }
}

/// At its home: some may have given it up, though not all.
void Core::settle_here(const Fetch& fetch) noexcept {
  const Latch latch(*fetch.entry);
  forget(*fetch.entry, fetch.gave);
}

// ---- who is asked ----

void Core::handle(const Call& call, std::span<const std::byte> message) noexcept {
  const auto head = read_at<QuestionHead>(message, 0);
  if (head.kind == Question::kSettle) {
    hear_settled(call.asker, message);
    retry_parked();
    return;
  }
  const std::uint64_t left = serve(call, message, ~std::uint64_t{0} >> (kMostItems - head.count));
  if (left == 0) return;
  {
    const std::lock_guard lock(parked_mutex_);
    parked_.push_back({call, {message.begin(), message.end()}, left});
    parked_count_.store(std::uint32_t(parked_.size()), std::memory_order_seq_cst);
  }
  retry_parked();  // who was in the way may have ended before it could see that
}

/// Those items whose bits are set in `left`; the bits of those that have to wait come back. When all is done, or one is
/// refused and so all, it is answered.
std::uint64_t Core::serve(const Call& call, std::span<const std::byte> message, std::uint64_t left) noexcept {
  const auto head = read_at<QuestionHead>(message, 0);
  const std::span<std::byte> room = peers_.room_for_answer(call);
  std::array<Entry*, kMostItems> entries;
  std::array<std::uint32_t, kMostItems> places;  // in the answer
  std::uint32_t bytes = 0;
  bool is_refused = false;
  std::size_t at = sizeof(QuestionHead);
  for (std::uint32_t i = 0; i < head.count; ++i) {
    const auto item = read_at<QuestionItem>(message, at);
    const TableData& table = this->table(item.table);
    const std::byte* const key = message.data() + at + sizeof(QuestionItem);
    at += sizeof(QuestionItem) + table.key_space;
    places[i] = bytes;
    bytes += table.answer_bytes();
    if ((left >> i & 1) == 0) continue;
    const std::uint64_t hash = hash_of(key, table.key_bytes);
    entries[i] = table.index.find(key, hash, table.key_bytes);
    if (entries[i] == nullptr) {
      const std::lock_guard lock(handlers_mutex_);
      entries[i] = find_or_make(table, key, hash, handlers_arena_);
      ATOLL_CHECK(entries[i] != nullptr);
    }
    Reply reply;
    std::byte* const row = room.data() + places[i] + sizeof(Reply);
    const Lock lock = head.kind == Question::kWant
                          ? serve_want(table, *entries[i], head.time, item.exclusive, call.asker, reply, row)
                          : serve_give_up(table, *entries[i], head.time, reply, row);
    if (lock == Lock::kWait) continue;
    write_at(room, places[i], reply);
    left &= ~bit(NodeId(i));
    is_refused = is_refused || reply.outcome == Reply::Outcome::kRefused;
  }
  while (is_refused && left != 0) {  // it begins again anyway: what waits need not
    const int i = std::countr_zero(left);
    left &= left - 1;
    write_at(room, places[i], Reply{});
    const Latch latch(*entries[i]);
    if (entries[i]->wanted == head.time) entries[i]->wanted = 0;
  }
  if (left == 0) peers_.answer(call, bytes);
  return left;
}

/// At its home.
Core::Lock Core::serve_want(const TableData& table, Entry& entry, std::uint64_t time, bool exclusive, NodeId asker,
                            Reply& reply, std::byte* row) noexcept {
  const Latch latch(entry);
  const bool is_here = entry.here != Here::kNot;
  const Lock lock = judge(entry, time, exclusive || !is_here);
  if (lock != Lock::kHave) return lock;
  reply.has_row = is_here;
  reply.present = entry.present;
  if (is_here && entry.present) std::memcpy(row, table.row(entry), table.row_bytes);
  if (is_here && !exclusive) {
    reply.outcome = Reply::Outcome::kShared;
    entry.here = Here::kShared;
    entry.others |= bit(asker);
    return lock;
  }
  reply.others = entry.others & ~bit(asker);
  if (reply.others != 0) {
    reply.outcome = Reply::Outcome::kAskOthers;
    entry.holder = time;  // until the asker has settled
    return lock;
  }
  ATOLL_CHECK(is_here);
  reply.outcome = Reply::Outcome::kOwned;
  entry.here = Here::kNot;
  entry.others = bit(asker);
  return lock;
}

/// Where it has come to.
Core::Lock Core::serve_give_up(const TableData& table, Entry& entry, std::uint64_t time, Reply& reply,
                               std::byte* row) noexcept {
  const Latch latch(entry);
  const Lock lock = judge(entry, time, true);
  if (lock != Lock::kHave) return lock;
  ATOLL_CHECK(entry.here != Here::kNot);
  const bool was_owned = entry.here == Here::kOwned;
  reply.outcome = was_owned ? Reply::Outcome::kOwned : Reply::Outcome::kShared;
  reply.has_row = was_owned;
  reply.present = entry.present;
  if (was_owned && entry.present) std::memcpy(row, table.row(entry), table.row_bytes);
  entry.here = Here::kNot;
  return lock;
}

void Core::hear_settled(NodeId asker, std::span<const std::byte> message) noexcept {
  const auto head = read_at<QuestionHead>(message, 0);
  std::size_t at = sizeof(QuestionHead);
  for (std::uint32_t i = 0; i < head.count; ++i) {
    const auto item = read_at<QuestionItem>(message, at);
    const TableData& table = this->table(item.table);
    const std::byte* const key = message.data() + at + sizeof(QuestionItem);
    at += sizeof(QuestionItem) + table.key_space;
    Entry* const entry = table.index.find(key, hash_of(key, table.key_bytes), table.key_bytes);
    ATOLL_CHECK(entry != nullptr);
    const Latch latch(*entry);
    ATOLL_CHECK(entry->holder == head.time && entry->readers == 0);
    entry->holder = 0;
    if (item.done) {
      entry->here = Here::kNot;
      entry->others = bit(asker);
    } else {
      forget(*entry, item.gave_up);
    }
  }
}

/// What was in the way has perhaps ended.
void Core::retry_parked() noexcept {
  if (parked_count_.load(std::memory_order_seq_cst) == 0) return;
  const std::lock_guard lock(parked_mutex_);
  for (std::size_t i = 0; i < parked_.size();) {
    Parked& parked = parked_[i];
    parked.left = serve(parked.call, parked.message, parked.left);
    if (parked.left != 0) {
      ++i;
      continue;
    }
    if (&parked != &parked_.back()) parked = std::move(parked_.back());
    parked_.pop_back();
  }
  parked_count_.store(std::uint32_t(parked_.size()), std::memory_order_seq_cst);
}

}  // namespace atoll::bench::tpcc::migrating
