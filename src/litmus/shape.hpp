// The classic shapes of litmus tests, as data: which thread writes and reads what, and the outcome that one asks for.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "atoll/detail/namespace.hpp"

namespace atoll::litmus {

inline constexpr unsigned kMaxThreads = 4;
inline constexpr unsigned kMaxAccesses = 2;   // of one thread
inline constexpr unsigned kMaxRegisters = 4;  // of all threads of a shape
inline constexpr unsigned kVariables = 3;     // x, y, and what the mutex variant locks

enum class Variable : std::uint8_t { kX, kY, kMutex };

enum class Op : std::uint8_t { kRead, kWrite, kExchange, kFence, kReadLock, kWriteLock, kUnlock };

/// One call of a thread. All variables are 0 at first; all registers too.
struct Instruction {
  Op op = Op::kFence;
  Variable variable = Variable::kX;
  std::uint8_t value = 0;  // what is written, or the register that is read into
  bool operator==(const Instruction&) const = default;
};

/// What a run ended with: four bits for each register, then four for each of x and y as they are at the end. The parts
/// that threads contribute are joined by `|`.
using Outcome = std::uint32_t;

constexpr Outcome in_register(unsigned number, std::uint64_t value) {
  return Outcome(value & 0xf) << (4 * number);
}
constexpr Outcome at_the_end(Variable variable, std::uint64_t value) {
  return Outcome(value & 0xf) << (4 * (kMaxRegisters + unsigned(variable)));
}

/// A set of outcomes: those that have these values, whatever else they have.
struct Condition {
  Outcome mask = 0, values = 0;
  [[nodiscard]] constexpr bool holds(Outcome outcome) const { return (outcome & mask) == values; }
};

struct Shape {
  struct Thread {
    std::array<Instruction, kMaxAccesses> accesses{};
    unsigned count = 0;
    [[nodiscard]] constexpr std::span<const Instruction> all() const { return {accesses.data(), count}; }
  };
  std::string_view name;
  std::string_view text;      // "Wx1 Ry | Wy1 Rx"
  std::string_view asks;      // "r0=0 r1=0"
  std::string_view question;  // the same in words
  std::array<Thread, kMaxThreads> threads{};
  unsigned thread_count = 0;
  unsigned registers = 0;
  unsigned variables = 1;
  Condition interesting{};
};

namespace detail {

constexpr Variable variable_of(char c) {
  if (c != 'x' && c != 'y') throw std::invalid_argument("a variable is x or y");
  return c == 'x' ? Variable::kX : Variable::kY;
}
constexpr std::uint8_t digit_of(char c) {
  if (c < '0' || c > '9') throw std::invalid_argument("a value is one digit");
  return std::uint8_t(c - '0');
}

/// The next word of `text`, which is cut off it; empty at the end.
constexpr std::string_view next_word(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  const std::size_t length = text.find(' ') == std::string_view::npos ? text.size() : text.find(' ');
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  return word;
}

constexpr void add_access(Shape& shape, std::string_view word) {
  Shape::Thread& thread = shape.threads[shape.thread_count - 1];
  if (thread.count == kMaxAccesses) throw std::invalid_argument("a thread has too many accesses");
  Instruction access;
  if (word.size() == 3 && word[0] == 'W') {
    access = {Op::kWrite, variable_of(word[1]), digit_of(word[2])};
    if (access.value == 0) throw std::invalid_argument("a write of 0 cannot be told from the beginning");
  } else if (word.size() == 2 && word[0] == 'R') {
    if (shape.registers == kMaxRegisters) throw std::invalid_argument("too many reads");
    access = {Op::kRead, variable_of(word[1]), std::uint8_t(shape.registers++)};
  } else {
    throw std::invalid_argument("an access is Wx1 or Rx");
  }
  if (access.variable == Variable::kY) shape.variables = 2;
  thread.accesses[thread.count++] = access;
}

constexpr void add_condition(Shape& shape, std::string_view word) {
  const bool is_register = word.size() == 4 && word[0] == 'r' && word[2] == '=';
  const bool is_variable = word.size() == 3 && word[1] == '=';
  if (!is_register && !is_variable) throw std::invalid_argument("a condition is r0=1 or x=1");
  const std::uint8_t value = digit_of(word.back());
  if (is_register && digit_of(word[1]) >= shape.registers) throw std::invalid_argument("there is no such register");
  shape.interesting.mask |= is_register ? in_register(digit_of(word[1]), 0xf) : at_the_end(variable_of(word[0]), 0xf);
  shape.interesting.values |=
      is_register ? in_register(digit_of(word[1]), value) : at_the_end(variable_of(word[0]), value);
}

}  // namespace detail

/// A shape from its text. Threads stand between bars; registers are numbered r0, r1, ... in the order of the reads.
/// What is not well formed throws std::invalid_argument, which for a constant is an error of the compiler.
constexpr Shape make_shape(std::string_view name, std::string_view text, std::string_view asks,
                           std::string_view question) {
  Shape shape{name, text, asks, question};
  shape.thread_count = 1;
  for (std::string_view left = text, word = detail::next_word(left); !word.empty(); word = detail::next_word(left)) {
    if (word != "|") {
      detail::add_access(shape, word);
    } else if (shape.threads[shape.thread_count - 1].count == 0 || shape.thread_count++ == kMaxThreads) {
      throw std::invalid_argument("a thread is empty, or there are too many");
    }
  }
  if (shape.threads[shape.thread_count - 1].count == 0) throw std::invalid_argument("a thread is empty");
  for (std::string_view left = asks, word = detail::next_word(left); !word.empty(); word = detail::next_word(left)) {
    detail::add_condition(shape, word);
  }
  if (shape.interesting.mask == 0) throw std::invalid_argument("the shape asks for nothing");
  return shape;
}

// clang-format off
inline constexpr Shape kShapes[] = {
    make_shape("SB",   "Wx1 Ry | Wy1 Rx",             "r0=0 r1=0",           "do both reads pass the writes before them?"),
    make_shape("MP",   "Wx1 Wy1 | Ry Rx",             "r0=1 r1=0",           "is the flag seen before the data?"),
    make_shape("LB",   "Rx Wy1 | Ry Wx1",             "r0=1 r1=1",           "does each read see what is written after the other?"),
    make_shape("S",    "Wx2 Wy1 | Ry Wx1",            "r0=1 x=2",            "does the first write come last of all?"),
    make_shape("R",    "Wx1 Wy1 | Wy2 Rx",            "r0=0 y=2",            "does the later writer miss the first write?"),
    make_shape("2+2W", "Wx1 Wy2 | Wy1 Wx2",           "x=1 y=1",             "does each thread's first write come last?"),
    make_shape("IRIW", "Wx1 | Rx Ry | Wy1 | Ry Rx",   "r0=1 r1=0 r2=1 r3=0", "do two readers see two writes in two orders?"),
    make_shape("WRC",  "Wx1 | Rx Wy1 | Ry Rx",        "r0=1 r1=1 r2=0",      "is what caused a write seen after it?"),
    make_shape("RWC",  "Wx1 | Rx Ry | Wy1 Rx",        "r0=1 r1=0 r2=0",      "is a write that one has read missed by another?"),
    make_shape("CoRR", "Wx1 | Rx Rx",                 "r0=1 r1=0",           "do two reads of one variable go back?"),
    make_shape("CoRW", "Wx1 | Rx Wx2",                "r0=1 x=1",            "does a write come before what was read before it?"),
    make_shape("CoWR", "Wx1 Rx | Wx2",                "r0=2 x=1",            "does a read see what its own write has replaced?"),
    make_shape("CoWW", "Wx1 Wx2 | Rx Rx",             "x=1",                 "do two writes of one variable change places?"),
};
// clang-format on

/// nullptr when there is none of this name.
[[nodiscard]] const Shape* find_shape(std::string_view name);

/// "r0=1 r1=0 x=1": the registers and variables that the shape has.
[[nodiscard]] std::string to_text(const Shape& shape, Outcome outcome);

}  // namespace atoll::litmus
