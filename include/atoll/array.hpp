// atoll::Array: a typed array that all nodes make together and that is spread over their memory.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "atoll/node.hpp"
#include "atoll/pin.hpp"

namespace atoll {

/// How an array is made. The same on every node, but for `writes`.
struct ArrayOptions {
  /// The first element of each node's part; the first is 0. Empty: even parts.
  std::vector<std::uint64_t> first = {};
  /// Elements that travel between nodes together, and stay together in even parts. Rounded up so that a chunk's bytes
  /// are a power of two, not less than a line of the heap; and down to what Node::largest_line_bytes allows.
  std::uint32_t chunk = 512;
  /// kTso: a `set` has taken effect when it returns. kSc: and no later access of the thread has begun. kPso: it takes
  /// effect later; `Node::fence` waits for it.
  Consistency writes = Consistency::kTso;
};

namespace detail {

/// Where the elements of an array are.
///
/// Thread-safety: immutable once it is made; making and freeing is done by one thread of each node, all nodes together.
/// Invariants:
///   1. A chunk is a line. An element that fits a line lies in one line. (So elements whose size does not divide the
///      line's leave gaps.)
///   2. Node k has the elements from first[k] to first[k + 1].
class ArrayLayout {
 public:
  /// Throws Error: on every node when one of them has no memory, or the nodes do not want the same.
  ArrayLayout(Node& node, std::uint64_t count, std::uint32_t bytes, const ArrayOptions& options);
  ~ArrayLayout();
  ArrayLayout(const ArrayLayout&) = delete;
  ArrayLayout& operator=(const ArrayLayout&) = delete;

  [[nodiscard]] Node& node() const noexcept { return node_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return first_.back(); }
  [[nodiscard]] std::uint64_t first_of(NodeId node) const noexcept { return first_[node]; }
  [[nodiscard]] Consistency writes() const noexcept { return writes_; }
  /// Elements of a chunk; the last of a part may have fewer.
  [[nodiscard]] std::uint64_t chunk() const noexcept { return per_line_; }
  /// The number of element 0 among the elements of all arrays of this process, those that are gone included. (There are
  /// 2^40 for each of 2^24 arrays; then they begin anew.)
  [[nodiscard]] std::uint64_t origin() const noexcept { return origin_; }
  /// REQUIRES: i < size().
  [[nodiscard]] NodeId owner_of(std::uint64_t i) const noexcept {
    if (per_node_ != 0) {
      // A division by way of its reciprocal, which is at most one too small.
      const auto guess = std::uint64_t((unsigned __int128)(i)*reciprocal_ >> 64);
      return NodeId(guess + (i - guess * per_node_ >= per_node_ ? 1 : 0));
    }
    return NodeId(std::upper_bound(first_.begin(), first_.end() - 1, i) - first_.begin() - 1);
  }
  /// REQUIRES: i < size().
  [[nodiscard]] GlobalAddress address_of(std::uint64_t i) const noexcept {
    const NodeId owner = owner_of(i);
    if (packed_) [[likely]]
      return GlobalAddress(zero_[owner] + i * bytes_);
    const std::uint64_t at = i - first_[owner];
    return base_[owner] + std::int64_t(at / per_line_ * line_bytes_ + at % per_line_ * bytes_);
  }
  /// The elements of a chunk, which lie one behind the other.
  struct Chunk {
    GlobalAddress address;
    std::uint64_t first = 0;
    std::uint64_t count = 0;
  };
  /// The chunk that holds an element. REQUIRES: i < size().
  [[nodiscard]] Chunk chunk_of(std::uint64_t i) const noexcept {
    const NodeId owner = owner_of(i);
    const std::uint64_t at = i - first_[owner];
    const std::uint64_t first = i - at % per_line_;
    return {address_of(first), first, std::min<std::uint64_t>(per_line_, first_[owner + 1u] - first)};
  }
  [[nodiscard]] detail::PinnedLine pin(std::uint64_t i, LockMode mode, Chunk& chunk) const noexcept;
  [[nodiscard]] const ChunkWords& words() const noexcept { return words_view_; }
  /// Remembers the part of an element that was written, for write_part, if writes of this thread may be inlined.
  void remember_part(std::uint64_t i) const noexcept {
    ThreadSlot& slot = t_slot;
    if (slot.write_limit == 0 || !packed_ || writes_ != Consistency::kTso) return;
    const NodeId owner = owner_of(i);
    slot.part_first = origin_ + first_[owner];
    slot.part_count = first_[owner + 1u] - first_[owner];
    slot.part_address = base_[owner].bits();
  }
  /// Remembers the chunk of an element that was read, for read_memo, if it seems that the next ones will be read too.
  void consider(std::uint64_t i) const noexcept {
    const bool is_first = words_view_.size != 0 && (i & words_view_.mask) == 0;
    if (!goes_on(origin_ + i) && !is_first) return;
    const Chunk chunk = chunk_of(i);
    (void)make_memo(origin_ + chunk.first, chunk.count, chunk.address.bits());
  }
  /// How many elements from i on lie one behind the other, `most` at most. REQUIRES: i < size().
  [[nodiscard]] std::uint64_t run_at(std::uint64_t i, std::uint64_t most) const noexcept;
  [[nodiscard]] Status check(std::uint64_t first, std::uint64_t count) const noexcept {
    if (first <= size() && count <= size() - first) return {};
    return {Errc::kBadAddress, "beyond the end of the array"};
  }
  [[nodiscard]] Status read(std::uint64_t first, std::byte* into, std::uint64_t count) const noexcept;
  [[nodiscard]] Status write(std::uint64_t first, const std::byte* from, std::uint64_t count) const noexcept;
  [[nodiscard]] Status prefetch(std::uint64_t first, std::uint64_t count) const noexcept;
  /// Waits for all nodes, and gives the memory back.
  [[nodiscard]] Status free() noexcept;

 private:
  struct Row;
  void divide(std::uint64_t count, const ArrayOptions& options);
  [[nodiscard]] bool in_region() const noexcept { return line_bytes_ != node_.line_bytes(); }
  [[nodiscard]] std::uint64_t bytes_of(NodeId node) const noexcept;
  [[nodiscard]] Status exchange(const Row& mine, std::vector<Row>& rows) noexcept;
  [[nodiscard]] Status agree(const Status& mine) noexcept;
  [[nodiscard]] Status set_lines(std::uint32_t line_bytes) noexcept;
  void attach_words();
  void detach_words() noexcept;

  Node& node_;
  GlobalAddress table_;  // a Row for each node, by which arrays are made
  std::uint64_t origin_;
  std::uint32_t bytes_;
  std::uint32_t line_bytes_;
  std::uint32_t per_line_;
  bool packed_;
  bool freed_ = false;
  Consistency writes_;
  int exceptions_;                // under way when it was made
  std::uint64_t per_node_ = 0;    // elements of each part but the last ones; 0: the parts are the program's own
  std::uint64_t reciprocal_ = 0;  // 2^64 / per_node_
  std::vector<std::uint64_t> first_;
  std::vector<GlobalAddress> base_;
  std::vector<std::uint64_t> zero_;  // of each part: where element 0 would be if the part reached so far
  std::vector<HotWord> words_;       // of each chunk; empty where there are none
  ChunkWords words_view_;
};

}  // namespace detail

/// An array of `size()` elements, all zero bytes at first, in the memory of all nodes.
///
/// All nodes make it together, by the same arguments and in the same order as other arrays, and destroy it together:
/// the destructor waits for all nodes, unless the node is unwinding from an exception. Elements are of any trivially
/// copyable type of up to 4096 bytes.
///
/// Thread-safety: every method but construction, destruction and `free` may be called from any thread at any time.
/// Invariants:
///   1. `get` and `set` of an element that fits a line are atomic. (Larger ones are several accesses.)
///   2. What is promised about order is in docs/memory-model.md; `set` has taken effect when it returns, unless
///      ArrayOptions::writes says otherwise.
template <Shareable T>
class Array {
 public:
  static_assert(sizeof(T) <= 4096, "an element is larger than a page");
  using value_type = T;
  class Reference;
  class Iterator;

  /// Throws Error, on every node alike.
  Array(Node& node, std::uint64_t count, const ArrayOptions& options = {})
      : layout_(std::make_unique<detail::ArrayLayout>(node, count, sizeof(T), options)),
        origin_(layout_->origin()),
        size_(layout_->size()),
        words_(layout_->words()) {}

  [[nodiscard]] std::uint64_t size() const noexcept { return layout_->size(); }
  [[nodiscard]] Node& node() const noexcept { return layout_->node(); }
  /// Elements of a chunk, the unit in which they travel between nodes. Each part begins with a new one.
  [[nodiscard]] std::uint64_t chunk() const noexcept { return layout_->chunk(); }
  /// The elements that are in this node's memory, and in another's.
  [[nodiscard]] std::uint64_t local_begin() const noexcept { return layout_->first_of(node().id()); }
  [[nodiscard]] std::uint64_t local_end() const noexcept { return layout_->first_of(NodeId(node().id() + 1)); }
  [[nodiscard]] std::uint64_t begin_of(NodeId node) const noexcept { return layout_->first_of(node); }
  [[nodiscard]] std::uint64_t end_of(NodeId node) const noexcept { return layout_->first_of(NodeId(node + 1)); }
  /// REQUIRES: i < size().
  [[nodiscard]] NodeId owner_of(std::uint64_t i) const noexcept { return layout_->owner_of(i); }
  /// Where an element is, for the byte API. REQUIRES: i < size().
  [[nodiscard]] global_ptr<T> at(std::uint64_t i) const noexcept { return global_ptr<T>(layout_->address_of(i)); }

  [[nodiscard]] Result<T> get(std::uint64_t i) const noexcept {
    if constexpr (detail::is_word<T>) {
      T value;
      if (detail::read_memo(origin_ + i, value)) [[likely]]
        return value;
      if (i < words_.size && detail::read_chunk(words_, i, value)) {
        if ((i & words_.mask) != 0) [[likely]]
          return value;
      }
    }
    return get_slow(i);
  }
  Status set(std::uint64_t i, const T& value) const noexcept {
    if constexpr (detail::is_word<T>) {
      if (detail::write_part(origin_ + i, value)) [[likely]]
        return {};
    }
    if (i >= size_) return layout_->check(i, 1);
    return put(*layout_, i, value);
  }
  /// The element as something to read and assign; both throw Error. REQUIRES: i < size().
  [[nodiscard]] Reference operator[](std::uint64_t i) const noexcept { return Reference(*layout_, i); }

  Status read(std::uint64_t first, std::span<T> into) const noexcept {
    if (const Status status = layout_->check(first, into.size()); !status.ok()) return status;
    return layout_->read(first, reinterpret_cast<std::byte*>(into.data()), into.size());
  }
  Status write(std::uint64_t first, std::span<const T> from) const noexcept {
    if (const Status status = layout_->check(first, from.size()); !status.ok()) return status;
    return layout_->write(first, reinterpret_cast<const std::byte*>(from.data()), from.size());
  }
  /// Brings elements into this node's cache without waiting for them; see Node::prefetch.
  Status prefetch(std::uint64_t first, std::uint64_t count) const noexcept {
    if (const Status status = layout_->check(first, count); !status.ok()) return status;
    return layout_->prefetch(first, count);
  }

  /// Combines an operand with an element, of up to 256 bytes and not larger than a line; see docs/operators.md.
  template <typename Function>
  Status apply(std::uint64_t i, const Operator<T, Function>& by,
               const std::type_identity_t<T>& operand) const noexcept requires Combinable<T> {
    if (i >= size()) [[unlikely]]
      return layout_->check(i, 1);
    return node().apply(at(i), by, operand, Consistency::kPso);
  }

  // ---- pins: chunks as spans; see docs/arrays.md ----

  /// The chunk that holds element i, to read.
  [[nodiscard]] Pin<const T> pin_read(std::uint64_t i) const noexcept {
    detail::ArrayLayout::Chunk chunk;
    detail::PinnedLine line = layout_->pin(i, LockMode::kRead, chunk);
    return {std::move(line), chunk.first, chunk.count};
  }
  /// To read and write, by this node alone.
  [[nodiscard]] Pin<T> pin_write(std::uint64_t i) const noexcept {
    detail::ArrayLayout::Chunk chunk;
    detail::PinnedLine line = layout_->pin(i, LockMode::kWrite, chunk);
    return {std::move(line), chunk.first, chunk.count};
  }
  /// To gather operands for.
  template <typename Function>
  [[nodiscard]] OperatePin<T, Function> pin_operate(std::uint64_t i, const Operator<T, Function>& by) const {
    const Status status = layout_->check(i, 1);
    const auto chunk = status.ok() ? layout_->chunk_of(i) : detail::ArrayLayout::Chunk{};
    return {node(), chunk.address, chunk.first, chunk.count, by, by.identity(), status};
  }
  /// `f(first, span)` for the elements from `first` on, chunk by chunk: pinned to read; to write; to gather operands.
  /// Ends with what fails first.
  template <typename F>
  Status read_chunks(std::uint64_t first, std::uint64_t count, F&& f) const {
    return each_chunk(
        first, count, [&](std::uint64_t i) { return pin_read(i); }, f);
  }
  template <typename F>
  Status write_chunks(std::uint64_t first, std::uint64_t count, F&& f) const {
    return each_chunk(
        first, count, [&](std::uint64_t i) { return pin_write(i); }, f);
  }
  template <typename Function, typename F>
  Status operate_chunks(std::uint64_t first, std::uint64_t count, const Operator<T, Function>& by, F&& f) const {
    return each_chunk(
        first, count, [&](std::uint64_t i) { return pin_operate(i, by); }, f);
  }

  // ---- locks of single elements, whatever line they are in; see Node::read_lock_element ----

  Status read_lock(std::uint64_t i) const noexcept { return on_element(i, &Node::read_lock_element); }
  Status write_lock(std::uint64_t i) const noexcept { return on_element(i, &Node::write_lock_element); }
  /// kRefused at once when somebody else's lock (or request) is in the way.
  Status try_read_lock(std::uint64_t i) const noexcept { return on_element(i, &Node::try_read_lock_element); }
  Status try_write_lock(std::uint64_t i) const noexcept { return on_element(i, &Node::try_write_lock_element); }
  /// REQUIRES: this thread locked the element.
  Status unlock(std::uint64_t i) const noexcept { return on_element(i, &Node::unlock_element); }

  // ---- all nodes together ----

  /// Every node sets its own part; nobody goes on before all have.
  Status fill(const T& value) const {
    const std::vector<T> piece(std::min<std::uint64_t>(512, local_end() - local_begin()), value);
    for (std::uint64_t i = local_begin(); i < local_end(); i += piece.size()) {
      const std::uint64_t count = std::min<std::uint64_t>(piece.size(), local_end() - i);
      if (const Status status = write(i, std::span(piece).first(count)); !status.ok()) return status;
    }
    return node().barrier();
  }
  /// Gives the memory back; the array cannot be used any more. What the destructor does, with a status.
  Status free() noexcept { return layout_->free(); }

  // ---- this node's part ----

  /// `f(i, element)` for each, in order; the element is a Reference.
  template <typename F>
  void for_each_local(F&& f) const {
    for (std::uint64_t i = local_begin(); i < local_end(); ++i) f(i, (*this)[i]);
  }
  /// `f(i)` for each by several threads, each of which has a range of its own. Throws what the first of them has
  /// thrown.
  template <typename F>
  void parallel_for(unsigned threads, F&& f) const;

  // ---- as a sequence; what fails throws Error ----

  [[nodiscard]] Iterator begin() const noexcept { return Iterator(*layout_, 0); }
  [[nodiscard]] Iterator end() const noexcept { return Iterator(*layout_, size()); }

 private:
  Status on_element(std::uint64_t i, Status (Node::*what)(GlobalAddress) noexcept) const noexcept {
    if (i >= size()) return layout_->check(i, 1);
    return (node().*what)(layout_->address_of(i));
  }
  /// Not inlined, and told apart from the way that is: a loop of reads is small, and keeps what it knows in registers.
  /// Comes here also with the first element of each chunk, to remember it.
  [[gnu::noinline, gnu::cold]] Result<T> get_slow(std::uint64_t i) const noexcept {
    if (i >= size()) return layout_->check(i, 1);
    const Result<T> value = node().read(at(i));
    if constexpr (detail::is_word<T>) {
      // After the read, which may have brought the chunk.
      if (value.ok()) layout_->consider(i);
    }
    return value;
  }
  template <typename MakePin, typename F>
  Status each_chunk(std::uint64_t first, std::uint64_t count, MakePin&& make_pin, F&& f) const {
    if (const Status status = layout_->check(first, count); !status.ok()) return status;
    for (std::uint64_t i = first; i < first + count;) {
      auto pin = make_pin(i);
      if (!pin.ok()) return pin.status();
      const std::uint64_t end = std::min(pin.end(), first + count);
      f(i, pin.span().subspan(i - pin.first(), end - i));
      i = end;
      if (const Status status = pin.release(); !status.ok()) return status;
    }
    return {};
  }
  /// Words by value: a loop need not keep them in memory for a call that hardly ever comes.
  using Given = std::conditional_t<detail::is_word<T>, T, const T&>;
  /// What is not in the part that was written last, or not a hit.
  [[gnu::noinline]] static Status put(const detail::ArrayLayout& layout, std::uint64_t i, Given value) noexcept {
    const GlobalAddress where = layout.address_of(i);
    if constexpr (detail::is_word<T>) {
      layout.remember_part(i);
      // A write that hits has taken effect at once.
      if (layout.writes() == Consistency::kTso && detail::write_hit(where.bits(), value)) return {};
    }
    return layout.node().template write<T>(where, value, layout.writes());
  }

  std::unique_ptr<detail::ArrayLayout> layout_;
  // The layout's, which a read should not have to look up.
  std::uint64_t origin_;
  std::uint64_t size_;
  detail::ChunkWords words_;
};

/// Holds the lock of an element from construction to the end of the scope. `status()` says whether it was had.
template <LockMode Mode>
class [[nodiscard]] ElementGuard {
 public:
  template <typename T>
  ElementGuard(const Array<T>& array, std::uint64_t i) noexcept
      : node_(&array.node()), status_(Mode == LockMode::kWrite ? array.write_lock(i) : array.read_lock(i)) {
    if (status_.ok()) element_ = array.at(i).address();
  }
  ~ElementGuard() {
    if (status_.ok()) (void)node_->unlock_element(element_);
  }
  ElementGuard(const ElementGuard&) = delete;
  ElementGuard& operator=(const ElementGuard&) = delete;

  [[nodiscard]] Status status() const noexcept { return status_; }

 private:
  Node* node_;
  GlobalAddress element_;
  Status status_;
};
using ElementReadGuard = ElementGuard<LockMode::kRead>;
using ElementWriteGuard = ElementGuard<LockMode::kWrite>;

/// An element as something to read and assign.
template <Shareable T>
class Array<T>::Reference {
 public:
  Reference(const Reference&) noexcept = default;
  operator T() const {
    if constexpr (detail::is_word<T>) {
      T value;
      if (detail::read_memo(layout_->origin() + i_, value)) return value;
      const detail::ChunkWords& words = layout_->words();
      if (i_ < words.size && (i_ & words.mask) != 0 && detail::read_chunk(words, i_, value)) return value;
    }
    const T value = layout_->node().template read<T>(layout_->address_of(i_)).value();
    if constexpr (detail::is_word<T>) layout_->consider(i_);
    return value;
  }
  const Reference& operator=(const T& value) const {
    if constexpr (detail::is_word<T>) {
      if (detail::write_part(layout_->origin() + i_, value)) return *this;
    }
    put(*layout_, i_, value).or_throw();
    return *this;
  }
  Reference& operator=(const Reference& other) {
    std::as_const(*this) = T(other);
    return *this;
  }
  const Reference& operator+=(const T& value) const { return *this = T(T(*this) + value); }
  const Reference& operator-=(const T& value) const { return *this = T(T(*this) - value); }
  friend void swap(Reference a, Reference b) {
    const T value = a;
    std::as_const(a) = T(b);
    std::as_const(b) = value;
  }

 private:
  friend class Array;
  friend class Iterator;
  Reference(const detail::ArrayLayout& layout, std::uint64_t i) noexcept : layout_(&layout), i_(i) {}

  const detail::ArrayLayout* layout_;
  std::uint64_t i_;
};

/// A random-access iterator whose references are proxies, as those of std::vector<bool> are.
template <Shareable T>
class Array<T>::Iterator {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = T;
  using difference_type = std::int64_t;
  using pointer = void;
  using reference = Reference;

  Iterator() noexcept = default;
  [[nodiscard]] Reference operator*() const noexcept { return Reference(*layout_, i_); }
  [[nodiscard]] Reference operator[](difference_type n) const noexcept { return *(*this + n); }
  Iterator& operator+=(difference_type n) noexcept {
    i_ += std::uint64_t(n);
    return *this;
  }
  Iterator& operator-=(difference_type n) noexcept { return *this += -n; }
  Iterator& operator++() noexcept { return *this += 1; }
  Iterator& operator--() noexcept { return *this += -1; }
  Iterator operator++(int) noexcept { return std::exchange(*this, *this + 1); }
  Iterator operator--(int) noexcept { return std::exchange(*this, *this - 1); }
  friend Iterator operator+(Iterator a, difference_type n) noexcept { return a += n; }
  friend Iterator operator+(difference_type n, Iterator a) noexcept { return a += n; }
  friend Iterator operator-(Iterator a, difference_type n) noexcept { return a -= n; }
  friend difference_type operator-(const Iterator& a, const Iterator& b) noexcept {
    return difference_type(a.i_ - b.i_);
  }
  friend bool operator==(const Iterator& a, const Iterator& b) noexcept { return a.i_ == b.i_; }
  friend std::strong_ordering operator<=>(const Iterator& a, const Iterator& b) noexcept { return a.i_ <=> b.i_; }

 private:
  friend class Array;
  Iterator(const detail::ArrayLayout& layout, std::uint64_t i) noexcept : layout_(&layout), i_(i) {}

  const detail::ArrayLayout* layout_ = nullptr;
  std::uint64_t i_ = 0;
};

template <Shareable T>
template <typename F>
void Array<T>::parallel_for(unsigned threads, F&& f) const {
  const std::uint64_t first = local_begin(), count = local_end() - first;
  threads = unsigned(std::clamp<std::uint64_t>(threads, 1, std::max<std::uint64_t>(count, 1)));
  std::vector<std::exception_ptr> thrown(threads);
  const auto work = [&](unsigned t) {
    try {
      for (std::uint64_t i = first + count * t / threads; i < first + count * (t + 1) / threads; ++i) f(i);
      node().fence().or_throw();
    } catch (...) {
      thrown[t] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned t = 1; t < threads; ++t) others.emplace_back(work, t);
    work(0);
  }
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

}  // namespace atoll
