// Transfers between accounts on all nodes, each of which touches two lines. A line is durable by itself; that both are
// changed or none is the program's own doing, as it would be on a disk: an intent that is written first.
#pragma once

#include <thread>

#include "base/random.hpp"
#include "behaviour/recovery_worker.hpp"

namespace atoll::test {

/// A transfer, under the locks of both lines:
///   1. the intent is written: which transfer, from where to where, how much;
///   2. both lines are written, with the new balance, the transfer's number, and a mark;
///   3. the marks are taken away; 4. the intent is marked as done; and the locks are given back.
/// After each step the worker fences. When its node dies its locks are gone. The next process does again what an intent
/// says: to a line that has the transfer's number nothing, to another what is missing. Until then others may lock the
/// lines, but leave alone what is marked: of a transfer nobody sees a half.
///
/// Thread-safety: as Load.
class Bank final : public Load {
 public:
  using Load::Load;

  void begin() override {
    if (!node_.recovered()) make();
    for (NodeId k = 0; k < node_.count(); ++k) {
      const GlobalAddress lines = await(name("accounts", k));
      for (unsigned i = 0; i < size_.lines; ++i) {
        lines_.push_back(lines + std::int64_t(std::uint64_t(i) * node_.line_bytes()));
      }
      for (unsigned thread = 0; thread < size_.threads; ++thread) {
        intents_.push_back(await(name("intent", k * size_.threads + thread)));
      }
    }
    // One may have to wait for another, of this node or not, whose mark is on one of its lines. It never goes round in
    // a circle: such a mark was made after the transfer that it keeps waiting.
    std::vector<unsigned> left;
    for (unsigned thread = 0; thread < size_.threads; ++thread) left.push_back(worker_of(thread));
    for (;;) {
      std::erase_if(left, [this](unsigned worker) { return finish(worker); });
      if (left.empty()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::unique_ptr<Worker> make_worker(unsigned thread) override {
    return std::make_unique<Client>(*this, worker_of(thread));
  }

  void dump(const std::string& path) override {
    std::vector<AccountLine> lines;
    for (const GlobalAddress line : lines_) lines.push_back(node_.read<AccountLine>(line).value());
    std::vector<Intent> intents;
    for (const GlobalAddress intent : intents_) intents.push_back(node_.read<Intent>(intent).value());
    save_file(path + ".intents", intents);
    save_file(path, lines);
  }

 private:
  class Client final : public Worker {
   public:
    Client(Bank& bank, unsigned worker)
        : bank_(bank), worker_(worker), random_(bank.size_.seed * 1009 + worker + bank.last_of(worker) * 7919) {}
    void step() override {
      const auto accounts = std::uint32_t(bank_.lines_.size() * kAccountsPerLine);
      Record transfer;
      transfer.worker = worker_;
      transfer.number = bank_.last_of(worker_) + 1;
      transfer.from = std::uint32_t(random_.below(accounts));
      do {
        transfer.to = std::uint32_t(random_.below(accounts));
      } while (transfer.to / kAccountsPerLine == transfer.from / kAccountsPerLine);
      transfer.amount = 1 + std::uint32_t(random_.below(100));
      if (!bank_.transfer(transfer)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }

   private:
    Bank& bank_;
    const unsigned worker_;
    base::Random random_;
  };

  /// The locks of a transfer's lines, taken in the order of addresses.
  class Locks {
   public:
    Locks(Node& node, GlobalAddress one, GlobalAddress other) : node_(node), lines_{one, other} {
      if (lines_[1].bits() < lines_[0].bits()) std::swap(lines_[0], lines_[1]);
      for (; held_ < 2; ++held_) node_.write_lock(lines_[held_], sizeof(AccountLine)).or_throw();
    }
    ~Locks() {
      while (held_ > 0) (void)node_.unlock(lines_[--held_], sizeof(AccountLine));  // an error is on its way already
    }
    Locks(const Locks&) = delete;
    Locks& operator=(const Locks&) = delete;
    /// What was written under them is acknowledged when it returns.
    void release() {
      while (held_ > 0) node_.unlock(lines_[--held_], sizeof(AccountLine)).or_throw();
    }

   private:
    Node& node_;
    GlobalAddress lines_[2];
    unsigned held_ = 0;
  };

  static std::string name(const char* what, unsigned number) {
    return std::string(what) + " " + std::to_string(number);
  }

  /// This node's accounts are in its own memory; of its workers' intents every other one is in the next node's.
  void make() {
    const GlobalAddress lines =
        node_.allocate(std::uint64_t(size_.lines) * node_.line_bytes(), Placement::local()).value();
    AccountLine opened;
    opened.balances.fill(kOpening);
    for (unsigned i = 0; i < size_.lines; ++i) {
      node_.write(lines + std::int64_t(std::uint64_t(i) * node_.line_bytes()), opened).or_throw();
    }
    node_.fence().or_throw();
    node_.publish(name("accounts", node_.id()), lines).or_throw();
    for (unsigned thread = 0; thread < size_.threads; ++thread) {
      const auto home = NodeId((node_.id() + thread % 2) % node_.count());
      const GlobalAddress intent = node_.allocate(node_.line_bytes(), Placement::on(home)).value();
      node_.publish(name("intent", worker_of(thread)), intent).or_throw();
    }
  }

  [[nodiscard]] GlobalAddress line_of(std::uint32_t account) const { return lines_[account / kAccountsPerLine]; }
  [[nodiscard]] std::uint64_t& last_of(unsigned worker) { return last_[worker % size_.threads]; }

  /// What the worker of the process before was doing. The journal is exact after that: what has happened is in it.
  /// False when somebody else has to finish first.
  bool finish(unsigned worker) {
    const std::vector<Record> journal = journal_of(worker);
    const std::uint64_t told = journal.empty() ? 0 : journal.back().number;
    const Intent intent = node_.read<Intent>(intents_[worker]).value();
    const std::uint64_t tried = intent.transfer.number;
    last_of(worker) = tried;
    if (tried < told || tried > told + 1 || (tried == told && intent.active != 0)) {
      complain("worker " + std::to_string(worker) + " was told of transfer " + std::to_string(told) +
               ", and its intent is number " + std::to_string(tried) +
               (intent.active != 0 ? ", to be done" : ", done"));
      last_of(worker) = std::max(tried, told);
      return true;
    }
    if (tried == told) return true;
    if (intent.active != 0) {
      Locks locks(node_, line_of(intent.transfer.from), line_of(intent.transfer.to));
      if (is_marked_by_others(intent.transfer)) return false;
      carry_out(intent);
      locks.release();
    }
    journal_.append(intent.transfer);
    return true;
  }

  /// REQUIRES: the lines are locked.
  [[nodiscard]] bool is_marked_by_others(const Record& transfer) {
    for (const std::uint32_t account : {transfer.from, transfer.to}) {
      const std::uint64_t mark = node_.read<AccountLine>(line_of(account)).value().mark;
      if (mark != 0 && mark != transfer.worker + 1) return true;
    }
    return false;
  }

  /// False when a line is part of somebody's transfer that was cut.
  bool transfer(const Record& transfer) {
    Locks locks(node_, line_of(transfer.from), line_of(transfer.to));
    if (is_marked_by_others(transfer)) return false;
    const Intent intent{1, transfer};
    node_.write(intents_[transfer.worker], intent).or_throw();
    node_.fence().or_throw();
    carry_out(intent);
    locks.release();
    last_of(transfer.worker) = transfer.number;
    journal_.append(transfer);
    return true;
  }

  /// REQUIRES: the lines are locked, the intent is written.
  void carry_out(const Intent& intent) {
    change(intent.transfer, intent.transfer.from, -std::int64_t(intent.transfer.amount));
    change(intent.transfer, intent.transfer.to, std::int64_t(intent.transfer.amount));
    node_.fence().or_throw();
    for (const std::uint32_t account : {intent.transfer.from, intent.transfer.to}) {
      auto line = node_.read<AccountLine>(line_of(account)).value();
      if (line.mark != intent.transfer.worker + 1) continue;
      line.mark = 0;
      node_.write(line_of(account), line).or_throw();
    }
    node_.fence().or_throw();
    node_.write(intents_[intent.transfer.worker], Intent{0, intent.transfer}).or_throw();
    node_.fence().or_throw();
  }

  void change(const Record& transfer, std::uint32_t account, std::int64_t by) {
    const GlobalAddress at = line_of(account);
    auto line = node_.read<AccountLine>(at).value();
    if (line.transfers[transfer.worker] == transfer.number) return;
    if (line.transfers[transfer.worker] > transfer.number) {
      complain("a line has transfer " + std::to_string(line.transfers[transfer.worker]) + " of worker " +
               std::to_string(transfer.worker) + " before " + std::to_string(transfer.number) + " is done");
    }
    line.mark = transfer.worker + 1;
    line.transfers[transfer.worker] = transfer.number;
    line.balances[account % kAccountsPerLine] += by;
    node_.write(at, line).or_throw();
  }

  std::vector<GlobalAddress> lines_;                // of all nodes
  std::vector<GlobalAddress> intents_;              // of all workers
  std::array<std::uint64_t, kMostThreads> last_{};  // the last transfer of each worker of this node
};

}  // namespace atoll::test
