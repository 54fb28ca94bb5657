// A tour of the API by a small cluster that says what it does.
// Run it: atoll run -n 4 --no-prefix -- ./tour
#include <unistd.h>

#include <atoll/atoll.hpp>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

using atoll::Placement;

struct Greeting {
  char text[48] = {};
};

/// Two numbers that must always be equal; nothing but a lock keeps them so.
struct Pair {
  std::uint64_t left = 0;
  std::uint64_t right = 0;
};

/// Everybody has done with the step before; node 0 announces the next one.
void step(atoll::Node& node, const char* title) {
  node.barrier().or_throw();
  if (node.id() == 0) std::printf("\n%s\n", title);
  node.barrier().or_throw();
}

__attribute__((format(printf, 2, 3))) void say(const atoll::Node& node, const char* format, ...) {
  char text[256];
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof(text), format, values);
  va_end(values);
  std::printf("  node %d: %s\n", node.id(), text);
}

/// One node after the other, so that their lines stand in order.
template <typename F>
void in_turn(atoll::Node& node, F&& f) {
  for (int turn = 0; turn < node.count(); ++turn) {
    if (turn == node.id()) f();
    node.barrier().or_throw();
  }
}

template <typename T>
atoll::global_ptr<T> find(atoll::Node& node, const char* name) {
  return atoll::global_ptr<T>(node.lookup(name).value());
}

void allocate_and_publish(atoll::Node& node) {
  if (node.id() != 0) return;
  const atoll::NodeId last = atoll::NodeId(node.count() - 1);
  const auto here = node.allocate<Pair>().value();
  const auto there = node.allocate<Greeting>(1, Placement::on(last)).value();
  const auto beside = node.allocate<std::uint64_t>(1, Placement::near(there.address())).value();
  say(node, "a pair here at %s, a greeting on node %d at %s", here.address().to_string().c_str(), last,
      there.address().to_string().c_str());
  say(node, "a counter near the greeting at %s", beside.address().to_string().c_str());
  node.publish("pair", here.address()).or_throw();
  node.publish("greeting", there.address()).or_throw();
  node.publish("counter", beside.address()).or_throw();
}

void write_and_read(atoll::Node& node) {
  const auto greeting = find<Greeting>(node, "greeting");
  if (node.id() == 0) {
    Greeting hello;
    std::strcpy(hello.text, "hello from node 0");
    node.write(greeting, hello).or_throw();  // returns at once; the barrier waits for it
  }
  node.barrier().or_throw();
  in_turn(node, [&] { say(node, "reads \"%s\"", node.read(greeting).value().text); });
}

void use_atomics(atoll::Node& node) {
  const auto counter = find<std::uint64_t>(node, "counter");
  for (int i = 0; i < 1000; ++i) node.fetch_add(counter, 1).status().or_throw();
  node.barrier().or_throw();
  const std::uint64_t total = 1000ull * node.count();
  if (node.compare_exchange(counter, total, 0).value() == total) {
    say(node, "found %lu and was the one to set it back to 0", static_cast<unsigned long>(total));
  }
}

void use_locks(atoll::Node& node) {
  const auto pair = find<Pair>(node, "pair");
  for (int i = 0; i < 500; ++i) {
    const atoll::WriteGuard guard(node, pair);
    guard.status().or_throw();
    const Pair now = node.read(pair).value();
    node.write(pair, {now.left + 1, now.right + 1}).or_throw();
  }
  node.barrier().or_throw();
  if (node.id() == 0) {
    const Pair now = node.read(pair).value();
    say(node, "the pair is %lu and %lu", static_cast<unsigned long>(now.left), static_cast<unsigned long>(now.right));
    node.write_lock(pair.address(), sizeof(Pair)).or_throw();
  }
  node.barrier().or_throw();
  if (node.id() == 1) {
    say(node, "tries a lock that node 0 holds: %s",
        node.try_write_lock(pair.address(), sizeof(Pair)).to_string().c_str());
  }
  node.barrier().or_throw();
  if (node.id() == 0) node.unlock(pair.address(), sizeof(Pair)).or_throw();
}

void make_errors(atoll::Node& node) {
  if (node.id() != 0) return;
  say(node, "reads null:       %s", node.read<int>(atoll::GlobalAddress()).status().to_string().c_str());
  say(node, "wants a petabyte: %s", node.allocate(1ull << 50).status().to_string().c_str());
  const auto once = node.allocate(100).value();
  node.free(once).or_throw();
  say(node, "frees twice:      %s", node.free(once).to_string().c_str());
}

void show_statistics(atoll::Node& node) {
  const atoll::Stats stats = node.stats();
  in_turn(node, [&] {
    say(node, "%5lu messages and %5lu lines sent, %5lu lines taken away by others, %3lu tries refused",
        static_cast<unsigned long>(stats.messages_sent), static_cast<unsigned long>(stats.lines_sent),
        static_cast<unsigned long>(stats.invalidations), static_cast<unsigned long>(stats.lock_refusals));
  });
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  atoll::Node node = atoll::join();
  step(node, "1. Processes join, each brings memory.");
  in_turn(node, [&] {
    say(node, "process %d, one of %d nodes, lines of %u bytes", ::getpid(), node.count(), node.line_bytes());
  });
  step(node, "2. Memory is allocated here, there, or near other memory, and found again by name.");
  allocate_and_publish(node);
  step(node, "3. What one node writes all nodes read, wherever the memory is.");
  write_and_read(node);
  step(node, "4. Atomics: every node adds 1 a thousand times; then one of them wins a compare_exchange.");
  use_atomics(node);
  step(node, "5. Locks: every node adds 1 to both halves of a pair, 500 times. A try-lock answers at once.");
  use_locks(node);
  step(node, "6. Mistakes are answered, not punished.");
  make_errors(node);
  step(node, "7. What it took.");
  show_statistics(node);
  step(node, "Leaving: each node serves its memory until the last one has left.");
}
