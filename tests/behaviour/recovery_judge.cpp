#include "behaviour/recovery_judge.hpp"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <set>

namespace atoll::test {
namespace {

constexpr std::size_t kMostToTell = 20;

/// Thread-safety: none.
class Judge {
 public:
  explicit Judge(const Judged& what) : what_(what) {
    for (unsigned node = 0; node < what.nodes; ++node) {
      for (const Record& record : load_journal(what.directory, node)) journal_.push_back(record);
      tell_lines(complaints_path(what.directory, node), verdict_.losses);
      tell_lines(errors_path(what.directory, node), verdict_.errors);
    }
    verdict_.acknowledged = journal_.size();
  }

  Verdict bank() {
    find_gaps();
    const std::vector<AccountLine> expected = expected_lines();
    for (unsigned node = 0; node < what_.nodes; ++node) {
      const auto found = load_file<AccountLine>(dump_path(what_.directory, node));
      if (found.empty() || found.size() < expected.size()) {
        lose(fmt::format("node {} reads {} lines of accounts where {} are used", node, found.size(), expected.size()));
        continue;
      }
      compare(node, expected, found);
      const auto intents = load_file<Intent>(dump_path(what_.directory, node) + ".intents");
      for (std::size_t worker = 0; worker < intents.size(); ++worker) {
        if (intents[worker].active != 0)
          lose(fmt::format("node {} reads that worker {} has not finished", node, worker));
      }
    }
    return verdict_;
  }

  /// Each worker's puts, one after the other, and no more.
  Verdict grow() {
    const unsigned workers = what_.nodes * what_.threads;
    std::vector<std::uint64_t> told(workers);
    for (const Record& record : journal_) {
      if (record.worker >= workers || record.number != told[record.worker] + 1) {
        lose(fmt::format("worker {} was told of put {} out of turn", record.worker, record.number));
        return verdict_;
      }
      ++told[record.worker];
    }
    for (unsigned node = 0; node < what_.nodes; ++node) {
      const auto found = load_file<FoundValue>(dump_path(what_.directory, node));
      std::size_t at = 0;
      for (std::uint64_t worker = 0; worker < workers; ++worker) {
        for (std::uint64_t number = 0; number <= told[worker]; ++number, ++at) {
          const std::uint64_t key = worker << 32 | number;
          if (at >= found.size()) {
            lose(fmt::format("node {} has looked for {} keys and no more", node, found.size()));
            return verdict_;
          }
          const bool is_there = found[at].bytes == sizeof(Value) && found[at].value.is_whole(key);
          if (number == told[worker]) {
            if (found[at].bytes != 0)
              lose(fmt::format("node {} reads a key {} of worker {} that was not put", node, number, worker));
          } else if (!is_there) {
            lose(fmt::format("node {} does not find key {} of worker {}", node, number, worker));
          }
        }
      }
    }
    return verdict_;
  }

  /// Each order that was acknowledged was entered, and once. (What an order is the nodes look at themselves.)
  Verdict tpcc() {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::set<std::uint64_t>> told;  // by warehouse and district
    for (const Record& record : journal_) {
      if (!told[{record.from, record.to}].insert(record.number).second) {
        lose(fmt::format("order {} of district {} of warehouse {} is told twice", record.number, record.to,
                         record.from));
      }
    }
    for (unsigned node = 0; node < what_.nodes; ++node) {
      const auto found = load_file<Record>(dump_path(what_.directory, node));
      if (found.empty()) lose(fmt::format("node {} reads no districts", node));
      for (const Record& district : found) {
        const auto& orders = told[{district.from, district.to}];
        if (orders.empty() || *orders.rbegin() < district.number) continue;
        lose(fmt::format("node {} reads that order {} of district {} of warehouse {} comes next, which was told", node,
                         district.number, district.to, district.from));
      }
    }
    return verdict_;
  }

  Verdict ycsb() {
    std::map<std::uint64_t, std::uint64_t> last;
    for (const Record& record : journal_) {
      if (record.number <= last[record.from])
        lose(fmt::format("put {} of key {} is told twice", record.number, record.from));
      last[record.from] = std::max(last[record.from], record.number);
    }
    const unsigned workers = what_.nodes * what_.threads;
    for (unsigned node = 0; node < what_.nodes; ++node) {
      const auto found = load_file<FoundValue>(dump_path(what_.directory, node));
      if (found.empty()) lose(fmt::format("node {} reads no keys", node));
      for (std::uint64_t key = 0; key < found.size(); ++key) {
        const FoundValue& one = found[key];
        if (one.bytes == 0) {
          lose(fmt::format("node {} does not find key {}", node, key));
        } else if (one.bytes != sizeof(Value) || !one.value.is_whole(key) || one.value.writer != key % workers) {
          lose(fmt::format("node {} reads a damaged value of key {}", node, key));
        } else if (one.value.counter != last[key]) {
          lose(fmt::format("node {} reads put {} of key {}, of which {} were acknowledged", node, one.value.counter,
                           key, last[key]));
        }
      }
    }
    return verdict_;
  }

 private:
  static void tell_lines(const std::string& path, std::vector<std::string>& out) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) out.push_back(line);
  }
  void lose(std::string what) {
    if (verdict_.losses.size() < kMostToTell) verdict_.losses.push_back(std::move(what));
  }

  /// A worker does one transfer after the other; each is done some day.
  void find_gaps() {
    std::map<std::uint32_t, std::uint64_t> last;
    for (const Record& record : journal_) {
      std::uint64_t& before = last[record.worker];
      if (record.number != before + 1) {
        lose(fmt::format("worker {} was told of transfer {} after {}", record.worker, record.number, before));
      }
      before = record.number;
    }
  }

  /// As many as are used, and what is in them when all that was told has happened and nothing else.
  [[nodiscard]] std::vector<AccountLine> expected_lines() const {
    std::vector<AccountLine> lines(load_file<AccountLine>(dump_path(what_.directory, 0)).size());
    for (AccountLine& line : lines) line.balances.fill(kOpening);
    for (const Record& record : journal_) {
      for (const std::uint32_t account : {record.from, record.to}) {
        if (account / kAccountsPerLine >= lines.size()) lines.resize(account / kAccountsPerLine + 1);
        AccountLine& line = lines[account / kAccountsPerLine];
        line.transfers[record.worker] = std::max(line.transfers[record.worker], record.number);
        line.balances[account % kAccountsPerLine] +=
            account == record.from ? -std::int64_t(record.amount) : std::int64_t(record.amount);
      }
    }
    return lines;
  }

  void compare(unsigned node, const std::vector<AccountLine>& expected, const std::vector<AccountLine>& found) {
    std::int64_t total = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].mark != 0)
        lose(fmt::format("node {} reads a mark of worker {} in line {}", node, found[i].mark - 1, i));
      for (unsigned worker = 0; worker < kMostWorkers; ++worker) {
        if (found[i].transfers[worker] == expected[i].transfers[worker]) continue;
        lose(fmt::format("node {} reads transfer {} of worker {} in line {}, where {} was the last", node,
                         found[i].transfers[worker], worker, i, expected[i].transfers[worker]));
      }
      for (unsigned k = 0; k < kAccountsPerLine; ++k) {
        total += found[i].balances[k];
        if (found[i].balances[k] == expected[i].balances[k]) continue;
        lose(fmt::format("node {} reads {} in account {}, which has {}", node, found[i].balances[k],
                         i * kAccountsPerLine + k, expected[i].balances[k]));
      }
    }
    const auto sum = std::int64_t(found.size()) * kAccountsPerLine * kOpening;
    if (total != sum) lose(fmt::format("node {} reads a total of {}, not {}", node, total, sum));
  }

  const Judged what_;
  std::vector<Record> journal_;
  Verdict verdict_;
};

}  // namespace

Verdict judge(const Judged& what) {
  if (what.load == "bank") return Judge(what).bank();
  if (what.load == "tpcc") return Judge(what).tpcc();
  return what.load == "grow" ? Judge(what).grow() : Judge(what).ycsb();
}

}  // namespace atoll::test
