// Judges the histories that history_node left: history_check DIRECTORY, or a file of text that --text has printed.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iterator>
#include <string>

#include "behaviour/history_files.hpp"

namespace atoll::test {
namespace {

struct Arguments {
  std::string path;
  std::uint64_t max_states = verify::LinearizabilityOptions{}.max_states;
  bool text = false;
  bool not_strict = false;
};

/// Operations and transactions do not stand in one file: which it is the first line shows.
Histories read_text(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto operations = verify::parse_operations(text);
  if (operations.error.empty()) return {operations.all, {}};
  const auto transactions = verify::parse_transactions(text);
  if (transactions.error.empty()) return {{}, transactions.all};
  throw Error("as operations: " + operations.error + "; as transactions: " + transactions.error);
}

int judge(const Arguments& given) {
  const Histories all = std::filesystem::is_directory(given.path) ? load_histories(given.path) : read_text(given.path);
  if (given.text) {
    std::fputs((text_of(all.operations) + text_of(all.transactions)).c_str(), stdout);
    return 0;
  }
  const auto words = verify::check_linearizable(all.operations, {.max_states = given.max_states});
  const auto pending =
      std::count_if(all.operations.begin(), all.operations.end(), [](auto& one) { return one.pending(); });
  std::printf("%zu operations (%td pending) on %zu objects: %s, %zu states\n%s", all.operations.size(), pending,
              words.keys, to_string(words.verdict), std::size_t(words.states), words.explanation.c_str());
  const auto longest = std::max_element(all.operations.begin(), all.operations.end(), [](const auto& a, const auto& b) {
    return (a.pending() ? 0 : a.responded - a.invoked) < (b.pending() ? 0 : b.responded - b.invoked);
  });
  if (longest != all.operations.end() && !longest->pending()) {
    std::printf("the longest call took %.1f ms: %s\n", double(longest->responded - longest->invoked) / 1e6,
                to_string(*longest).c_str());
  }
  const auto accounts = verify::check_serializable(all.transactions, {.strict = !given.not_strict});
  std::printf("%zu transactions (%zu took effect): %s\n%s", all.transactions.size(), accounts.counted,
              to_string(accounts.verdict), accounts.explanation.c_str());
  const auto has = [&](verify::Verdict verdict) { return words.verdict == verdict || accounts.verdict == verdict; };
  return has(verify::Verdict::kRejected) ? 1 : has(verify::Verdict::kUnknown) ? 2 : 0;
}

}  // namespace
}  // namespace atoll::test

int main(int argc, char** argv) {
  atoll::test::Arguments given;
  CLI::App app{"Judges histories. Exit code 0: accepted, 1: rejected, 2: unknown, 3: cannot be read"};
  app.add_option("path", given.path, "A directory of history_node, or a file of text")
      ->required()
      ->check(CLI::ExistingPath);
  app.add_option("--max-states", given.max_states, "Of the search, for each key");
  app.add_flag("--text", given.text, "Print the history instead");
  app.add_flag("--not-strict", given.not_strict, "Transactions need not keep to the order of real time");
  CLI11_PARSE(app, argc, argv);
  try {
    return atoll::test::judge(given);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
