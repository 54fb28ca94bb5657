#include "storage/disk.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/check.hpp"
#include "base/fd.hpp"
#include "storage/failure.hpp"

namespace atoll::storage {
namespace {

constexpr mode_t kFileMode = 0600;
constexpr std::uint64_t kPage = 4096;
constexpr std::chrono::milliseconds kLockLook{20};  // whether the process before has ended
constexpr int kPopulateWrite = 23;                  // MADV_POPULATE_WRITE, of Linux 5.14; not in every header

Error cannot(const char* what, const std::string& path) {
  return Error(fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)), Errc::kStorage);
}

class RealFile final : public File {
 public:
  RealFile(base::Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  ~RealFile() override {
    if (!map_.empty()) ::munmap(map_.data(), map_.size());
  }

  [[nodiscard]] Status read(std::uint64_t offset, std::span<std::byte> into) override {
    while (!into.empty()) {
      const ssize_t got = ::pread(fd_.get(), into.data(), into.size(), off_t(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failure("read", path_, errno);
      if (got == 0) return damage(path_, "it ends too early");
      into = into.subspan(std::size_t(got));
      offset += std::uint64_t(got);
    }
    return {};
  }

  [[nodiscard]] Status write(std::uint64_t offset, std::span<const std::byte> from) override {
    while (!from.empty()) {
      const ssize_t done = ::pwrite(fd_.get(), from.data(), from.size(), off_t(offset));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return failure("write", path_, errno);
      from = from.subspan(std::size_t(done));
      offset += std::uint64_t(done);
    }
    return {};
  }

  [[nodiscard]] Status sync() override {
    // Not even for EINTR again: see invariant 2 of File.
    return ::fdatasync(fd_.get()) == 0 ? Status() : failure("sync", path_, errno);
  }

  [[nodiscard]] Status resize(std::uint64_t bytes) override {
    ATOLL_CHECK(map_.empty());
    if (::ftruncate(fd_.get(), off_t(bytes)) != 0) return failure("resize", path_, errno);
    if (bytes == 0) return {};
    int error = EINTR;  // a large file takes its time, and a signal is no reason to fail
    while (error == EINTR) error = ::posix_fallocate(fd_.get(), 0, off_t(bytes));
    return error == 0 ? Status() : failure("allocate space for", path_, error);
  }

  [[nodiscard]] Status extend(std::uint64_t bytes) override {
    ATOLL_CHECK(map_.empty());
    const auto now = size();
    if (!now.ok() || *now >= bytes) return now.status();
    return ::ftruncate(fd_.get(), off_t(bytes)) == 0 ? Status() : failure("resize", path_, errno);
  }

  [[nodiscard]] Result<std::uint64_t> size() override {
    struct stat status {};
    if (::fstat(fd_.get(), &status) != 0) return failure("look at", path_, errno);
    return std::uint64_t(status.st_size);
  }

  [[nodiscard]] Result<std::span<std::byte>> map() override {
    if (!map_.empty()) return map_;
    const auto bytes = size();
    if (!bytes.ok()) return bytes.status();
    if (*bytes == 0) return damage(path_, "it is empty and cannot be mapped");
    // With MAP_SYNC, which only a DAX mount has, the page tables are durable when a store is; fdatasync does the rest.
    const int protection = PROT_READ | PROT_WRITE;
    void* at = ::mmap(nullptr, *bytes, protection, MAP_SHARED_VALIDATE | MAP_SYNC, fd_.get(), 0);
    if (at == MAP_FAILED) at = ::mmap(nullptr, *bytes, protection, MAP_SHARED, fd_.get(), 0);
    if (at == MAP_FAILED) return failure("map", path_, errno);
    map_ = {static_cast<std::byte*>(at), *bytes};
    return map_;
  }

  void prepare(std::uint64_t offset, std::uint64_t bytes, bool is_fresh) noexcept override {
    const std::uint64_t first = offset & ~(kPage - 1);
    if (offset + bytes > map_.size()) return;
    if (is_fresh) write_zeros(offset, bytes);
    (void)::madvise(map_.data() + first, offset + bytes - first, kPopulateWrite);  // where the kernel is new enough
  }

  [[nodiscard]] Result<Extent> next_extent(std::uint64_t from) override {
    const auto bytes = size();
    if (!bytes.ok()) return bytes.status();
    if (from >= *bytes) return Extent{};
    const off_t data = ::lseek(fd_.get(), off_t(from), SEEK_DATA);
    if (data < 0 && errno == ENXIO) return Extent{};
    if (data < 0) return Extent{from, *bytes - from};  // no holes are known here
    const off_t end = ::lseek(fd_.get(), data, SEEK_HOLE);
    if (end < 0) return failure("look for holes in", path_, errno);
    return Extent{std::uint64_t(data), std::uint64_t(end - data)};
  }

  void read_ahead(std::uint64_t offset, std::uint64_t bytes) noexcept override {
    (void)::posix_fadvise(fd_.get(), off_t(offset), off_t(bytes), POSIX_FADV_WILLNEED);
  }

 private:
  /// Where this fails, stores through the map do it.
  void write_zeros(std::uint64_t offset, std::uint64_t bytes) noexcept {
    static constexpr std::array<std::byte, 64 << 10> kZeros{};
    while (bytes > 0) {
      const ssize_t done = ::pwrite(fd_.get(), kZeros.data(), std::min(bytes, kZeros.size()), off_t(offset));
      if (done <= 0) return;
      offset += std::uint64_t(done);
      bytes -= std::uint64_t(done);
    }
  }

  base::Fd fd_;
  std::string path_;
  std::span<std::byte> map_;
};

int flags_of(OpenMode mode) {
  switch (mode) {
    case OpenMode::kRead: return O_RDONLY;
    case OpenMode::kWrite: return O_RDWR;
    case OpenMode::kCreate: return O_RDWR | O_CREAT;
  }
  return O_RDONLY;
}

/// The digits of a UUID, as the kernel gives it.
BootId read_boot_id() noexcept {
  char text[40] = {};
  const base::Fd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  const ssize_t got = file.valid() ? ::read(file.get(), text, sizeof(text) - 1) : 0;
  std::string digits(text, std::size_t(std::max<ssize_t>(got, 0)));
  std::erase_if(digits, [](char c) { return c == '-' || c == '\n'; });
  BootId id{};
  if (digits.size() != 32) return id;
  for (std::size_t k = 0; k < id.size(); ++k) {
    const char* const begin = digits.data() + 16 * k;
    const auto [end, error] = std::from_chars(begin, begin + 16, id[k], 16);
    if (error != std::errc{} || end != begin + 16) return {};
  }
  return id;
}

/// What is said of a directory, beside it.
std::string mark_of(const std::string& path) {
  std::string text = std::filesystem::absolute(path).lexically_normal().string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text + ".begun";
}

/// Thread-safety: see Disk.
class RealDisk final : public Disk {
 public:
  RealDisk(std::string path, std::chrono::milliseconds patience, base::Host& host)
      : path_(std::move(path)), mark_(mark_of(path_)), boot_id_(read_boot_id()) {
    std::error_code error;
    std::filesystem::create_directories(path_, error);
    if (error) throw Error(fmt::format("cannot make {}: {}", path_, error.message()), Errc::kStorage);
    directory_ = base::Fd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory_.valid()) throw cannot("open", path_);
    take_lock(patience, host);
  }

  [[nodiscard]] std::unique_ptr<File> open(const std::string& name, OpenMode mode) override {
    const std::string path = path_ + "/" + name;
    base::Fd fd(::openat(directory_.get(), name.c_str(), flags_of(mode) | O_CLOEXEC, kFileMode));
    if (!fd.valid()) throw cannot("open", path);
    return std::make_unique<RealFile>(std::move(fd), path);
  }

  [[nodiscard]] bool exists(const std::string& name) override {
    return ::faccessat(directory_.get(), name.c_str(), F_OK, 0) == 0;
  }

  [[nodiscard]] Status remove(const std::string& name) override {
    if (::unlinkat(directory_.get(), name.c_str(), 0) == 0) return {};
    return failure("remove", path_ + "/" + name, errno);
  }

  [[nodiscard]] Status rename(const std::string& from, const std::string& to) override {
    if (::renameat(directory_.get(), from.c_str(), directory_.get(), to.c_str()) == 0) return {};
    return failure("rename", path_ + "/" + from, errno);
  }

  [[nodiscard]] Result<std::vector<std::string>> list() override {
    std::error_code error;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator at(path_, error), none; !error && at != none; at.increment(error)) {
      std::string name = at->path().filename().string();
      if (name != kLockName) names.push_back(std::move(name));
    }
    if (error) return failure("list", path_, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }

  [[nodiscard]] Status sync_directory() override {
    return ::fsync(directory_.get()) == 0 ? Status() : failure("sync", path_, errno);
  }

  [[nodiscard]] const std::string& path() const noexcept override { return path_; }
  [[nodiscard]] BootId boot_id() noexcept override { return boot_id_; }

  void set_begun(bool begun) noexcept override {
    if (!begun) return void(::unlink(mark_.c_str()));
    const base::Fd file(::open(mark_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kFileMode));
  }
  [[nodiscard]] bool has_begun() noexcept override { return ::access(mark_.c_str(), F_OK) == 0; }

 private:
  /// The lock ends with the process, so that who has it knows that the one before has ended. That may still be on its
  /// way: a node that was declared out is not always killed by who starts the next one.
  void take_lock(std::chrono::milliseconds patience, base::Host& host) {
    const std::string path = path_ + "/" + kLockName;
    lock_ = base::Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode));
    if (!lock_.valid()) throw cannot("open", path);
    char text[32] = {};
    const auto deadline = host.now() + patience;
    while (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK && host.now() < deadline) {
        host.sleep_for(kLockLook);
        continue;
      }
      if (errno != EWOULDBLOCK) throw cannot("lock", path);
      const ssize_t got = ::pread(lock_.get(), text, sizeof(text) - 1, 0);
      throw Error(fmt::format("process {} uses {}: give each node a directory of its own, or wait until that has ended",
                              got > 0 ? text : "(unknown)", path_),
                  Errc::kAlreadyExists);
    }
    const auto end = fmt::format_to_n(text, sizeof(text), "{}", ::getpid());
    if (::ftruncate(lock_.get(), 0) != 0 || ::pwrite(lock_.get(), text, end.size, 0) != ssize_t(end.size)) {
      throw cannot("write", path);
    }
  }

  std::string path_;
  const std::string mark_;
  const BootId boot_id_;
  base::Fd directory_;
  base::Fd lock_;
};

}  // namespace

std::unique_ptr<Disk> open_disk(const std::string& path, std::chrono::milliseconds patience, base::Host& host) {
  return std::make_unique<RealDisk>(path, patience, host);
}

std::unique_ptr<File> open_file(const std::string& path) {
  base::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) throw cannot("open", path);
  if (!S_ISREG(status.st_mode)) throw Error(fmt::format("{} is no file", path));
  return std::make_unique<RealFile>(std::move(fd), path);
}

}  // namespace atoll::storage
