#include "storage/faulty_disk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/racy_copy.hpp"
#include "storage/failure.hpp"

namespace atoll::storage {
namespace {

constexpr std::uint64_t kPage = 4096;  // holes are whole pages

}  // namespace

/// Thread-safety: the disk's lock.
class FaultyFile final : public File {
 public:
  FaultyFile(FaultyDisk& disk, std::string name, std::shared_ptr<FaultyDisk::Inode> inode, std::uint64_t life)
      : disk_(disk), name_(std::move(name)), inode_(std::move(inode)), life_(life) {}

  [[nodiscard]] Status read(std::uint64_t offset, std::span<std::byte> into) override {
    const bool fails = disk_.begin(Operation::kRead);
    const base::MutexLock lock(disk_.mutex_);
    if (fails || is_over()) return failure("read", name_, EIO);
    const FaultyDisk::Bytes& bytes = *inode_->now;
    if (offset > bytes.size() || bytes.size() - offset < into.size()) return damage(name_, "it ends too early");
    base::racy_copy(into.data(), bytes.data() + offset, into.size());
    return {};
  }

  [[nodiscard]] Status write(std::uint64_t offset, std::span<const std::byte> from) override {
    const bool fails = disk_.begin(Operation::kWrite);
    const base::MutexLock lock(disk_.mutex_);
    if (is_over()) return failure("write", name_, EIO);
    return disk_.write(*inode_, name_, offset, from, fails);
  }

  [[nodiscard]] Status sync() override {
    const bool fails = disk_.begin(Operation::kSync);
    const base::MutexLock lock(disk_.mutex_);
    if (is_over()) return failure("sync", name_, EIO);
    if (fails) return failure("sync", name_, EIO);
    FaultyDisk::sync(*inode_);
    return {};
  }

  [[nodiscard]] Status resize(std::uint64_t bytes) override {
    const bool fails = disk_.begin(Operation::kResize);
    const base::MutexLock lock(disk_.mutex_);
    ATOLL_CHECK(!mapped_);
    if (fails || is_over()) return failure("resize", name_, EIO);
    if (!disk_.fits(*inode_, bytes)) return failure("allocate space for", name_, ENOSPC);
    FaultyDisk::resize(*inode_, bytes);
    inode_->allocated = bytes;
    return {};
  }

  [[nodiscard]] Status extend(std::uint64_t bytes) override {
    const bool fails = disk_.begin(Operation::kResize);
    const base::MutexLock lock(disk_.mutex_);
    ATOLL_CHECK(!mapped_);
    if (fails || is_over()) return failure("resize", name_, EIO);
    if (inode_->now->size() < bytes) inode_->now->resize(bytes);
    return {};
  }

  [[nodiscard]] Result<std::uint64_t> size() override {
    const base::MutexLock lock(disk_.mutex_);
    if (is_over()) return failure("look at", name_, EIO);
    return std::uint64_t(inode_->now->size());
  }

  [[nodiscard]] Result<std::span<std::byte>> map() override {
    const base::MutexLock lock(disk_.mutex_);
    if (is_over()) return failure("map", name_, EIO);
    if (inode_->now->empty()) return damage(name_, "it is empty and cannot be mapped");
    inode_->mapped = true;
    mapped_ = inode_->now;
    return std::span(*mapped_);
  }

  void prepare(std::uint64_t, std::uint64_t, bool) noexcept override {}

  [[nodiscard]] Result<Extent> next_extent(std::uint64_t from) override {
    const base::MutexLock lock(disk_.mutex_);
    if (is_over()) return failure("look for holes in", name_, EIO);
    const FaultyDisk::Bytes& bytes = *inode_->now;
    const auto is_hole = [&](std::uint64_t at) {
      const auto end = bytes.begin() + std::int64_t(std::min<std::uint64_t>(at / kPage * kPage + kPage, bytes.size()));
      return std::all_of(bytes.begin() + std::int64_t(at / kPage * kPage), end,
                         [](std::byte b) { return b == std::byte{}; });
    };
    const auto next_page = [](std::uint64_t at) { return at / kPage * kPage + kPage; };
    while (from < bytes.size() && is_hole(from)) from = next_page(from);
    if (from >= bytes.size()) return Extent{};
    std::uint64_t end = from;
    while (end < bytes.size() && !is_hole(end)) end = next_page(end);
    return Extent{from, std::min<std::uint64_t>(end, bytes.size()) - from};
  }

  void read_ahead(std::uint64_t, std::uint64_t) noexcept override {}

 private:
  [[nodiscard]] bool is_over() const ATOLL_REQUIRES(disk_.mutex_) { return life_ != disk_.life_; }

  FaultyDisk& disk_;
  const std::string name_;
  const std::shared_ptr<FaultyDisk::Inode> inode_;
  const std::uint64_t life_;
  std::shared_ptr<FaultyDisk::Bytes> mapped_;  // as long as the map may be used, whatever happens to the disk
};

void FaultyDisk::fail_operation(std::uint64_t n, std::uint64_t count) {
  const base::MutexLock lock(mutex_);
  first_failure_ = n == 0 ? 0 : operations_ + n;
  failures_left_ = n == 0 ? 0 : count;
}

void FaultyDisk::fail_next(Operation kind) {
  const base::MutexLock lock(mutex_);
  fail_next_[std::size_t(kind)] = true;
}

void FaultyDisk::set_capacity(std::uint64_t bytes) {
  const base::MutexLock lock(mutex_);
  capacity_ = bytes;
}

void FaultyDisk::set_hook(std::function<void(Operation)> hook) {
  const base::MutexLock lock(mutex_);
  hook_ = std::move(hook);
}

std::uint64_t FaultyDisk::operations() const {
  const base::MutexLock lock(mutex_);
  return operations_;
}

std::uint64_t FaultyDisk::count(Operation kind) const {
  const base::MutexLock lock(mutex_);
  return counts_[std::size_t(kind)];
}

bool FaultyDisk::begin(Operation kind) {
  std::function<void(Operation)> hook;
  {
    const base::MutexLock lock(mutex_);
    hook = hook_;
  }
  if (hook) hook(kind);
  const base::MutexLock lock(mutex_);
  ++operations_;
  ++counts_[std::size_t(kind)];
  if (std::exchange(fail_next_[std::size_t(kind)], false)) return true;
  if (failures_left_ == 0 || operations_ < first_failure_) return false;
  if (failures_left_ != UINT64_MAX) --failures_left_;
  return true;
}

void FaultyDisk::mark(Inode& inode, std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t page = begin / kPage; page * kPage < end; ++page) inode.changed.insert(page);
}

void FaultyDisk::resize(Inode& inode, std::uint64_t bytes) {
  inode.shortest = std::min(inode.shortest, bytes);
  inode.now->resize(bytes);
}

void FaultyDisk::sync(Inode& inode) {
  const Bytes& now = *inode.now;
  inode.synced.resize(std::min<std::uint64_t>(inode.synced.size(), inode.shortest));
  inode.synced.resize(now.size());
  inode.shortest = UINT64_MAX;
  if (inode.mapped) base::racy_copy(inode.synced.data(), now.data(), now.size());
  for (const std::uint64_t page : inode.changed) {
    const std::uint64_t at = page * kPage;
    if (at >= now.size() || inode.mapped) continue;
    std::memcpy(inode.synced.data() + at, now.data() + at, std::min(kPage, now.size() - at));
  }
  inode.changed.clear();
}

std::uint64_t FaultyDisk::allocated_bytes() const {
  const base::MutexLock lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [name, one] : names_) sum += one->allocated;
  return sum;
}

bool FaultyDisk::fits(const Inode& inode, std::uint64_t bytes) const {
  std::uint64_t others = 0;
  for (const auto& [name, one] : names_) {
    if (one.get() != &inode) others += one->allocated;
  }
  return bytes <= inode.allocated || (others <= capacity_ && bytes <= capacity_ - others);
}

Status FaultyDisk::write(Inode& inode, const std::string& name, std::uint64_t offset, std::span<const std::byte> from,
                         bool fails) {
  int error = fails ? EIO : 0;
  if (fails) {  // up to the end of some sector
    const std::uint64_t end = (offset + random_.below(from.size() + 1)) / kSector * kSector;
    from = from.first(end > offset ? end - offset : 0);
  }
  if (!fits(inode, offset + from.size())) {  // what fits is written
    std::uint64_t room = inode.allocated;
    while (fits(inode, room + kSector)) room += kSector;
    from = from.first(room > offset ? std::min<std::uint64_t>(room - offset, from.size()) : 0);
    error = ENOSPC;
  }
  if (!from.empty()) {
    if (inode.now->size() < offset + from.size()) {
      ATOLL_CHECK(inode.now.use_count() == 1);  // a mapped file does not grow
      inode.now->resize(offset + from.size());
    }
    inode.allocated = std::max(inode.allocated, offset + from.size());
    base::racy_copy(inode.now->data() + offset, from.data(), from.size());
    mark(inode, offset, offset + from.size());
  }
  return error == 0 ? Status() : failure("write", name, error);
}

std::vector<std::shared_ptr<FaultyDisk::Inode>> FaultyDisk::inodes() const {
  std::vector<std::shared_ptr<Inode>> all;
  const auto add = [&all](const std::shared_ptr<Inode>& inode) {
    if (inode && std::find(all.begin(), all.end(), inode) == all.end()) all.push_back(inode);
  };
  for (const auto& [name, inode] : names_) add(inode);
  for (const auto& [name, inode] : synced_names_) add(inode);
  for (const Change& change : changes_) add(change.inode);
  return all;
}

void FaultyDisk::write_back(base::Random& random) {
  for (const auto& inode : inodes()) {
    const Bytes& now = *inode->now;
    Bytes& synced = inode->synced;
    if (now.size() != synced.size() && random.below(2) == 0) synced.resize(now.size());
    for (std::size_t at = 0; at < std::min(now.size(), synced.size()); at += kSector) {
      const std::size_t bytes = std::min({kSector, now.size() - at, synced.size() - at});
      Bytes sector(bytes);
      base::racy_copy(sector.data(), now.data() + at, bytes);
      if (std::memcmp(sector.data(), synced.data() + at, bytes) == 0 || random.below(2) == 0) continue;
      std::memcpy(synced.data() + at, sector.data(), bytes);
    }
  }
}

void FaultyDisk::write_back(std::uint64_t seed) {
  base::Random random(seed);
  const base::MutexLock lock(mutex_);
  write_back(random);
}

void FaultyDisk::forget_changes(const std::string& name) {
  const base::MutexLock lock(mutex_);
  if (const auto at = names_.find(name); at != names_.end()) at->second->changed.clear();
}

void FaultyDisk::begin_life() {
  ++life_;
  failures_left_ = first_failure_ = 0;
  std::fill(std::begin(fail_next_), std::end(fail_next_), false);
  // New bytes for all: those of the old maps are nobody's any more.
  for (const auto& inode : inodes()) {
    auto fresh = std::make_shared<Bytes>(inode->now->size());
    base::racy_copy(fresh->data(), inode->now->data(), fresh->size());
    inode->now = std::move(fresh);
  }
}

void FaultyDisk::crash_process() {
  const base::MutexLock lock(mutex_);
  begin_life();
}

void FaultyDisk::crash_power(std::uint64_t seed) {
  base::Random random(seed);
  const base::MutexLock lock(mutex_);
  write_back(random);
  for (const Change& change : changes_) {
    if (random.below(2) == 0) apply(synced_names_, change);
  }
  names_ = synced_names_;
  changes_.clear();
  for (const auto& inode : inodes()) {
    inode->now = std::make_shared<Bytes>(inode->synced);
    inode->allocated = std::min<std::uint64_t>(inode->allocated, inode->synced.size());
    inode->changed.clear();
    inode->shortest = UINT64_MAX;
    inode->mapped = false;
  }
  ++boots_;
  begin_life();
}

BootId FaultyDisk::boot_id() noexcept {
  const base::MutexLock lock(mutex_);
  return {boots_, 0};
}

void FaultyDisk::set_begun(bool begun) noexcept {
  const base::MutexLock lock(mutex_);
  begun_ = begun;
}

bool FaultyDisk::has_begun() noexcept {
  const base::MutexLock lock(mutex_);
  return begun_;
}

void FaultyDisk::apply(Names& names, const Change& change) {
  if (!change.from.empty()) {
    const auto at = names.find(change.from);
    if (at != names.end() && at->second == change.inode) names.erase(at);
  }
  if (change.inode) {
    names[change.to] = change.inode;
  } else {
    names.erase(change.to);
  }
}

std::unique_ptr<File> FaultyDisk::open(const std::string& name, OpenMode mode) {
  const base::MutexLock lock(mutex_);
  auto at = names_.find(name);
  if (at == names_.end()) {
    if (mode != OpenMode::kCreate) {
      throw Error(fmt::format("cannot open {}: {}", name, std::strerror(ENOENT)), Errc::kStorage);
    }
    changes_.push_back({"", name, std::make_shared<Inode>()});
    at = names_.emplace(name, changes_.back().inode).first;
  }
  return std::make_unique<FaultyFile>(*this, name, at->second, life_);
}

bool FaultyDisk::exists(const std::string& name) {
  const base::MutexLock lock(mutex_);
  return names_.contains(name);
}

Status FaultyDisk::remove(const std::string& name) {
  const bool fails = begin(Operation::kRemove);
  const base::MutexLock lock(mutex_);
  if (fails) return failure("remove", name, EIO);
  if (!names_.contains(name)) return failure("remove", name, ENOENT);
  changes_.push_back({"", name, nullptr});
  apply(names_, changes_.back());
  return {};
}

Status FaultyDisk::rename(const std::string& from, const std::string& to) {
  const bool fails = begin(Operation::kRename);
  const base::MutexLock lock(mutex_);
  if (fails) return failure("rename", from, EIO);
  const auto at = names_.find(from);
  if (at == names_.end()) return failure("rename", from, ENOENT);
  changes_.push_back({from, to, at->second});
  apply(names_, changes_.back());
  return {};
}

Result<std::vector<std::string>> FaultyDisk::list() {
  const base::MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, inode] : names_) names.push_back(name);
  return names;
}

Status FaultyDisk::sync_directory() {
  const bool fails = begin(Operation::kSyncDirectory);
  const base::MutexLock lock(mutex_);
  if (fails) return failure("sync", path_, EIO);
  synced_names_ = names_;
  changes_.clear();
  return {};
}

}  // namespace atoll::storage
