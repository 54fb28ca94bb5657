// What the nodes of a kill test and its driver have in common: the board through which they talk, the journals of what
// was acknowledged, and what stands in global memory. None of it but the last is Atoll's: the judge must not depend on
// what is judged.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "atoll/status.hpp"

namespace atoll::test {

inline constexpr unsigned kMostNodes = 8;
inline constexpr unsigned kMostThreads = 4;  // of a node
inline constexpr unsigned kMostWorkers = kMostNodes * kMostThreads;

// ---- what the driver and the nodes tell each other ----

/// What one node says, in all its lives.
struct Cell {
  std::atomic<std::uint32_t> pid;      // of its present process
  std::atomic<std::uint32_t> serving;  // that pid, once its memory is there and what was cut has been put right
  std::array<std::atomic<std::uint64_t>, kMostThreads> quiet;  // the phase in which the worker rests
  std::atomic<std::uint64_t> shown;                            // the last of the driver's calls for a dump that is done
  std::atomic<std::uint32_t> errors;                           // calls of Atoll that failed
};

/// A file that all of them map: it outlives every process.
struct Board {
  static constexpr std::uint64_t kEnd = ~std::uint64_t{0};
  std::atomic<std::uint64_t> phase;  // even: work; odd: rest; kEnd: leave
  std::atomic<std::uint64_t> show;   // dump number so and so is wanted
  std::array<Cell, kMostNodes> cells;

  [[nodiscard]] static bool is_rest(std::uint64_t phase) noexcept { return phase != kEnd && phase % 2 == 1; }

  /// Maps the board of the directory, which is made if it is not there. Never unmapped. Throws Error.
  static Board& open(const std::string& directory) {
    const std::string path = directory + "/board";
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ::ftruncate(file, sizeof(Board)) != 0) throw Error("cannot make " + path);
    void* const at = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (at == MAP_FAILED) throw Error("cannot map " + path);
    return *static_cast<Board*>(at);
  }
};

// ---- journals: what a node was told to have happened ----

struct Record {
  std::uint32_t worker = 0;
  std::uint32_t from = 0;    // bank: the account; ycsb: the key
  std::uint32_t to = 0;      // bank
  std::uint32_t amount = 0;  // bank
  std::uint64_t number = 0;  // bank: which transfer of the worker, from 1; ycsb: which put of the key
};

/// The journal of a node. Each record is one write(2), which a killed process has done or not; half of one, should
/// there be such a thing, is cut off by the next process.
///
/// Thread-safety: `append` may be called by any thread.
class Journal {
 public:
  Journal(const std::string& directory, unsigned node) {
    const std::string path = path_of(directory, node);
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct stat about {};
    if (file_ < 0 || ::fstat(file_, &about) != 0) throw Error("cannot open " + path);
    const off_t whole = about.st_size / off_t(sizeof(Record)) * off_t(sizeof(Record));
    if (whole != about.st_size && ::ftruncate(file_, whole) != 0) throw Error("cannot cut " + path);
  }
  ~Journal() { ::close(file_); }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  void append(const Record& record) const {
    if (::write(file_, &record, sizeof(record)) != ssize_t(sizeof(record))) throw Error("cannot write the journal");
  }
  static std::string path_of(const std::string& directory, unsigned node) {
    return directory + "/journal." + std::to_string(node);
  }

 private:
  int file_ = -1;
};

/// A file of values of one type, whole ones only; empty when there is none.
template <typename T>
std::vector<T> load_file(const std::string& path) {
  std::vector<T> all;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return all;
  struct stat about {};
  if (::fstat(file, &about) == 0) all.resize(std::size_t(about.st_size) / sizeof(T));
  std::size_t got = 0;
  while (got < all.size() * sizeof(T)) {
    const ssize_t more = ::read(file, reinterpret_cast<char*>(all.data()) + got, all.size() * sizeof(T) - got);
    if (more <= 0) break;
    got += std::size_t(more);
  }
  ::close(file);
  all.resize(got / sizeof(T));
  return all;
}
inline std::vector<Record> load_journal(const std::string& directory, unsigned node) {
  return load_file<Record>(Journal::path_of(directory, node));
}

/// What a node has read of all that the load keeps in global memory, for the judge.
inline std::string dump_path(const std::string& directory, unsigned node) {
  return directory + "/dump." + std::to_string(node);
}
/// What a node has found wrong by itself.
inline std::string complaints_path(const std::string& directory, unsigned node) {
  return directory + "/complaints." + std::to_string(node);
}
inline std::string errors_path(const std::string& directory, unsigned node) {
  return directory + "/errors." + std::to_string(node);
}
inline void append_line(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const std::string line = text + "\n";
  if (file < 0 || ::write(file, line.data(), line.size()) != ssize_t(line.size())) throw Error("cannot write " + path);
  ::close(file);
}

// ---- the bank, in global memory ----

inline constexpr unsigned kAccountsPerLine = 8;
inline constexpr std::int64_t kOpening = 1'000'000;  // what every account begins with

/// A line of accounts. It is written as a whole, under its lock.
struct AccountLine {
  std::uint64_t mark = 0;                               // a worker + 1 that is in the middle of a transfer
  std::array<std::uint64_t, kMostWorkers> transfers{};  // the last transfer of each worker that has touched the line
  std::array<std::int64_t, kAccountsPerLine> balances{};
};
static_assert(sizeof(AccountLine) <= 512);

/// What a worker is about to do, or has done last.
struct Intent {
  std::uint64_t active = 0;
  Record transfer;
};

// ---- YCSB, in global memory ----

inline constexpr std::size_t kValueBytes = 104;

struct Value {
  std::uint64_t key = 0, writer = 0, counter = 0;
  std::array<char, kValueBytes - 4 * sizeof(std::uint64_t)> filler{};
  std::uint64_t checksum = 0;

  static Value make(std::uint64_t key, std::uint64_t writer, std::uint64_t counter) noexcept {
    Value value{key, writer, counter, {}, 0};
    std::uint64_t state = key * 0x9e3779b97f4a7c15u + counter;
    for (char& byte : value.filler) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      byte = char(state >> 56);
    }
    value.checksum = value.sum();
    return value;
  }
  /// Is it what somebody has put under the key?
  [[nodiscard]] bool is_whole(std::uint64_t wanted) const noexcept {
    const Value same = make(key, writer, counter);
    return key == wanted && filler == same.filler && checksum == same.checksum;
  }

 private:
  [[nodiscard]] std::uint64_t sum() const noexcept {
    std::uint64_t sum = (key * 31 + writer) * 31 + counter;
    for (const char byte : filler) sum = (sum ^ std::uint8_t(byte)) * 0x100000001b3u;
    return sum;
  }
};
static_assert(sizeof(Value) == kValueBytes);

/// A pair as a node has read it.
struct FoundValue {
  std::uint64_t bytes = 0;  // of the value; 0: there is no such key
  Value value;
};

}  // namespace atoll::test
