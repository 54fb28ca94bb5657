#include "cluster/key.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/fd.hpp"

namespace atoll::cluster {
namespace {

constexpr const char* kBlank = " \t\r\n";

void require_sodium() {
  if (::sodium_init() < 0) throw Error("libsodium cannot be initialised, so there are no keys");
}

/// A text that is wiped when it is done with.
struct SecretText {
  SecretText() = default;
  explicit SecretText(std::size_t bytes) : text(bytes, '\0') {}
  ~SecretText() { ::sodium_memzero(text.data(), text.size()); }
  SecretText(const SecretText&) = delete;
  SecretText& operator=(const SecretText&) = delete;
  std::string text;
};

void check_permissions(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) throw Error(fmt::format("the key file {}: {}", path, std::strerror(errno)));
  if (!S_ISREG(info.st_mode)) throw Error(fmt::format("the key file {} is no plain file", path));
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw Error(fmt::format("the key file {} has mode {:03o}: others can use it. Do: chmod 600 {}", path,
                            info.st_mode & 0777u, path));
  }
}

}  // namespace

Key::~Key() {
  ::sodium_memzero(bytes_.data(), bytes_.size());
}

Key Key::generate() {
  Bytes bytes;
  fill_random(bytes);
  const Key key(bytes);
  ::sodium_memzero(bytes.data(), bytes.size());
  return key;
}

Key Key::parse(std::string_view text, std::string_view where) {
  const std::size_t first = text.find_first_not_of(kBlank);
  const std::size_t last = text.find_last_not_of(kBlank);
  const std::string_view digits = first == text.npos ? "" : text.substr(first, last - first + 1);
  Bytes bytes{};
  std::size_t length = 0;
  const char* end = nullptr;
  const int code = ::sodium_hex2bin(bytes.data(), bytes.size(), digits.data(), digits.size(), nullptr, &length, &end);
  const bool whole = code == 0 && length == kBytes && end == digits.data() + digits.size();
  const Key key(bytes);
  ::sodium_memzero(bytes.data(), bytes.size());
  if (!whole || digits.size() != kTextBytes) {
    throw Error(
        fmt::format("{} is no cluster key: a key is {} hexadecimal digits; `atoll key` makes one", where, kTextBytes));
  }
  return key;
}

Key Key::read_file(const std::string& path) {
  const base::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd.valid()) throw Error(fmt::format("cannot read the key file {}: {}", path, std::strerror(errno)));
  check_permissions(fd.get(), path);
  SecretText content(4 * kTextBytes);  // with room to see that it is too long
  std::size_t have = 0;
  while (have < content.text.size()) {
    const ssize_t got = ::read(fd.get(), content.text.data() + have, content.text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(fmt::format("cannot read the key file {}: {}", path, std::strerror(errno)));
    if (got == 0) break;
    have += std::size_t(got);
  }
  return parse(std::string_view(content.text).substr(0, have), "the content of " + path);
}

std::optional<Key> Key::from_environment() {
  if (const char* path = std::getenv("ATOLL_KEY_FILE")) return read_file(path);
  if (const char* text = std::getenv("ATOLL_KEY")) return parse(text, "the value of ATOLL_KEY");
  return std::nullopt;
}

void Key::write_new_file(const std::string& path) const {
  const base::Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    if (errno != EEXIST) throw Error(fmt::format("cannot make the key file {}: {}", path, std::strerror(errno)));
    throw Error(fmt::format("{} is there already, and a key is not overwritten; remove it first", path));
  }
  SecretText line;
  line.text = reveal() + "\n";
  // The umask may take rights away; who asked for a key must be able to read it.
  if (::fchmod(fd.get(), 0600) != 0 ||
      ::write(fd.get(), line.text.data(), line.text.size()) != ssize_t(line.text.size()) || ::fsync(fd.get()) != 0) {
    const int error = errno;
    (void)::unlink(path.c_str());
    throw Error(fmt::format("cannot write the key file {}: {}", path, std::strerror(error)));
  }
}

std::string Key::reveal() const {
  std::string text(kTextBytes + 1, '\0');
  ::sodium_bin2hex(text.data(), text.size(), bytes_.data(), bytes_.size());
  text.resize(kTextBytes);
  return text;
}

void fill_random(std::span<std::uint8_t> bytes) {
  require_sodium();
  ::randombytes_buf(bytes.data(), bytes.size());
}

std::string random_hex(std::size_t bytes) {
  std::vector<std::uint8_t> random(bytes);
  fill_random(random);
  std::string text(2 * bytes + 1, '\0');
  ::sodium_bin2hex(text.data(), text.size(), random.data(), random.size());
  text.resize(2 * bytes);
  return text;
}

bool same_secret(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() && ::sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace atoll::cluster
