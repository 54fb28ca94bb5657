#include "bench/buffer/rival.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <lmdb.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/fd.hpp"
#include "bench/buffer/pages.hpp"
#include "bench/buffer/records.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLooksAtClock = 16;
constexpr unsigned kFileMode = 0600;

/// Where version 1 and version 2 say things.
struct GroupNames {
  const char* root;
  const char* limit;
  const char* usage;
};
constexpr GroupNames kGroupNames[] = {
    {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"},
    {"/sys/fs/cgroup", "memory.max", "memory.current"},
};

bool write_word(const fs::path& path, const std::string& word) {
  std::ofstream file(path);
  file << word;
  file.close();
  return bool(file);
}

/// From now on this process may use so much more than it does.
void bound_memory(const fs::path& group, std::uint64_t bytes) {
  for (const GroupNames& names : kGroupNames) {
    std::uint64_t used = 0;
    if (std::ifstream file(group / names.usage); !(file >> used)) continue;
    if (write_word(group / names.limit, std::to_string(used + bytes))) return;
  }
  throw Error(fmt::format("the memory of {} cannot be bounded", group.string()));
}

/// `read(n)` for random numbers below `count`: the rate of the second half of the time.
template <typename Read>
double random_reads(const RivalReads& reads, Read&& read) {
  RandomPages random(reads.count, 1);
  double rate = 0;
  for (int half = 0; half < 2; ++half) {
    const Clock::time_point begun = Clock::now();
    std::uint64_t done = 0;
    do {
      read(random.next());
    } while (++done % kLooksAtClock != 0 || seconds_since(begun) < reads.seconds);
    rate = double(done) / seconds_since(begun);
  }
  return rate;
}

/// The system is told that there is nothing to read ahead.
double read_mapped(const RivalReads& reads) {
  const base::Fd fd(::open(reads.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) throw Error(fmt::format("cannot open {}: {}", reads.path, std::strerror(errno)));
  const std::uint64_t bytes = reads.count * kPageBytes;
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) throw Error(fmt::format("cannot map {}: {}", reads.path, std::strerror(errno)));
  (void)::madvise(mapped, bytes, MADV_RANDOM);
  const auto* const pages = static_cast<const std::byte*>(mapped);
  const double rate = random_reads(
      reads, [&](std::uint64_t page) { expect_sum(sum_of_line(pages + page * kPageBytes), line_sum(page)); });
  (void)::munmap(mapped, bytes);
  return rate;
}

void check_lmdb(int code, const char* what) {
  if (code != MDB_SUCCESS) throw Error(fmt::format("{}: {}", what, ::mdb_strerror(code)));
}

/// An environment with one database and one transaction.
///
/// Thread-safety: none.
class Lmdb {
 public:
  Lmdb(const std::string& path, std::uint64_t map_bytes, unsigned environment_flags, unsigned transaction_flags) {
    check_lmdb(::mdb_env_create(&environment_), "mdb_env_create");
    check_lmdb(::mdb_env_set_mapsize(environment_, map_bytes), "mdb_env_set_mapsize");
    check_lmdb(::mdb_env_open(environment_, path.c_str(), MDB_NOSUBDIR | MDB_NOLOCK | environment_flags, kFileMode),
               "mdb_env_open");
    check_lmdb(::mdb_txn_begin(environment_, nullptr, transaction_flags, &transaction_), "mdb_txn_begin");
    check_lmdb(::mdb_dbi_open(transaction_, nullptr, MDB_INTEGERKEY, &database_), "mdb_dbi_open");
  }
  ~Lmdb() {
    if (transaction_ != nullptr) ::mdb_txn_abort(transaction_);
    ::mdb_env_close(environment_);
  }
  Lmdb(const Lmdb&) = delete;
  Lmdb& operator=(const Lmdb&) = delete;

  void append(std::uint64_t key, const RecordFile::Value& value) {
    MDB_val k{sizeof(key), &key};
    MDB_val v{value.size(), const_cast<std::byte*>(value.data())};
    check_lmdb(::mdb_put(transaction_, database_, &k, &v, MDB_APPEND), "mdb_put");
  }
  void commit() {
    check_lmdb(::mdb_txn_commit(std::exchange(transaction_, nullptr)), "mdb_txn_commit");
    check_lmdb(::mdb_env_sync(environment_, 1), "mdb_env_sync");
  }
  void get(std::uint64_t key, RecordFile::Value& into) {
    MDB_val k{sizeof(key), &key}, v{};
    check_lmdb(::mdb_get(transaction_, database_, &k, &v), "mdb_get");
    if (v.mv_size != into.size()) throw Error("LMDB has another value");
    std::memcpy(into.data(), v.mv_data, v.mv_size);
  }

 private:
  MDB_env* environment_ = nullptr;
  MDB_txn* transaction_ = nullptr;
  MDB_dbi database_ = 0;
};

/// One transaction for all reads: the best that it can do.
double read_lmdb(const RivalReads& reads) {
  Lmdb lmdb(reads.path, fs::file_size(reads.path), MDB_RDONLY | MDB_NORDAHEAD, MDB_RDONLY);
  RecordFile::Value value;
  const auto read = [&](std::uint64_t record) {
    const std::uint64_t key = RecordFile::key_of(record);
    lmdb.get(key, value);
    std::uint64_t word = 0;
    std::memcpy(&word, value.data(), sizeof(word));
    expect_sum(word, key);
  };
  if (reads.group.empty()) {  // all of it fits, and shall be in memory
    for (std::uint64_t record = 0; record < reads.count; ++record) read(record);
  }
  return random_reads(reads, read);
}

}  // namespace

std::optional<MemoryGroup> MemoryGroup::make() {
  for (const GroupNames& names : kGroupNames) {
    const fs::path path = fs::path(names.root) / fmt::format("atoll-bench-{}", ::getpid());
    std::error_code failed;
    if (!fs::create_directory(path, failed)) continue;
    MemoryGroup group(path.string());
    if (fs::exists(path / names.limit)) return group;
  }
  return std::nullopt;
}

MemoryGroup::~MemoryGroup() {
  if (!path_.empty()) (void)::rmdir(path_.c_str());
}

void make_lmdb(const std::string& path, std::uint64_t records) {
  constexpr std::uint64_t kRoomPerRecord = 4 * RecordFile::kValueBytes;
  Lmdb lmdb(path, records * kRoomPerRecord + (1u << 20), MDB_NOSYNC, 0);
  for (std::uint64_t record = 0; record < records; ++record) {
    const std::uint64_t key = RecordFile::key_of(record);
    lmdb.append(key, RecordFile::value_of(key));
  }
  lmdb.commit();
}

double rival_reads_per_s(const RivalReads& reads, const std::string& results) {
  drop_page_cache(reads.path);
  (void)::unlink(results.c_str());
  const nlohmann::json job = {{"engine", reads.engine},   {"path", reads.path},   {"count", reads.count},
                              {"seconds", reads.seconds}, {"group", reads.group}, {"memory", reads.memory_bytes},
                              {"results", results}};
  const std::string given = cluster::job_variable(job);
  std::vector<char*> environment;
  for (char** one = environ; *one != nullptr; ++one) {
    if (std::string_view(*one).substr(0, given.find('=') + 1) != given.substr(0, given.find('=') + 1)) {
      environment.push_back(*one);
    }
  }
  environment.push_back(const_cast<char*>(given.c_str()));
  environment.push_back(nullptr);
  char program[] = "/proc/self/exe", command[] = "bench-node", name[] = "buffer-rival";
  char* const arguments[] = {program, command, name, nullptr};
  pid_t child = 0;
  if (const int failed = ::posix_spawn(&child, program, nullptr, nullptr, arguments, environment.data()); failed != 0) {
    throw Error(fmt::format("cannot start {}: {}", program, std::strerror(failed)));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  nlohmann::json found;
  if (std::ifstream file(results); status != 0 || !(file >> found)) {
    throw Error(fmt::format("the reads by {} failed", reads.engine));
  }
  return found.at("rate").get<double>();
}

void run_rival_process() {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody else ends it
  const nlohmann::json job = cluster::current_job();
  RivalReads reads;
  job.at("engine").get_to(reads.engine);
  job.at("path").get_to(reads.path);
  job.at("count").get_to(reads.count);
  job.at("seconds").get_to(reads.seconds);
  job.at("group").get_to(reads.group);
  job.at("memory").get_to(reads.memory_bytes);
  if (!reads.group.empty()) {
    if (!write_word(fs::path(reads.group) / "cgroup.procs", "0")) throw Error("cannot join the group of processes");
    bound_memory(reads.group, reads.memory_bytes);
  }
  cluster::report(job, {{"rate", reads.engine == "lmdb" ? read_lmdb(reads) : read_mapped(reads)}});
}

}  // namespace atoll::bench
