// atoll::Node: this process's membership in a cluster, and everything that can be done with its memory.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "atoll/address.hpp"
#include "atoll/detail/hit.hpp"
#include "atoll/file.hpp"
#include "atoll/operators.hpp"
#include "atoll/options.hpp"
#include "atoll/stats.hpp"
#include "atoll/status.hpp"

namespace atoll {

namespace runtime {
class Runtime;
}

class BufferPool;

namespace detail {
class ArrayLayout;
template <typename T>
inline constexpr bool is_span = false;
template <typename T, std::size_t N>
inline constexpr bool is_span<std::span<T, N>> = true;
template <typename C, typename Traits>
inline constexpr bool is_span<std::basic_string_view<C, Traits>> = true;
}  // namespace detail

/// What may live in global memory and be moved as bytes. Not what only points to bytes: a pointer or a span means
/// nothing to another process.
template <typename T>
concept Shareable = std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T> && !std::is_pointer_v<T> &&
                    !detail::is_span<T>;

/// What fetch_add, exchange and compare_exchange work on.
template <typename T>
concept AtomicWord = Shareable<T> &&(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);

/// What operators work on. Words, as above, are combined by the processor's own atomics; others under a lock of their
/// line.
template <typename T>
concept Combinable = Shareable<T> && sizeof(T) <= kMaxOperandBytes;

/// Where an allocation should go.
struct Placement {
  enum class Where : std::uint8_t { kAny, kLocal, kRemote, kNode, kNear };
  Where where = Where::kAny;  // local, or where most is free when this node is short
  NodeId node = 0;
  bool zeroed = true;  // false: the bytes are whatever was there before

  static constexpr Placement any() { return {}; }
  static constexpr Placement local() { return {Where::kLocal, 0, true}; }
  static constexpr Placement remote() { return {Where::kRemote, 0, true}; }
  static constexpr Placement on(NodeId node) { return {Where::kNode, node, true}; }
  static constexpr Placement near(GlobalAddress address) { return {Where::kNear, address.node(), true}; }
  [[nodiscard]] constexpr Placement uninitialized() const {
    Placement p = *this;
    p.zeroed = false;
    return p;
  }
};

/// Does a change wait for the disk, in mode power? kLater: the thread's next fence, unlock or write_together does;
/// nobody else gets the line before, but for threads of this node.
enum class Settle : std::uint8_t { kNow, kLater };

/// What has become of a node.
enum class Presence : std::uint8_t {
  kHere,
  kAway,  // its process is over, and another one will take its memory over
  kGone,  // so it stays
};

enum class LockMode : std::uint8_t { kRead, kWrite };

/// A write among several: what Node::write_together takes.
struct WritePart {
  GlobalAddress address;
  std::span<const std::byte> bytes;
};

/// A function for Node::atomic: changes the bytes at the address, `args` as given by the caller. One that throws
/// changes nothing.
using AtomicFunction = std::function<void(std::span<std::byte> target, std::span<const std::byte> args)>;

/// A node of the cluster: the handle to the coherent memory.
///
/// Thread-safety: every method may be called from any thread at any time; threads need no registration.
/// Locks belong to the thread that took them.
/// Invariants:
///   1. A read returns the last write in coherence order, and never an older one of this thread.
///   2. Each access of up to 4096 bytes that stays within one line is atomic.
///   3. No call waits for ever: a wait ends with a status when a node that it needs has died.
///
/// A process joins once. (Several nodes in one process are for tests: a thread that uses two of them in turn may be
/// served by the wrong one.)
///
/// Leaving: the destructor waits for this node's writes, then serves its memory until every other node
/// has left too (as MPI_Finalize does), for their data may live here.
class Node {
 public:
  /// Joins the cluster that `atoll run` set up, or makes a cluster of one. Throws Error.
  explicit Node(const Options& options = Options::from_environment());
  /// From a runtime made by other means; for the layers of Atoll itself and their tests.
  explicit Node(std::unique_ptr<runtime::Runtime> runtime);
  ~Node();
  Node(Node&&) noexcept;
  Node& operator=(Node&&) noexcept;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  [[nodiscard]] NodeId id() const noexcept;
  [[nodiscard]] NodeId count() const noexcept;
  [[nodiscard]] std::uint32_t line_bytes() const noexcept;
  /// Did this node find its memory as a process before it had left it? (docs/recovery.md)
  [[nodiscard]] bool recovered() const noexcept;

  /// Which process of this node it is: higher than that of any before that left its memory to this one.
  [[nodiscard]] std::uint64_t life() const noexcept;
  /// Is there a process of the node, by what is known here?
  [[nodiscard]] Presence presence(NodeId node) const noexcept;

  // ---- memory ----

  /// `bytes` of global memory; zeroed unless the placement says `uninitialized()`.
  Result<GlobalAddress> allocate(std::uint64_t bytes, Placement placement = {}) noexcept;
  /// `count` objects of type T, zeroed.
  template <Shareable T>
  Result<global_ptr<T>> allocate(std::uint64_t count = 1, Placement placement = {}) noexcept;
  Status free(GlobalAddress address) noexcept;
  template <typename T>
  Status free(global_ptr<T> p) noexcept {
    return free(p.address());
  }

  /// As `free`, without waiting for the node that has the memory: it is told of several blocks at once, when they are
  /// eight, at the next allocate or free there, or at a barrier. Whether an allocation starts there is not known then.
  Status release(GlobalAddress address) noexcept;

  // ---- regions: memory whose lines are larger than the heap's ----
  //
  // What arrays are made of. All nodes change the lines of a region together, and nobody uses it meanwhile: each
  // closes it; a barrier; its home opens it; a barrier; the others open it; a barrier.

  /// The largest line that a region may have, the same for every node.
  [[nodiscard]] std::uint32_t largest_line_bytes() const noexcept;
  /// Whole grains of 64 KiB of this node's own memory, zeroed; `free` gives them back, once their lines are the heap's
  /// again.
  Result<GlobalAddress> allocate_region(std::uint64_t bytes) noexcept;
  /// This node gives back what it has of a region and asks for nothing in it any more.
  Status close_region(GlobalAddress first, std::uint64_t bytes) noexcept;
  /// From now on the lines of the region are so large: a power of two from `line_bytes()` to `largest_line_bytes()`.
  /// At the home, waits until all others have given back what they had.
  Status open_region(GlobalAddress first, std::uint64_t bytes, std::uint32_t line_bytes) noexcept;

  // ---- read and write ----

  Status read(GlobalAddress address, std::span<std::byte> into) noexcept;
  Status write(GlobalAddress address, std::span<const std::byte> from,
               Consistency consistency = Consistency::kDefault) noexcept;
  /// As `read`, but of what it reads only aligned words of 8 bytes are whole, whatever else is promised of larger
  /// accesses: for those who find out by themselves whether it was all of one moment. It costs less when it hits.
  Status read_words(GlobalAddress address, std::span<std::byte> into) noexcept {
    if (detail::read_words_hit(address.bits(), into.data(), into.size())) [[likely]]
      return {};
    return read(address, into);
  }
  /// Several writes, anywhere, of which a crash leaves all or none. If the call fails none was done, but for kStorage
  /// in mode power: then they are done, and what will be left of them after a crash is not known. Other nodes see none
  /// of them, or all: their lines are locked meanwhile, in the order of addresses. Threads of this node may see some
  /// before others, of each line all at once but for those who read single words; stores are in the order of the parts.
  /// Visible to all when it returns (and in mode power on the disk). kInvalidArgument: more than fits a block of the
  /// log. kWouldDeadlock: this thread has locked one of the lines.
  Status write_together(std::span<const WritePart> parts) noexcept;
  template <Shareable T>
  Result<T> read(GlobalAddress address) noexcept;
  template <Shareable T>
  Result<T> read(global_ptr<T> p) noexcept {
    return read<T>(p.address());
  }
  template <Shareable T>
  Status write(GlobalAddress address, const T& value, Consistency consistency = Consistency::kDefault) noexcept;
  template <Shareable T>
  Status write(global_ptr<T> p, const std::type_identity_t<T>& value,
               Consistency consistency = Consistency::kDefault) noexcept {
    return write<T>(p.address(), value, consistency);
  }

  /// Brings lines into this node's cache that will be read often, without waiting for them: up to half of the cache,
  /// and not what others are writing. A hint that is never needed: reads bring a line by themselves when it proves
  /// useful. kWrite: lines that will be written or locked to write, whoever has them now; they are under way as writes
  /// are, and the thread's next fence or lock waits for all of them together. Up to 4 KiB that are here already come
  /// nearer to the processor.
  Status prefetch(GlobalAddress address, std::uint64_t bytes, LockMode mode = LockMode::kRead) noexcept {
    const bool is_near = mode == LockMode::kWrite ? detail::bring_near_to_write(*table_, address.bits(), bytes)
                                                  : detail::bring_near_to_read(address.bits(), bytes);
    return is_near ? Status() : prefetch_slow(address, bytes, mode);
  }
  /// The same of `bytes` at each of these addresses, side by side; null ones are passed by.
  Status prefetch(std::span<const GlobalAddress> addresses, std::uint64_t bytes,
                  LockMode mode = LockMode::kRead) noexcept {
    for (const GlobalAddress at : addresses) detail::bring_records_near(*table_, at.bits(), mode == LockMode::kWrite);
    for (const GlobalAddress at : addresses) {
      if (!at) continue;
      if (const Status status = prefetch(at, bytes, mode); !status.ok()) return status;
    }
    return {};
  }
  template <typename T>
  Status prefetch(global_ptr<T> p, std::uint64_t count = 1, LockMode mode = LockMode::kRead) noexcept {
    return prefetch(p.address(), count * sizeof(T), mode);
  }

  /// Lines that this node will not need for a while, by all it knows: those that other nodes keep asking for go home at
  /// once, where they are nearer to all. A hint: what nobody asks for stays.
  Status give_back(GlobalAddress address, std::uint64_t bytes) noexcept;

  // ---- atomics: sequentially consistent, `address` aligned to the type; a full fence ----

  template <AtomicWord T>
  requires std::integral<T> Result<T> fetch_add(global_ptr<T> p, std::type_identity_t<T> value)
  noexcept;
  template <AtomicWord T>
  Result<T> exchange(global_ptr<T> p, std::type_identity_t<T> value) noexcept;
  /// The value found; it was replaced if and only if it equals `expected`.
  template <AtomicWord T>
  Result<T> compare_exchange(global_ptr<T> p, std::type_identity_t<T> expected, std::type_identity_t<T> desired,
                             Settle settle = Settle::kNow) noexcept;
  /// If the word at `guard` is `expected`, it becomes `desired`, and up to 16 bytes are written at `address`, in the
  /// same line; true. All in one step, as under a write lock of the line, but where the line is at home, unlocked, it
  /// costs one message there and one back, and no line moves. Who reads without a lock (read_words) can tell by the
  /// guard whether what it read is of one moment: while the bytes are written it is the complement of `expected`.
  /// At the same time guard and bytes may be changed by write_if, the guard by compare_exchange, and both under a lock,
  /// not otherwise. kWouldDeadlock under a lock of one's own; kInDoubt when the home died before it answered.
  Result<bool> write_if(global_ptr<std::uint64_t> guard, std::uint64_t expected, std::uint64_t desired,
                        GlobalAddress address, std::span<const std::byte> bytes) noexcept;
  /// Registers a function for `atomic`; register it under the same name on every node that calls it.
  Status register_atomic(std::string_view name, AtomicFunction function);
  /// Runs the named function on [address, address + size), which must lie within one line, with nobody
  /// else in the line. The function must not call into Atoll.
  Status atomic(GlobalAddress address, std::uint32_t size, std::string_view name,
                std::span<const std::byte> args) noexcept;

  // ---- operators: what many nodes do to the same values at once (docs/operators.md) ----

  /// Combines `operand` with the value at `p`, whose distance from the beginning of its line is a multiple of its size.
  /// Like a write it is done in the background when the line is not here for it, and `fence` waits for it; unlike one
  /// it needs no other node's leave while all that nodes do to the line is to apply the same operator.
  template <Combinable T, typename Function>
  Status apply(global_ptr<T> p, const Operator<T, Function>& by, std::type_identity_t<T> operand,
               Consistency consistency = Consistency::kDefault) noexcept;
  /// An operator of one's own: `function` is associative and commutative, `identity` is an operand that changes
  /// nothing. The function must not throw, wait, or call into Atoll. Register it under the same name on every node
  /// before any node applies it.
  template <Combinable T>
  Result<Operator<T>> register_op(std::string_view name, std::type_identity_t<T> identity, T (*function)(T, T));

  // ---- order and exclusion ----

  /// Waits until all earlier writes of this thread are visible to everyone; reports the first that failed.
  Status fence() noexcept;
  /// Locks cover whole lines, and bring their data. Each of them is a fence.
  Status read_lock(GlobalAddress address, std::uint64_t bytes) noexcept;
  Status write_lock(GlobalAddress address, std::uint64_t bytes) noexcept;
  /// kRefused at once when somebody else's lock (or request) is in the way.
  Status try_read_lock(GlobalAddress address, std::uint64_t bytes) noexcept;
  Status try_write_lock(GlobalAddress address, std::uint64_t bytes) noexcept;
  /// REQUIRES: this thread locked exactly this range.
  Status unlock(GlobalAddress address, std::uint64_t bytes) noexcept;
  /// Locks a range of one line and says where its bytes are, which is good until `unlock`. What Pin is made of.
  Result<std::byte*> pin(GlobalAddress address, std::uint64_t bytes, LockMode mode) noexcept;
  /// Where the bytes are, of an address that this thread has locked; good until `unlock`.
  [[nodiscard]] std::byte* locked_bytes(GlobalAddress address) const noexcept;

  /// The lock of the one element that stands at this address, by the address alone: it has nothing to do with lines,
  /// nor with the locks above. It brings no data, keeps nobody from the element's line, and excludes those alone who
  /// lock the same address so. First come, first served; readers share. Each of them is a fence. kNodeDied also when
  /// the node that had locked it to write is gone; status.node() says which.
  Status read_lock_element(GlobalAddress element) noexcept;
  Status write_lock_element(GlobalAddress element) noexcept;
  /// kRefused at once when somebody else's lock (or request) is in the way.
  Status try_read_lock_element(GlobalAddress element) noexcept;
  Status try_write_lock_element(GlobalAddress element) noexcept;
  /// REQUIRES: this thread locked the element. The home hears of it soon after: a try elsewhere may still be refused.
  Status unlock_element(GlobalAddress element) noexcept;

  // ---- files: memory that reaches the disk (docs/files.md) ----

  /// Opens a file of some node at this one: its bytes are global memory until it is closed. Errors: kNotFound,
  /// kAlreadyExists, kStorage (no permission, no file), kOutOfMemory (the node has no room in its --file-space), ...
  Result<File> open_file(std::string_view path, const FileOptions& options = {}) noexcept;
  /// Removes a file that no node has open. kNoNode: of this node.
  Status unlink_file(std::string_view path, NodeId node = kNoNode) noexcept;

  // ---- the cluster ----

  /// Fences, and waits until every node has called it.
  Status barrier(std::chrono::milliseconds timeout = std::chrono::minutes(10)) noexcept;
  /// Gives an address a name that all nodes can look up.
  Status publish(std::string_view name, GlobalAddress address);
  /// Waits for the name to be published.
  Result<GlobalAddress> lookup(std::string_view name, std::chrono::milliseconds timeout = std::chrono::seconds(30));

  [[nodiscard]] Stats stats() const noexcept;

  /// The node's engine; for the layers of Atoll itself.
  [[nodiscard]] runtime::Runtime& runtime() const noexcept { return *runtime_; }

 private:
  // The slow side of the inlined accesses; see src/runtime/access.cpp.
  Status read_slow(GlobalAddress address, void* into, std::size_t bytes) noexcept;
  Status prefetch_slow(GlobalAddress address, std::uint64_t bytes, LockMode mode) noexcept;
  Status write_slow(GlobalAddress address, const void* from, std::size_t bytes, Consistency consistency) noexcept;
  enum class Rmw : std::uint8_t { kAdd, kExchange, kCompareExchange };
  Result<std::uint64_t> rmw(GlobalAddress address, std::size_t bytes, Rmw what, std::uint64_t operand,
                            std::uint64_t expected, Settle settle = Settle::kNow) noexcept;

  Status apply_slow(GlobalAddress address, std::uint8_t number, std::size_t bytes, std::uint64_t operand,
                    Consistency consistency) noexcept;
  using AnyFunction = void (*)();
  Result<std::uint8_t> register_operator(std::string_view name, std::uint8_t bytes, std::uint64_t identity,
                                         std::uint64_t (*combine)(AnyFunction, std::uint64_t, std::uint64_t),
                                         AnyFunction function);
  // The same for values that are no words.
  Status apply_wide(GlobalAddress address, std::uint8_t number, const void* operand, std::size_t bytes,
                    Consistency consistency) noexcept;
  Result<std::uint8_t> register_wide_operator(std::string_view name, const void* identity, std::size_t bytes,
                                              void (*combine)(AnyFunction, std::byte*, const std::byte*),
                                              AnyFunction function);

  friend class detail::ArrayLayout;
  friend class BufferPool;
  /// Words of an array's chunks for a region; see detail::ChunkWord. None: no more. False: they would not be kept.
  bool attach_words(GlobalAddress first, std::uint64_t bytes, std::span<detail::HotWord> words, std::uint64_t zero);

  std::unique_ptr<runtime::Runtime> runtime_;
  const detail::LineTable* table_ = nullptr;  // the runtime's, for inlined hits; an empty one where there are none
};

/// Joins the cluster; the same as constructing a Node.
[[nodiscard]] inline Node join(const Options& options = Options::from_environment()) {
  return Node(options);
}

// ---- implementation ----

template <Shareable T>
Result<global_ptr<T>> Node::allocate(std::uint64_t count, Placement placement) noexcept {
  if (count > GlobalAddress::kOffsetMask / sizeof(T)) return {Errc::kOutOfMemory, "the size exceeds any node's memory"};
  const Result<GlobalAddress> got = allocate(count * sizeof(T), placement);
  if (!got.ok()) return got.status();
  return global_ptr<T>(*got);
}

template <Shareable T>
inline Result<T> Node::read(GlobalAddress address) noexcept {
  if constexpr (detail::is_word<T>) {
    T value{};
    if (detail::read_hit(address.bits(), value)) [[likely]]
      return value;
  }
  T value{};
  const Status status = read_slow(address, &value, sizeof(T));
  if (!status.ok()) [[unlikely]]
    return status;
  return value;
}

template <Shareable T>
inline Status Node::write(GlobalAddress address, const T& value, Consistency consistency) noexcept {
  if constexpr (detail::is_word<T>) {
    if (consistency <= Consistency::kPso && detail::write_hit(address.bits(), value)) [[likely]]
      return {};
  }
  const T copy = value;  // whose address may be known: that of `value` would keep the caller's variable in memory
  return write_slow(address, &copy, sizeof(T), consistency);
}

template <AtomicWord T>
requires std::integral<T> Result<T> Node::fetch_add(global_ptr<T> p, std::type_identity_t<T> value)
noexcept {
  const auto got = rmw(p.address(), sizeof(T), Rmw::kAdd, std::uint64_t(value), 0);
  if (!got.ok()) return got.status();
  return T(*got);
}

namespace detail {
template <typename T>
std::uint64_t to_word(const T& value) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  return word;
}
template <typename T>
T from_word(std::uint64_t word) noexcept {
  T value;
  std::memcpy(static_cast<void*>(&value), &word, sizeof(T));
  return value;
}
}  // namespace detail

template <AtomicWord T>
Result<T> Node::exchange(global_ptr<T> p, std::type_identity_t<T> value) noexcept {
  const auto got = rmw(p.address(), sizeof(T), Rmw::kExchange, detail::to_word(value), 0);
  if (!got.ok()) return got.status();
  return detail::from_word<T>(*got);
}

template <AtomicWord T>
Result<T> Node::compare_exchange(global_ptr<T> p, std::type_identity_t<T> expected, std::type_identity_t<T> desired,
                                 Settle settle) noexcept {
  const auto got =
      rmw(p.address(), sizeof(T), Rmw::kCompareExchange, detail::to_word(desired), detail::to_word(expected), settle);
  if (!got.ok()) return got.status();
  return detail::from_word<T>(*got);
}

template <Combinable T, typename Function>
inline Status Node::apply(global_ptr<T> p, const Operator<T, Function>& by, std::type_identity_t<T> operand,
                          Consistency consistency) noexcept {
  if constexpr (detail::is_word<T>) {
    if (consistency <= Consistency::kPso && detail::operate_hit(*table_, p.address().bits(), by, operand)) [[likely]]
      return {};
    return apply_slow(p.address(), by.number, sizeof(T), detail::to_word(operand), consistency);
  } else {
    return apply_wide(p.address(), by.number, &operand, sizeof(T), consistency);
  }
}

template <Combinable T>
Result<Operator<T>> Node::register_op(std::string_view name, std::type_identity_t<T> identity, T (*function)(T, T)) {
  const auto any = reinterpret_cast<AnyFunction>(function);
  Result<std::uint8_t> number{Errc::kInvalidArgument, ""};
  if constexpr (detail::is_word<T>) {
    const auto combine = [](AnyFunction own, std::uint64_t a, std::uint64_t b) {
      return detail::to_word(reinterpret_cast<T (*)(T, T)>(own)(detail::from_word<T>(a), detail::from_word<T>(b)));
    };
    number = register_operator(name, sizeof(T), detail::to_word(identity), combine, any);
  } else {
    const auto combine = [](AnyFunction own, std::byte* value, const std::byte* operand) {
      T a, b;
      std::memcpy(static_cast<void*>(&a), value, sizeof(T));
      std::memcpy(static_cast<void*>(&b), operand, sizeof(T));
      const T result = reinterpret_cast<T (*)(T, T)>(own)(a, b);
      std::memcpy(value, &result, sizeof(T));
    };
    number = register_wide_operator(name, &identity, sizeof(T), combine, any);
  }
  if (!number.ok()) return number.status();
  return Operator<T>{*number, function, identity};
}

}  // namespace atoll
