#include "runtime/operators.hpp"

#include <cstring>
#include <limits>
#include <utility>

#include "base/check.hpp"
#include "runtime/bytes.hpp"

namespace atoll::runtime {
namespace {

template <typename T>
T value_of(std::uint64_t word) noexcept {
  T value;
  std::memcpy(&value, &word, sizeof(T));
  return value;
}
template <typename T>
std::uint64_t word_of(T value) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  return word;
}

/// Runs `use(Word*)` with the type of word that has so many bytes.
template <typename Use>
void with_word(std::uint16_t bytes, Use&& use) {
  switch (bytes) {
    case 1: return use(std::uint8_t{});
    case 2: return use(std::uint16_t{});
    case 4: return use(std::uint32_t{});
    default: return use(std::uint64_t{});
  }
}

template <typename Function, typename T>
OperatorInfo built_in() {
  return {sizeof(T), word_of(Function::template identity<T>),
          [](OperatorInfo::AnyFunction, std::uint64_t a, std::uint64_t b) {
            return word_of(Function{}(value_of<T>(a), value_of<T>(b)));
          },
          nullptr};
}

template <typename Function>
constexpr bool kIntegersOnly = std::is_same_v<Function, detail::And> || std::is_same_v<Function, detail::Or> ||
                               std::is_same_v<Function, detail::Xor>;

/// FNV-1a, 64 bits.
std::uint64_t hash(std::string_view text) noexcept {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return value ^ value >> 32;
}

}  // namespace

void OperatorInfo::apply(std::byte* at, std::uint64_t operand) const noexcept {
  with_word(bytes, [&]<typename Word>(Word) {
    auto* word = reinterpret_cast<Word*>(at);
    Word before = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(word, &before, Word(combine(function, before, operand)), true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
    }
  });
}

void OperatorInfo::apply_wide(std::byte* at, const std::byte* operand) const noexcept {
  std::array<std::byte, kMaxOperandBytes> value;
  copy_bytes(value.data(), at, bytes);
  combine_wide(function, value.data(), operand);
  copy_bytes(at, value.data(), bytes);
}

void OperatorInfo::clear(std::byte* slot, std::uint32_t line_bytes) const noexcept {
  if (is_wide()) {
    for (std::uint32_t at = 0; at + bytes <= line_bytes; at += bytes) {
      base::racy_copy(slot + at, wide_identity.data(), bytes);
    }
    return;
  }
  with_word(bytes, [&]<typename Word>(Word) {
    for (std::uint32_t at = 0; at < line_bytes; at += sizeof(Word)) {
      __atomic_store_n(reinterpret_cast<Word*>(slot + at), Word(identity), __ATOMIC_RELAXED);
    }
  });
}

void OperatorInfo::merge_wide(std::byte* line, const std::byte* operands, std::uint32_t line_bytes) const noexcept {
  std::array<std::byte, kMaxOperandBytes> operand;
  for (std::uint32_t at = 0; at + bytes <= line_bytes; at += bytes) {
    base::racy_copy(operand.data(), operands + at, bytes);
    // Padding may make an identity look like something else. It is still an operand that changes nothing.
    if (std::memcmp(operand.data(), wide_identity.data(), bytes) != 0) apply_wide(line + at, operand.data());
  }
}

void OperatorInfo::merge(std::byte* line, const std::byte* operands, std::uint32_t line_bytes) const noexcept {
  if (is_wide()) return merge_wide(line, operands, line_bytes);
  with_word(bytes, [&]<typename Word>(Word) {
    for (std::uint32_t at = 0; at < line_bytes; at += sizeof(Word)) {
      const Word operand = __atomic_load_n(reinterpret_cast<const Word*>(operands + at), __ATOMIC_RELAXED);
      if (operand != Word(identity)) apply(line + at, operand);
    }
  });
}

Operators::Operators() noexcept {
  const auto add_type = [&]<typename Function, typename T>(Function, T) {
    if constexpr (!(kIntegersOnly<Function> && std::is_floating_point_v<T>)) {
      Entry& entry = entries_[detail::kOperatorNumber<Function, T>];
      entry.info = built_in<Function, T>();
      entry.state.store(2, std::memory_order_relaxed);
    }
  };
  const auto add_function = [&]<typename Function>(Function f) {
    const auto all = [&]<typename... Ts>(detail::TypeList<Ts...>) { (add_type(f, Ts{}), ...); };
    all(detail::OperatorTypes{});
  };
  const auto all = [&]<typename... Fs>(detail::TypeList<Fs...>) { (add_function(Fs{}), ...); };
  all(detail::OperatorFunctions{});
}

Result<std::uint8_t> Operators::add(std::string_view name, OperatorInfo info) {
  ATOLL_CHECK(info.bytes != 0 && info.bytes <= kMaxOperandBytes);
  if (name.empty()) return {Errc::kInvalidArgument, "an operator needs a name"};
  constexpr unsigned kOwn = 256 - detail::kFirstOwnOperator;
  const auto number = std::uint8_t(detail::kFirstOwnOperator + hash(name) % kOwn);
  Entry& entry = entries_[number];
  std::uint8_t free = 0;
  if (!entry.state.compare_exchange_strong(free, 1, std::memory_order_acquire)) {
    return {Errc::kAlreadyExists, "an operator of this name is registered, or one whose name has the same number"};
  }
  entry.info = std::move(info);
  entry.state.store(2, std::memory_order_release);
  return number;
}

const OperatorInfo* Operators::find(std::uint64_t number) const noexcept {
  if (number >= entries_.size() || entries_[number].state.load(std::memory_order_acquire) != 2) return nullptr;
  return &entries_[number].info;
}

}  // namespace atoll::runtime
