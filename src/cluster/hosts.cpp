#include "cluster/hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "cluster/control.hpp"

namespace atoll::cluster {
namespace {

// Of these the launcher alone knows the right value.
constexpr std::array<std::string_view, 5> kLaunchersOwn = {"ATOLL_MASTER", "ATOLL_NODE", "ATOLL_NODES", "ATOLL_KEY",
                                                           "ATOLL_KEY_FILE"};

bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

/// A word that ssh takes for a host and nothing else: not for an option, and not for more than a word.
bool is_host_name(std::string_view word) noexcept {
  const auto allowed = [](char c) { return is_letter(c) || is_digit(c) || std::strchr("._-:@%[]", c) != nullptr; };
  return word.size() <= kMaxHostNameBytes && !word.starts_with('-') && word.find('\0') == std::string_view::npos &&
         std::all_of(word.begin(), word.end(), allowed);
}

bool is_variable_name(std::string_view word) noexcept {
  const auto allowed = [](char c) { return is_letter(c) || is_digit(c) || c == '_'; };
  return !word.empty() && !is_digit(word[0]) && std::all_of(word.begin(), word.end(), allowed);
}

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

NodeId parse_slots(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > kMaxNodes) {
    throw Error(fmt::format("slots={}: give a number from 1 to {}", clipped(text, 32), kMaxNodes));
  }
  return NodeId(value);
}

void add_variable(Host& host, std::string_view word) {
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  if (equals == std::string_view::npos || !is_variable_name(name) || word.find('\0') != std::string_view::npos) {
    throw Error(fmt::format("\"{}\" behind env: give NAME=VALUE", clipped(word, 64)));
  }
  if (is_launchers_own(name)) throw Error(fmt::format("{} is set by `atoll run` itself", name));
  host.environment[std::string(name)] = word.substr(equals + 1);
}

/// REQUIRES: there is a word.
Host parse_host(const std::vector<std::string_view>& words) {
  Host host;
  host.name = words[0];
  if (!is_host_name(words[0])) {
    throw Error(fmt::format("\"{}\" is no name or address of a host", clipped(words[0], 64)));
  }
  bool variables = false;
  for (std::size_t k = 1; k < words.size(); ++k) {
    const std::string_view word = words[k];
    if (variables) {
      add_variable(host, word);
    } else if (word == "env") {
      variables = true;
    } else if (word.starts_with("slots=")) {
      host.slots = parse_slots(word.substr(std::strlen("slots=")));
    } else {
      throw Error(fmt::format("\"{}\": give slots=N, or env NAME=VALUE...", clipped(word, 64)));
    }
  }
  return host;
}

}  // namespace

std::vector<Host> parse_hosts(std::string_view text, const std::string& file) {
  if (text.size() > kMaxHostsBytes) throw Error(fmt::format("{} is larger than {} bytes", file, kMaxHostsBytes));
  std::vector<Host> hosts;
  std::size_t slots = 0;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const auto words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    try {
      hosts.push_back(parse_host(words));
      slots += hosts.back().slots;
      if (slots > kMaxNodes)
        throw Error(fmt::format("{} slots by now: a cluster has up to {} nodes", slots, kMaxNodes));
    } catch (const Error& error) {
      throw Error(fmt::format("{}:{}: {}", file, number, error.what()));
    }
  }
  if (hosts.empty()) throw Error(fmt::format("{} names no host", file));
  return hosts;
}

std::vector<Host> read_hosts(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMaxHostsBytes + 1, '\0');
  if (stream) stream.read(text.data(), std::streamsize(text.size()));
  if (!stream && !stream.eof()) throw Error(fmt::format("cannot read {}: {}", file, std::strerror(errno)));
  text.resize(std::size_t(stream.gcount()));
  return parse_hosts(text, file);
}

bool is_launchers_own(std::string_view variable) noexcept {
  return std::find(kLaunchersOwn.begin(), kLaunchersOwn.end(), variable) != kLaunchersOwn.end();
}

NodeId slots_of(const std::vector<Host>& hosts) noexcept {
  unsigned slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  return NodeId(slots);
}

}  // namespace atoll::cluster
