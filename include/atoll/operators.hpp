// Operators for Node::apply: functions of two values that are associative and commutative, so that every node may
// combine operands by itself and their sum, so to speak, is added when somebody asks for it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "atoll/detail/hit.hpp"

namespace atoll {

/// The largest value that an operator may work on.
inline constexpr std::size_t kMaxOperandBytes = 256;

/// An operator on values of type T. The same number means the same on every node.
template <typename T, typename Function = T (*)(T, T)>
struct Operator {
  std::uint8_t number = 0;
  [[no_unique_address]] Function function{};
  T own_identity{};  // of one that was registered

  /// The operand that changes nothing.
  [[nodiscard]] constexpr T identity() const noexcept {
    if constexpr (std::is_pointer_v<Function>)
      return own_identity;
    else
      return Function::template identity<T>;
  }
};

namespace detail {

// The functions that are built in. Each has its identity: the operand that changes nothing, not even a bit. (That is
// why adding begins at -0.0: 0.0 would make a 0.0 of it.)
struct Add {
  template <typename T>
  static constexpr T identity = std::is_floating_point_v<T> ? T(-0.0) : T(0);
  template <typename T>
  constexpr T operator()(T a, T b) const noexcept {
    if constexpr (std::is_integral_v<T>)
      return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
    else
      return a + b;
  }
};
struct Multiply {
  template <typename T>
  static constexpr T identity = T(1);
  template <typename T>
  constexpr T operator()(T a, T b) const noexcept {
    // In 64 bits: smaller ones would be promoted to int, which may overflow.
    if constexpr (std::is_integral_v<T>)
      return T(std::uint64_t(a) * std::uint64_t(b));
    else
      return a * b;
  }
};
struct Min {
  template <typename T>
  static constexpr T identity = std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                                                     : std::numeric_limits<T>::max();
  template <typename T>
  constexpr T operator()(T a, T b) const noexcept {
    return b < a ? b : a;
  }
};
struct Max {
  template <typename T>
  static constexpr T identity = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                                     : std::numeric_limits<T>::lowest();
  template <typename T>
  constexpr T operator()(T a, T b) const noexcept {
    return a < b ? b : a;
  }
};
struct And {
  template <typename T>
  static constexpr T identity = T(~T(0));
  template <typename T>
  constexpr T operator()(T a, T b) const noexcept {
    return T(a & b);
  }
};
struct Or {
  template <typename T>
  static constexpr T identity = T(0);
  template <typename T>
  constexpr T operator()(T a, T b) const noexcept {
    return T(a | b);
  }
};
struct Xor {
  template <typename T>
  static constexpr T identity = T(0);
  template <typename T>
  constexpr T operator()(T a, T b) const noexcept {
    return T(a ^ b);
  }
};

template <typename... Ts>
struct TypeList {
  static constexpr std::uint8_t kCount = sizeof...(Ts);
  template <typename T>
  static constexpr std::uint8_t index_of() {
    std::uint8_t index = 0;
    (void)((std::is_same_v<T, Ts> || (++index, false)) || ...);
    return index;
  }
};
using OperatorFunctions = TypeList<Add, Multiply, Min, Max, And, Or, Xor>;
using OperatorTypes = TypeList<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,
                               std::int64_t, std::uint64_t, float, double>;

/// The type of OperatorTypes that is like T: `long long` is like `long`.
template <typename T, bool Integral = std::is_integral_v<T>>
struct Alike {
  using type = T;
};
template <typename T>
struct Alike<T, true> {
  using Unsigned = typename WordOf<sizeof(T)>::type;
  using type = std::conditional_t<std::is_signed_v<T>, std::make_signed_t<Unsigned>, Unsigned>;
};

/// Numbers from 1 on are those that are built in, one for each function and type.
template <typename Function, typename T>
inline constexpr std::uint8_t kOperatorNumber = 1 + OperatorFunctions::index_of<Function>() * OperatorTypes::kCount
                                                + OperatorTypes::index_of<typename Alike<T>::type>();
/// From here on, those that programs register.
inline constexpr std::uint8_t kFirstOwnOperator = 128;
static_assert(1 + OperatorFunctions::kCount * OperatorTypes::kCount <= kFirstOwnOperator);

/// Combines an operand with what stands at an address, as one step among all threads.
template <typename T, typename Function>
inline void combine(std::byte* at, T operand, Function function) noexcept {
  using Word = typename WordOf<sizeof(T)>::type;
  auto* word = reinterpret_cast<Word*>(at);
  if constexpr (std::is_same_v<Function, Add> && std::is_integral_v<T>) {
    __atomic_fetch_add(word, Word(operand), __ATOMIC_ACQ_REL);
  } else {
    Word before = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    Word after;
    do {
      T value, result;
      std::memcpy(&value, &before, sizeof(T));
      result = function(value, operand);
      std::memcpy(&after, &result, sizeof(T));
    } while (!__atomic_compare_exchange_n(word, &before, after, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  }
}

/// Runs `use(bytes)` under the hazard if the line may be operated by this operator, or written. False: it may not.
///
/// The operator is looked at under the hazard: whoever changes it has taken the line away before.
template <typename Use>
inline bool operate_line(ThreadSlot& slot, const Line& line, GlobalAddress address, std::uint8_t number,
                         Use&& use) noexcept {
  bool fence = line.fenced.load(std::memory_order_relaxed);
  while (true) {
    if (fence) {
      enter_hazard_fenced(slot, address.bits());
    } else {
      enter_hazard(slot, address.bits());
    }
    const std::uint8_t access = line.access.load(std::memory_order_seq_cst);
    const bool granted = (access & kWritable) != 0 ||
                         ((access & kOperable) != 0 && (line.operation.load(std::memory_order_relaxed) == number ||
                                                        ATOLL_FAULT(operator_not_compared)));
    // The line may have become fenced after we looked; it did so before it was granted again, so we see it now.
    const bool right = fence || !line.fenced.load(std::memory_order_relaxed);
    ATOLL_POINT();
    if (granted && right) use(line.byte_at(address));
    leave_hazard(slot);
    if (!granted || right) return granted;
    fence = true;
  }
}

/// One operand. False: not a hit, take the slow path. So do operands of fenced lines, where they are counted, so that
/// the line may calm down.
template <typename T, typename Function>
inline bool operate_hit(const LineTable& table, std::uint64_t address, const Operator<T, Function>& by,
                        T operand) noexcept {
  ThreadSlot& slot = t_slot;
  if (word_index<sizeof(T)>(slot.write_limit, address) == kNoWord) [[unlikely]]
    return false;
  if constexpr (std::is_pointer_v<Function>) {
    if (by.function == nullptr) return false;
  }
  const Line* const line = find_line(table, address);
  if (line == nullptr) [[unlikely]]
    return false;
  enter_hazard(slot, address);
  const std::uint8_t access = line->access.load(std::memory_order_seq_cst);
  const bool granted = (access == kOperable && line->operation.load(std::memory_order_relaxed) == by.number) ||
                       (access & kWritable) != 0;
  if (!granted || line->fenced.load(std::memory_order_relaxed)) [[unlikely]] {
    leave_hazard(slot);
    return false;
  }
  combine(line->byte_at(GlobalAddress(address)), operand, by.function);
  leave_hazard(slot);
  sample_hit(slot, address);
  return true;
}

}  // namespace detail

/// The operators that are built in. Integers wrap around; of floating-point numbers the result depends on the order of
/// the operands as far as rounding does.
namespace op {
template <typename T>
concept Number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8;

template <Number T>
inline constexpr Operator<T, detail::Add> add{detail::kOperatorNumber<detail::Add, T>};
template <Number T>
inline constexpr Operator<T, detail::Multiply> multiply{detail::kOperatorNumber<detail::Multiply, T>};
template <Number T>
inline constexpr Operator<T, detail::Min> min{detail::kOperatorNumber<detail::Min, T>};
template <Number T>
inline constexpr Operator<T, detail::Max> max{detail::kOperatorNumber<detail::Max, T>};
template <Number T>
requires std::integral<T>
inline constexpr Operator<T, detail::And> bit_and{detail::kOperatorNumber<detail::And, T>};
template <Number T>
requires std::integral<T>
inline constexpr Operator<T, detail::Or> bit_or{detail::kOperatorNumber<detail::Or, T>};
template <Number T>
requires std::integral<T>
inline constexpr Operator<T, detail::Xor> bit_xor{detail::kOperatorNumber<detail::Xor, T>};
}  // namespace op

}  // namespace atoll
