// The public class: every method hands over to the runtime.
#include "atoll/node.hpp"

#include "base/log.hpp"
#include "runtime/runtime.hpp"

namespace atoll {
namespace {

std::unique_ptr<runtime::Runtime> join_cluster(const Options& options) {
  base::init_logging();
  return std::make_unique<runtime::Runtime>(options, cluster::Membership::connect(options));
}

/// For nodes whose hits are not inlined: nothing is found in it.
constexpr detail::LineTable kNoLines{};

}  // namespace

Node::Node(const Options& options) : Node(join_cluster(options)) {}
Node::Node(std::unique_ptr<runtime::Runtime> runtime)
    : runtime_(std::move(runtime)), table_(runtime_->table().reads == nullptr ? &kNoLines : &runtime_->table()) {}
Node::~Node() = default;
Node::Node(Node&&) noexcept = default;
Node& Node::operator=(Node&&) noexcept = default;

NodeId Node::id() const noexcept {
  return runtime_->id();
}
NodeId Node::count() const noexcept {
  return runtime_->count();
}

bool Node::recovered() const noexcept {
  return runtime_->recovered();
}
std::uint32_t Node::line_bytes() const noexcept {
  return runtime_->options().line_bytes;
}

Result<GlobalAddress> Node::allocate(std::uint64_t bytes, Placement placement) noexcept {
  return runtime_->allocate(bytes, placement);
}
Status Node::free(GlobalAddress address) noexcept {
  return runtime_->free(address);
}

Status Node::release(GlobalAddress address) noexcept {
  return runtime_->release(address);
}

Status Node::give_back(GlobalAddress address, std::uint64_t bytes) noexcept {
  return runtime_->give_back(address, bytes);
}

Result<bool> Node::write_if(global_ptr<std::uint64_t> guard, std::uint64_t expected, std::uint64_t desired,
                            GlobalAddress address, std::span<const std::byte> bytes) noexcept {
  return runtime_->write_if(guard.address(), expected, desired, address, bytes);
}

std::uint32_t Node::largest_line_bytes() const noexcept {
  return runtime_->largest_line_bytes();
}
Result<GlobalAddress> Node::allocate_region(std::uint64_t bytes) noexcept {
  return runtime_->allocate_region(bytes);
}
Status Node::close_region(GlobalAddress first, std::uint64_t bytes) noexcept {
  return runtime_->close_region(first, bytes);
}
Status Node::open_region(GlobalAddress first, std::uint64_t bytes, std::uint32_t line_bytes) noexcept {
  return runtime_->open_region(first, bytes, line_bytes);
}

bool Node::attach_words(GlobalAddress first, std::uint64_t bytes, std::span<detail::HotWord> words,
                        std::uint64_t zero) {
  return runtime_->attach_words(first, bytes, words, zero);
}

Status Node::read(GlobalAddress address, std::span<std::byte> into) noexcept {
  return runtime_->read(address, into.data(), into.size());
}
Status Node::write(GlobalAddress address, std::span<const std::byte> from, Consistency consistency) noexcept {
  return runtime_->write(address, from.data(), from.size(), consistency);
}
Status Node::prefetch_slow(GlobalAddress address, std::uint64_t bytes, LockMode mode) noexcept {
  return runtime_->prefetch(address, bytes, mode);
}

Status Node::read_slow(GlobalAddress address, void* into, std::size_t bytes) noexcept {
  return runtime_->read(address, static_cast<std::byte*>(into), bytes);
}
Status Node::write_slow(GlobalAddress address, const void* from, std::size_t bytes, Consistency consistency) noexcept {
  return runtime_->write(address, static_cast<const std::byte*>(from), bytes, consistency);
}

Result<std::uint64_t> Node::rmw(GlobalAddress address, std::size_t bytes, Rmw what, std::uint64_t operand,
                                std::uint64_t expected, Settle settle) noexcept {
  switch (what) {
    case Rmw::kAdd: return runtime_->rmw(address, bytes, runtime::Action::kAdd, operand, expected, settle);
    case Rmw::kExchange: return runtime_->rmw(address, bytes, runtime::Action::kExchange, operand, expected, settle);
    case Rmw::kCompareExchange: break;
  }
  return runtime_->rmw(address, bytes, runtime::Action::kCompareExchange, operand, expected, settle);
}
Status Node::write_together(std::span<const WritePart> parts) noexcept {
  return runtime_->write_together(parts);
}
Presence Node::presence(NodeId node) const noexcept {
  return runtime_->presence(node);
}
std::uint64_t Node::life() const noexcept {
  return runtime_->life();
}
Status Node::register_atomic(std::string_view name, AtomicFunction function) {
  return runtime_->register_atomic(name, std::move(function));
}
Status Node::atomic(GlobalAddress address, std::uint32_t size, std::string_view name,
                    std::span<const std::byte> args) noexcept {
  return runtime_->atomic(address, size, name, args);
}

Status Node::apply_slow(GlobalAddress address, std::uint8_t number, std::size_t bytes, std::uint64_t operand,
                        Consistency consistency) noexcept {
  return runtime_->apply(address, number, reinterpret_cast<const std::byte*>(&operand), bytes, consistency);
}
Status Node::apply_wide(GlobalAddress address, std::uint8_t number, const void* operand, std::size_t bytes,
                        Consistency consistency) noexcept {
  return runtime_->apply(address, number, static_cast<const std::byte*>(operand), bytes, consistency);
}
Result<std::uint8_t> Node::register_operator(std::string_view name, std::uint8_t bytes, std::uint64_t identity,
                                             std::uint64_t (*combine)(AnyFunction, std::uint64_t, std::uint64_t),
                                             AnyFunction function) {
  if (function == nullptr) return {Errc::kInvalidArgument, "an operator needs a function"};
  return runtime_->register_operator(name, {bytes, identity, combine, function});
}
Result<std::uint8_t> Node::register_wide_operator(std::string_view name, const void* identity, std::size_t bytes,
                                                  void (*combine)(AnyFunction, std::byte*, const std::byte*),
                                                  AnyFunction function) {
  if (function == nullptr) return {Errc::kInvalidArgument, "an operator needs a function"};
  const auto* const first = static_cast<const std::byte*>(identity);
  return runtime_->register_operator(
      name, {std::uint16_t(bytes), 0, nullptr, function, combine, std::vector<std::byte>(first, first + bytes)});
}

Status Node::fence() noexcept {
  return runtime_->fence();
}
Status Node::read_lock(GlobalAddress address, std::uint64_t bytes) noexcept {
  return runtime_->lock(address, bytes, LockMode::kRead, false);
}
Status Node::write_lock(GlobalAddress address, std::uint64_t bytes) noexcept {
  return runtime_->lock(address, bytes, LockMode::kWrite, false);
}
Status Node::try_read_lock(GlobalAddress address, std::uint64_t bytes) noexcept {
  return runtime_->lock(address, bytes, LockMode::kRead, true);
}
Status Node::try_write_lock(GlobalAddress address, std::uint64_t bytes) noexcept {
  return runtime_->lock(address, bytes, LockMode::kWrite, true);
}
Status Node::unlock(GlobalAddress address, std::uint64_t bytes) noexcept {
  return runtime_->unlock(address, bytes);
}

std::byte* Node::locked_bytes(GlobalAddress address) const noexcept {
  return detail::find_line(runtime_->table(), address.bits())->byte_at(address);
}
Result<std::byte*> Node::pin(GlobalAddress address, std::uint64_t bytes, LockMode mode) noexcept {
  return runtime_->pin(address, bytes, mode);
}
Status Node::read_lock_element(GlobalAddress element) noexcept {
  return runtime_->lock_element(element, LockMode::kRead, false);
}
Status Node::write_lock_element(GlobalAddress element) noexcept {
  return runtime_->lock_element(element, LockMode::kWrite, false);
}
Status Node::try_read_lock_element(GlobalAddress element) noexcept {
  return runtime_->lock_element(element, LockMode::kRead, true);
}
Status Node::try_write_lock_element(GlobalAddress element) noexcept {
  return runtime_->lock_element(element, LockMode::kWrite, true);
}
Status Node::unlock_element(GlobalAddress element) noexcept {
  return runtime_->unlock_element(element);
}

Status Node::barrier(std::chrono::milliseconds timeout) noexcept {
  return runtime_->barrier(timeout);
}
Status Node::publish(std::string_view name, GlobalAddress address) {
  return runtime_->publish(name, address);
}
Result<GlobalAddress> Node::lookup(std::string_view name, std::chrono::milliseconds timeout) {
  return runtime_->lookup(name, timeout);
}
Stats Node::stats() const noexcept {
  return runtime_->stats();
}

}  // namespace atoll
