#include "storage/simulated_io.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.hpp"

namespace atoll::storage {
namespace {

constexpr std::size_t kAny = 3;  // behind the kinds that can be told apart

int errno_of(const Status& status) {
  if (status.ok()) return 0;
  return status.code() == Errc::kStorageFull ? ENOSPC : EIO;
}

std::uint64_t bytes_of(const IoRequest& request) {
  std::uint64_t sum = 0;
  for (const iovec& part : request.parts) sum += part.iov_len;
  return sum;
}

/// The first bytes of all parts; visit(offset, part) gives false to stop.
template <typename F>
void each_part(const IoRequest& request, std::uint64_t most, F&& visit) {
  std::uint64_t offset = request.offset;
  for (const iovec& part : request.parts) {
    const std::uint64_t bytes = std::min<std::uint64_t>(part.iov_len, most);
    if (bytes == 0) return;
    if (!visit(offset, std::span(static_cast<std::byte*>(part.iov_base), bytes))) return;
    offset += bytes;
    most -= bytes;
  }
}

std::size_t index_of(IoKind kind) {
  switch (kind) {
    case IoKind::kRead: return std::size_t(Operation::kRead);
    case IoKind::kWrite: return std::size_t(Operation::kWrite);
    case IoKind::kSync: return std::size_t(Operation::kSync);
    case IoKind::kCall: return kAny;
  }
  return kAny;
}

}  // namespace

void SimulatedIo::fail_next(std::uint32_t n, int error) {
  failing_[kAny] = n;
  errors_[kAny] = error;
}

void SimulatedIo::fail_next(Operation kind, std::uint32_t n, int error) {
  ATOLL_CHECK(kind == Operation::kRead || kind == Operation::kWrite || kind == Operation::kSync);
  failing_[std::size_t(kind)] = n;
  errors_[std::size_t(kind)] = error;
}

int SimulatedIo::planned_failure(IoKind kind) {
  for (const std::size_t k : {index_of(kind), kAny}) {
    if (failing_[k] == 0) continue;
    --failing_[k];
    return errors_[k];
  }
  return faults_.failure > 0 && random_.chance(faults_.failure) ? EIO : 0;
}

std::uint64_t SimulatedIo::some_of(std::uint64_t bytes) {
  return random_.below(bytes + 1) / FaultyDisk::kSector * FaultyDisk::kSector;
}

// ---- requests ----

void SimulatedIo::queue(const IoRequest& request) {
  ATOLL_CHECK(under_way_.size() < depth_);
  const std::int64_t spread = faults_.most_nanos - faults_.least_nanos;
  const std::int64_t takes =
      faults_.least_nanos + (spread > 0 ? std::int64_t(random_.below(std::uint64_t(spread) + 1)) : 0);
  under_way_.push_back({request, now() + takes, random_.next()});
  ++requests_;
}

std::size_t SimulatedIo::reap(std::span<IoDone> into) {
  const std::int64_t until = now();
  std::size_t count = 0;
  while (count < into.size() && !under_way_.empty()) {
    const auto next = std::min_element(under_way_.begin(), under_way_.end(), [](const auto& a, const auto& b) {
      return std::pair(a.due, a.order) < std::pair(b.due, b.order);
    });
    if (next->due > until) break;
    const IoRequest request = next->request;
    under_way_.erase(next);
    into[count++] = {request.id, carry_out(request)};
  }
  return count;
}

std::int64_t SimulatedIo::next_due() const {
  if (woken_) return now();
  std::int64_t due = FaultyPageStore::kNever;
  for (const UnderWay& one : under_way_) due = std::min(due, one.due);
  return due;
}

std::int64_t SimulatedIo::carry_out(const IoRequest& request) {
  if (request.kind == IoKind::kCall) return (*request.call)();
  const int error = planned_failure(request.kind);
  if (request.kind == IoKind::kSync) {
    if (error == 0) return sync_now(request.handle);
    disk_.forget_changes(at(request.handle).name);
    return -error;
  }
  const std::uint64_t bytes = bytes_of(request);
  const bool is_short = error != 0 || (faults_.short_transfer > 0 && random_.chance(faults_.short_transfer));
  const std::uint64_t most = is_short ? some_of(bytes) : bytes;
  const std::int64_t moved = request.kind == IoKind::kRead ? read(request, most) : write(request, most);
  if (error != 0) return -error;
  return moved;
}

std::int64_t SimulatedIo::read(const IoRequest& request, std::uint64_t most) {
  std::int64_t moved = 0;
  each_part(request, most, [&](std::uint64_t offset, std::span<std::byte> part) {
    const std::int64_t got = read_now(request.handle, offset, part);
    moved = got < 0 ? got : moved + got;
    return got == std::int64_t(part.size());
  });
  return moved;
}

std::int64_t SimulatedIo::write(const IoRequest& request, std::uint64_t most) {
  std::int64_t moved = 0;
  each_part(request, most, [&](std::uint64_t offset, std::span<std::byte> part) {
    const int error = write_now(request.handle, offset, part);
    moved = error < 0 ? error : moved + std::int64_t(part.size());
    return error == 0;
  });
  return moved;
}

void SimulatedIo::crash(bool power) {
  for (const UnderWay& one : under_way_) {
    if (one.request.kind == IoKind::kSync && random_.below(2) == 0) (void)sync_now(one.request.handle);
    const std::uint64_t bytes = bytes_of(one.request);
    if (one.request.kind == IoKind::kWrite) {
      (void)write(one.request, random_.below(4) == 0 ? bytes : some_of(bytes));
    }
  }
  under_way_.clear();
  std::fill(std::begin(failing_), std::end(failing_), 0);
  handles_.clear();
  if (power) {
    disk_.crash_power(random_.next());
  } else {
    disk_.crash_process();
  }
}

// ---- short calls ----

SimulatedIo::Handle& SimulatedIo::at(int handle) {
  ATOLL_CHECK(handle >= 0 && std::size_t(handle) < handles_.size() && handles_[std::size_t(handle)].file);
  return handles_[std::size_t(handle)];
}

int SimulatedIo::open(const std::string& path, const IoOpen& how) {
  const bool exists = disk_.exists(path);
  if (!exists && !how.create) return -ENOENT;
  if (exists && how.create && how.exclusive) return -EEXIST;
  auto file = disk_.open(path, how.create ? OpenMode::kCreate : OpenMode::kWrite);
  const auto free = std::find_if(handles_.begin(), handles_.end(), [](const Handle& one) { return !one.file; });
  const int handle = int(free - handles_.begin());
  if (free == handles_.end()) handles_.emplace_back();
  handles_[std::size_t(handle)] = {std::move(file), path, false, how.read_only};
  return handle;
}

/// After a crash there is nothing to close.
void SimulatedIo::close(int handle) {
  if (handle >= 0 && std::size_t(handle) < handles_.size()) handles_[std::size_t(handle)] = {};
}

int SimulatedIo::lock(int handle) {
  for (const Handle& one : handles_) {
    if (one.locked && &one != &at(handle) && one.name == at(handle).name) return -EWOULDBLOCK;
  }
  at(handle).locked = true;
  return 0;
}

void SimulatedIo::unlock(int handle) {
  at(handle).locked = false;
}

std::int64_t SimulatedIo::length(int handle) {
  const auto bytes = at(handle).file->size();
  return bytes.ok() ? std::int64_t(*bytes) : -EIO;
}

int SimulatedIo::truncate(int handle, std::uint64_t bytes) {
  const std::int64_t now = length(handle);
  if (now < 0) return int(now);
  File& file = *at(handle).file;
  return -errno_of(bytes >= std::uint64_t(now) ? file.extend(bytes) : file.resize(bytes));
}

int SimulatedIo::sync_now(int handle) {
  return -errno_of(at(handle).file->sync());
}

std::int64_t SimulatedIo::read_now(int handle, std::uint64_t offset, std::span<std::byte> into) {
  const std::int64_t bytes = length(handle);
  if (bytes < 0) return bytes;
  if (offset >= std::uint64_t(bytes)) return 0;
  const auto part = into.first(std::min<std::uint64_t>(into.size(), std::uint64_t(bytes) - offset));
  const Status status = at(handle).file->read(offset, part);
  return status.ok() ? std::int64_t(part.size()) : -EIO;
}

int SimulatedIo::write_now(int handle, std::uint64_t offset, std::span<const std::byte> from) {
  if (at(handle).read_only) return -EBADF;
  return -errno_of(at(handle).file->write(offset, from));
}

int SimulatedIo::remove(const std::string& path) {
  if (!disk_.exists(path)) return -ENOENT;
  return -errno_of(disk_.remove(path));
}

int SimulatedIo::sync_folder(const std::string&) {
  return -errno_of(disk_.sync_directory());
}

}  // namespace atoll::storage
