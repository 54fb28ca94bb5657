// Counts words together: each node reads a part of the text, all count into one hash map.
// Run it: atoll run -n 4 -- ./word_count [FILE]
#include <algorithm>
#include <atoll/atoll.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr const char* kText =
    "the tide comes in and the tide goes out and what the tide brings in the tide takes out the reef stays "
    "where it is and the lagoon in the middle belongs to all";

std::vector<std::string> words_of(const char* path) {
  std::ifstream file(path);
  if (!file) throw atoll::Error(std::string("cannot read ") + path);
  std::vector<std::string> words;
  for (std::string word; file >> word;) words.push_back(word.substr(0, atoll::HashMap::kMaxKeyBytes));
  return words;
}

std::vector<std::string> words_of_text() {
  std::istringstream text(kText);
  return {std::istream_iterator<std::string>(text), {}};
}

}  // namespace

int main(int argc, char** argv) {
  atoll::Node node = atoll::join();
  atoll::HashMap counts(node, "words");

  const std::vector<std::string> words = argc > 1 ? words_of(argv[1]) : words_of_text();
  for (std::size_t i = node.id(); i < words.size(); i += node.count()) counts.increment(words[i]).status().or_throw();
  node.barrier().or_throw();  // everybody has counted

  if (node.id() == 0) {
    std::vector<std::pair<long, std::string>> found;
    counts
        .for_each([&](std::string_view word, std::string_view count) {
          found.emplace_back(std::stol(std::string(count)), word);
          return true;
        })
        .or_throw();
    std::sort(found.rbegin(), found.rend());
    std::printf("%zu words, %zu of them different\n", words.size(), found.size());
    for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 5); ++i) {
      std::printf("%6ld %s\n", found[i].first, found[i].second.c_str());
    }
  }
  node.barrier().or_throw();
  return 0;
}
