#include "bench/ycsb_worker.hpp"

#include <fmt/format.h>

#include <numeric>

#include "bench/board.hpp"

namespace atoll::bench::ycsb {
namespace {

[[noreturn]] void complain(std::uint64_t record, const char* what) {
  throw Error(fmt::format("record {}: {}", record, what));
}

void check(std::uint64_t record, std::string_view value) {
  if (!stamp_of(record, value)) [[unlikely]]
    complain(record, "read what nobody put");
}

}  // namespace

Inserted::Inserted(Node& node, const std::string& name, std::uint64_t loaded, unsigned workers)
    : node_(node), loaded_(loaded), workers_(workers) {
  if (node.id() == 0) {
    node.publish(name, node.allocate(workers * std::uint64_t{node.line_bytes()}).value()).or_throw();
  }
  first_ = node.lookup(name).value();
}

void Inserted::tell(unsigned worker, std::uint64_t count) {
  node_.fence().or_throw();  // what it tells of is there before
  node_.write<std::uint64_t>(place_of(worker), count).or_throw();
}

void Inserted::look(std::vector<std::uint64_t>& counts) const {
  counts.resize(workers_);
  for (unsigned i = 0; i < workers_; ++i) counts[i] = node_.read<std::uint64_t>(place_of(i)).value();
}

std::uint64_t Inserted::latest(const std::vector<std::uint64_t>& counts, std::uint64_t behind) const noexcept {
  const auto worker = unsigned(behind % workers_);
  const std::uint64_t back = behind / workers_;
  if (back < counts[worker]) return record(worker, counts[worker] - 1 - back);
  return loaded_ - 1 -
         (behind - std::min(behind, std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}))) % loaded_;
}

Worker::Worker(Store& store, Inserted& inserted, WorkerId id, const Mix& mix, std::size_t value_size,
               std::uint64_t seed)
    : store_(store),
      inserted_(inserted),
      id_(id),
      latest_(mix.distribution == Distribution::kLatest),
      draws_(draw_operations(mix, inserted.loaded(), kDraws, seed * 4096 + id.number)),
      value_(value_size, '\0') {
  inserted_.look(counts_);
  count_ = counts_[id.number];  // of an earlier run
  if (latest_) return;
  keys_.reserve(draws_.size());
  for (const Draw& draw : draws_) keys_.emplace_back(draw.record);
}

std::uint64_t Worker::run(const Limits& limits, Histograms* histograms) {
  const std::int64_t begun = now_ns();
  const auto most_ns = limits.seconds > 0 ? std::int64_t(limits.seconds * 1e9) : INT64_MAX;
  const std::uint64_t most = limits.operations > 0 ? limits.operations : UINT64_MAX;
  std::uint64_t done = 0;
  std::int64_t before = begun;
  while (done < most) {
    if (done % kBatch == 0) {
      if (now_ns() - begun >= most_ns) break;
      before = now_ns();
    }
    const std::size_t at = next_++ % kDraws;
    const Draw& draw = draws_[at];
    if (latest_) {
      Draw resolved = draw;
      resolved.record = inserted_.latest(counts_, draw.record);
      execute(resolved, Key(resolved.record).view());
    } else {
      execute(draw, keys_[at].view());
    }
    ++done;
    if (histograms != nullptr) {
      const std::int64_t now = now_ns();
      (*histograms)[std::size_t(draw.operation)].record(std::uint64_t(now - before));
      before = now;
    }
    if (latest_ && ++looked_ % kLookEvery == 0) {
      inserted_.look(counts_);
      counts_[id_.number] = count_;
      before = now_ns();
    }
  }
  if (count_ > 0) inserted_.tell(id_.number, count_);
  return done;
}

void Worker::execute(const Draw& draw, std::string_view key) {
  switch (draw.operation) {
    case Operation::kRead: return read(draw.record, key);
    case Operation::kUpdate: return update(draw.record, key);
    case Operation::kInsert: return insert();
    case Operation::kScan: return scan(draw);
    case Operation::kModify: return modify(draw.record, key);
  }
}

void Worker::read(std::uint64_t record, std::string_view key) {
  if (!store_.get(key, found_)) [[unlikely]]
    complain(record, "is not there");
  check(record, found_);
}

void Worker::update(std::uint64_t record, std::string_view key) {
  fill_value(record, next_stamp(), value_);
  if (store_.put(key, value_)) [[unlikely]]
    complain(record, "was not there to be updated");
}

void Worker::insert() {
  const std::uint64_t record = inserted_.record(id_.number, count_);
  fill_value(record, next_stamp(), value_);
  if (!store_.put(Key(record).view(), value_)) [[unlikely]]
    complain(record, "was there before it was inserted");
  ++count_;
  if (latest_) counts_[id_.number] = count_;
  if (count_ % kTellEvery == 0) inserted_.tell(id_.number, count_);
}

void Worker::scan(const Draw& draw) {
  scanned_.clear();
  views_.clear();
  for (unsigned i = 0; i < draw.length; ++i) scanned_.emplace_back((draw.record + i) % inserted_.loaded());
  for (const Key& key : scanned_) views_.push_back(key.view());
  std::uint64_t right = 0;
  store_.get_many(views_, [&](std::size_t i, std::optional<std::string_view> value) {
    if (value && stamp_of((draw.record + i) % inserted_.loaded(), *value)) ++right;
  });
  if (right != draw.length) complain(draw.record, "a scan from here did not find all of them");
}

void Worker::modify(std::uint64_t record, std::string_view key) {
  bool sound = false;
  const bool there = store_.modify(key, [&](std::string& value) {
    sound = stamp_of(record, value).has_value();
    fill_value(record, next_stamp(), value);
  });
  if (!there) complain(record, "was not there to be modified");
  if (!sound) complain(record, "read what nobody put");
}

void load(Store& store, WorkerId id, std::uint64_t records, std::size_t value_size,
          const std::function<void(int percent)>& told) {
  std::string value(value_size, '\0');
  int last = -1;
  for (std::uint64_t record = id.number; record < records; record += id.workers) {
    fill_value(record, 0, value);
    if (!store.put(Key(record).view(), value)) complain(record, "was there before it was loaded");
    const int percent = int(record * 100 / records);
    if (percent / 5 == last) continue;
    last = percent / 5;
    told(percent);
  }
}

Verdict verify(Store& store, std::uint64_t records, const std::function<std::uint64_t(std::uint64_t record)>& stamp) {
  Verdict verdict;
  std::string value;
  for (std::uint64_t record = 0; record < records; ++record) {
    if (!store.get(Key(record).view(), value)) {
      ++verdict.missing;
      continue;
    }
    const auto found = stamp_of(record, value);
    ++(!found ? verdict.wrong : *found == stamp(record) ? verdict.right : verdict.stale);
  }
  return verdict;
}

}  // namespace atoll::bench::ycsb
