// All nodes move money between accounts that all of them use. Run it: atoll run -n 4 -- ./bank
#include <atoll/atoll.hpp>
#include <cstdint>
#include <cstdio>

namespace {

constexpr std::uint64_t kAccounts = 100;
constexpr int kTransfers = 2000;  // by each node

struct Account {
  std::int64_t balance = 0;
};

}  // namespace

int main() {
  using atoll::Status;
  using atoll::txn::Txn;
  atoll::Node node = atoll::join();
  atoll::txn::Database bank(node);
  const auto accounts =
      bank.table<std::uint64_t, Account>("accounts", {atoll::txn::field("balance", &Account::balance)});
  if (node.id() == 0) {
    bank.transact([&](Txn& t) {
          Status status;
          for (std::uint64_t k = 0; k < kAccounts && status.ok(); ++k) status = t.insert(accounts, k, {100});
          return status;
        })
        .or_throw();
  }
  node.barrier().or_throw();

  std::uint64_t dice = node.id() + 1;
  for (int i = 0; i < kTransfers; ++i) {
    dice = dice * 6364136223846793005 + 1442695040888963407;
    const std::uint64_t from = dice >> 40 & 63, to = 64 + (dice >> 50) % 36;
    bank.transact([&](Txn& t) -> Status {
          const auto payer = t.read_for_update(accounts, from), payee = t.read_for_update(accounts, to);
          if (!payer.ok()) return payer.status();
          if (!payee.ok()) return payee.status();
          const Status status = t.update(accounts, from, {(*payer)->balance - 1});
          return status.ok() ? t.update(accounts, to, {(*payee)->balance + 1}) : status;
        })
        .or_throw();
  }
  node.barrier().or_throw();

  std::int64_t total = 0, moved = 0;
  bank.transact([&](Txn& t) {
        total = moved = 0;
        return t.scan(accounts, [&](const std::uint64_t& k, const Account& account) {
          total += account.balance;
          if (k >= 64) moved += account.balance - 100;
          return true;
        });
      })
      .or_throw();
  const atoll::txn::DatabaseStats stats = bank.stats();
  std::printf("node %d: %ld in all accounts, %ld moved; begun again %lu times\n", node.id(), long(total), long(moved),
              static_cast<unsigned long>(stats.lock_conflicts + stats.read_conflicts));
  node.barrier().or_throw();
  return total == 100 * long(kAccounts) && moved == long{kTransfers} * node.count() ? 0 : 1;
}
