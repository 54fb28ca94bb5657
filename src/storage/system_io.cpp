#include "storage/system_io.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "atoll/status.hpp"

namespace atoll::storage {
namespace {

constexpr mode_t kFileMode = 0600;
constexpr std::chrono::milliseconds kLockLook{5};
constexpr int kLockLooks = 400;

}  // namespace

SystemIo::SystemIo(std::uint32_t depth) : depth_(depth), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_.valid()) throw Error(fmt::format("cannot make an eventfd: {}", std::strerror(errno)), Errc::kStorage);
}

void SystemIo::wake() {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));  // fails only where it is readable anyway
}

void SystemIo::calm() {
  std::uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof(count));  // fails only where nothing was there
}

int SystemIo::open(const std::string& path, const IoOpen& how) {
  const int flags = (how.read_only ? O_RDONLY : O_RDWR) | (how.create ? O_CREAT : 0) |
                    (how.create && how.exclusive ? O_EXCL : 0) | (how.direct ? O_DIRECT : 0) | O_CLOEXEC;
  const int fd = ::open(path.c_str(), flags, kFileMode);
  return fd >= 0 ? fd : -errno;
}

void SystemIo::close(int handle) {
  if (handle >= 0) ::close(handle);
}

/// A process that was killed holds its lock until the system has ended what the process had under way, and that may
/// take a moment longer than the process: writes of its own that must not come behind ours.
int SystemIo::lock(int handle) {
  for (int look = 0; look < kLockLooks; ++look) {
    if (::flock(handle, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno == ENOLCK || errno == EOPNOTSUPP || errno == EINVAL) return 0;  // a file system without locks
    if (errno != EWOULDBLOCK && errno != EINTR) return -errno;
    std::this_thread::sleep_for(kLockLook);
  }
  return -EWOULDBLOCK;
}

void SystemIo::unlock(int handle) {
  (void)::flock(handle, LOCK_UN);  // fails only where there are no locks
}

std::int64_t SystemIo::length(int handle) {
  struct stat status {};
  if (::fstat(handle, &status) != 0) return -errno;
  if (!S_ISREG(status.st_mode)) return S_ISDIR(status.st_mode) ? -EISDIR : -ENOTSUP;
  return status.st_size;
}

std::uint64_t SystemIo::block_bytes(int handle) {
  struct stat status {};
  return ::fstat(handle, &status) == 0 ? std::uint64_t(status.st_blksize) : 512;
}

int SystemIo::truncate(int handle, std::uint64_t bytes) {
  int result = -1;
  do {
    result = ::ftruncate(handle, off_t(bytes));
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : -errno;
}

int SystemIo::sync_now(int handle) {
  return ::fdatasync(handle) == 0 ? 0 : -errno;  // not again: see invariant 2 of File
}

std::int64_t SystemIo::read_now(int handle, std::uint64_t offset, std::span<std::byte> into) {
  std::size_t had = 0;
  while (had < into.size()) {
    const ssize_t got = ::pread(handle, into.data() + had, into.size() - had, off_t(offset + had));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -errno;
    if (got == 0) break;
    had += std::size_t(got);
  }
  return std::int64_t(had);
}

int SystemIo::write_now(int handle, std::uint64_t offset, std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t done = ::pwrite(handle, from.data(), from.size(), off_t(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return done < 0 ? -errno : -EIO;
    from = from.subspan(std::size_t(done));
    offset += std::uint64_t(done);
  }
  return 0;
}

int SystemIo::remove(const std::string& path) {
  return ::unlink(path.c_str()) == 0 ? 0 : -errno;
}

int SystemIo::sync_folder(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const base::Fd fd(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return -errno;
  return ::fsync(fd.get()) == 0 || errno == EINVAL ? 0
                                                   : -errno;  // EINVAL: a file system that has nothing to sync there
}

}  // namespace atoll::storage
