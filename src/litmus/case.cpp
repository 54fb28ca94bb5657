#include "litmus/case.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace atoll::litmus {
namespace {

bool writes(const std::vector<Instruction>& thread) {
  return std::any_of(thread.begin(), thread.end(), [](const Instruction& i) { return i.op == Op::kWrite; });
}

std::vector<Instruction> fenced(const std::vector<Instruction>& thread) {
  std::vector<Instruction> result;
  for (const Instruction& access : thread) {
    if (!result.empty()) result.push_back({Op::kFence});
    result.push_back(access);
  }
  return result;
}

std::vector<Instruction> locked_one_by_one(const std::vector<Instruction>& thread) {
  std::vector<Instruction> result;
  for (const Instruction& access : thread) {
    result.push_back({access.op == Op::kWrite ? Op::kWriteLock : Op::kReadLock, access.variable});
    result.push_back(access);
    result.push_back({Op::kUnlock, access.variable});
  }
  return result;
}

/// The whole thread under one lock. A thread that writes anything takes it for writing: a write to a line that the
/// thread has locked for reading would wait for itself.
std::vector<Instruction> locked(const std::vector<Instruction>& thread, Variable variable) {
  std::vector<Instruction> result = {{writes(thread) ? Op::kWriteLock : Op::kReadLock, variable}};
  result.insert(result.end(), thread.begin(), thread.end());
  result.push_back({Op::kUnlock, variable});
  return result;
}

std::vector<Instruction> with_exchanges(std::vector<Instruction> thread) {
  for (Instruction& access : thread) {
    if (access.op == Op::kWrite) access.op = Op::kExchange;
  }
  return thread;
}

std::vector<Instruction> varied(const std::vector<Instruction>& thread, Variant variant, bool first) {
  switch (variant) {
    case Variant::kPlain: return thread;
    case Variant::kFence: return fenced(thread);
    case Variant::kLock: return locked_one_by_one(thread);
    case Variant::kMutex: return locked(thread, Variable::kMutex);
    case Variant::kGuard: return first ? locked(thread, Variable::kX) : thread;
    case Variant::kAtomic: return with_exchanges(thread);
  }
  return thread;
}

bool is_run(const Shape& shape, Variant variant, Layout layout) {
  const bool everywhere = variant == Variant::kPlain || variant == Variant::kFence;
  switch (layout) {
    case Layout::kOneLine: return true;
    case Layout::kOneHome: return shape.variables == 2 && everywhere;
    case Layout::kTwoHomes: return shape.variables == 2;
    case Layout::kOneNode: return everywhere;
  }
  return false;
}

}  // namespace

std::string_view to_string(Variant variant) {
  switch (variant) {
    case Variant::kPlain: return "plain";
    case Variant::kFence: return "fence";
    case Variant::kLock: return "lock";
    case Variant::kMutex: return "mutex";
    case Variant::kGuard: return "guard";
    case Variant::kAtomic: return "atomic";
  }
  return "?";
}

std::string_view to_string(Layout layout) {
  switch (layout) {
    case Layout::kOneLine: return "one-line";
    case Layout::kOneHome: return "one-home";
    case Layout::kTwoHomes: return "two-homes";
    case Layout::kOneNode: return "one-node";
  }
  return "?";
}

std::string_view to_string(Consistency mode) {
  switch (mode) {
    case Consistency::kDefault: return "default";
    case Consistency::kPso: return "pso";
    case Consistency::kTso: return "tso";
    case Consistency::kSc: return "sc";
  }
  return "?";
}

Program Case::program() const {
  Program program;
  for (unsigned t = 0; t < shape->thread_count; ++t) {
    const auto accesses = shape->threads[t].all();
    program.push_back(varied({accesses.begin(), accesses.end()}, variant, t == 0));
  }
  return program;
}

std::string Case::name() const {
  return fmt::format("{} {} {}", shape->name, to_string(variant), to_string(layout));
}

const std::vector<Case>& all_cases() {
  static const std::vector<Case> tests = [] {
    std::vector<Case> all;
    for (const Shape& shape : kShapes) {
      for (const Variant variant : kVariants) {
        for (const Layout layout : kLayouts) {
          if (is_run(shape, variant, layout)) all.push_back({&shape, variant, layout});
        }
      }
    }
    return all;
  }();
  return tests;
}

bool is_run_under(const Case& test, Consistency mode) {
  return mode == Consistency::kPso || (test.variant != Variant::kMutex && test.variant != Variant::kAtomic);
}

bool must_be_seen(const Case& test, Consistency mode) {
  if (test.variant != Variant::kPlain) return false;
  const auto is_one_of = [&test](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), test.shape->name) != names.end();
  };
  // One home works off what it gets in order, so that what is allowed with it is rare. So is RWC, for which a write
  // must be under way while two other threads do all they do.
  if (mode == Consistency::kPso && test.layout == Layout::kTwoHomes) return is_one_of({"SB", "MP", "S", "R", "2+2W"});
  // The processor's store buffer shows itself between threads of one node only: a line that goes to another node takes
  // what was stored along.
  return mode == Consistency::kTso && test.layout == Layout::kOneNode && is_one_of({"SB"});
}

}  // namespace atoll::litmus
