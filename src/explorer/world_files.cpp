// Lines that have a file at their home: what stands in the file, and what the home does about it.
#include <fmt/format.h>

#include <bit>

#include "explorer/world.hpp"

namespace atoll::explorer {

using coherence::DirState;
using coherence::LineRef;
using coherence::Protocol;

/// Has the line been dropped, and is not home again? Then the home's bytes are none.
bool World::is_absent(unsigned line) const noexcept {
  const DirState state = at(home_of(line), line).entry.state;
  return state == DirState::kStored || state == DirState::kParked || state == DirState::kFetching;
}

// ---- what the core asks for

void World::load(unsigned node, unsigned line) {
  ModelFile& file = files_[line];
  if (file.loading) fail(fmt::format("line {} is loaded twice at once", line));
  if (file.writing || file.held) fail(fmt::format("line {} is loaded over what its home has", line));
  if (node != home_of(line)) fail(fmt::format("line {} is loaded elsewhere than at its home", line));
  file.loading = true;
}

NodeId World::sharer_to_ask(unsigned line) const noexcept {
  std::uint64_t rest = at(home_of(line), line).entry.sharers;
  if (ask_ == 0) return kNoNode;
  for (unsigned skipped = 1; skipped < ask_ && (rest & (rest - 1)) != 0; ++skipped) rest &= rest - 1;
  return NodeId(std::countr_zero(rest));
}

void World::note_held(unsigned node, unsigned line, bool held) {
  ModelLine& home = at(node, line);
  ModelFile& file = files_[line];
  if (file.held == held) fail(fmt::format("it is said twice that line {} is {}", line, held ? "held" : "not held"));
  file.held = held;
  if (held) return;
  if (home.lingering != 0) fail(fmt::format("line {} is dropped while threads of its home may use it", line));
  if (!is_absent(line)) return;  // an owner may write it any time
  if (!file.fresh || file.writing) fail(fmt::format("line {} is dropped, and its file does not have it", line));
  home.fresh = false;
}

// ---- steps

/// What stands in memory at the beginning is what is written, whatever happens to the line until that has ended.
bool World::write_file(const Step& step) {
  const ModelLine& home = at(step.node, step.line);
  ModelFile& file = files_[step.line];
  if (step.peer == 0) {
    if (!protocols_[step.node].file(home.ref)) return false;
    if ((home.lingering & detail::kWritable) != 0) fail("a line is filed while threads of its home may write it");
    file.fresh = home.fresh;
    file.writing = true;
    return true;
  }
  file.writing = false;
  if (step.peer == 1) return true;
  --failures_left_;
  file.fresh = false;  // some of it was written, or nothing
  if (file.held) protocols_[step.node].soil(home.ref);
  return true;
}

void World::end_load(const Step& step) {
  const bool ok = step.peer == 0;
  ModelLine& home = at(step.node, step.line);
  ModelFile& file = files_[step.line];
  file.loading = false;
  home.fresh = ok && file.fresh;
  if (!ok) --failures_left_;
  protocols_[step.node].loaded(home.ref, ok);
}

/// What was begun ends some time: it belongs to every way to rest. It ends well first.
void World::enumerate_ends(std::vector<Step>& out) const {
  for (unsigned line = 0; line < options_.lines; ++line) {
    const auto home = std::uint8_t(home_of(line));
    const unsigned ways = failures_left_ != 0 ? 2 : 1;
    for (std::uint8_t way = 0; way < ways; ++way) {
      if (files_[line].loading) out.push_back({StepKind::kLoaded, home, way, 0, std::uint8_t(line)});
      if (files_[line].writing) out.push_back({StepKind::kFile, home, std::uint8_t(1 + way), 0, std::uint8_t(line)});
    }
  }
}

void World::enumerate_files(std::vector<Step>& out) const {
  for (unsigned line = 0; line < options_.lines; ++line) {
    const ModelLine& model = at(home_of(line), line);
    const auto add = [&](StepKind kind) {
      out.push_back({kind, std::uint8_t(home_of(line)), 0, 0, std::uint8_t(line)});
    };
    if (is_absent(line)) {
      add(StepKind::kFetchHome);
    } else if (!files_[line].writing) {
      if (!Protocol::is_filed(model.ref)) add(StepKind::kFile);
      add(StepKind::kDrop);
    }
  }
}

/// What a home that begins to fetch a line does with it is the runtime's choice: it may ask any sharer, or none.
void World::add_choices(std::vector<Step>& out) const {
  const std::size_t count = out.size();
  for (std::size_t i = 0; i < count; ++i) {
    const coherence::DirEntry& entry = at(home_of(out[i].line), out[i].line).entry;
    if (out[i].node != home_of(out[i].line) || entry.state != DirState::kParked) continue;
    for (int ask = 1; ask <= std::popcount(entry.sharers); ++ask) {
      Step step = out[i];
      step.ask = std::uint8_t(ask);
      out.push_back(step);
    }
  }
}

// ---- what must hold

void World::check_file(unsigned line) {
  const ModelLine& home = at(home_of(line), line);
  const ModelFile& file = files_[line];
  if (Protocol::is_filed(home.ref) && (!file.fresh || lacks_operands(line))) {
    fail(fmt::format("line {} passes for as its file has it, and is not", line));
  }
  if (is_absent(line) && !file.fresh) fail(fmt::format("the home does not have line {}, and its file is old", line));
  const bool away = is_absent(line) || home.entry.owner != kNoNode;
  if (file.held == away) {
    fail(fmt::format("the core has said that line {} is {} in its home's memory", line, file.held ? "" : "not"));
  }
  const bool fetching = home.entry.state == DirState::kFetching;
  if (file.loading && !fetching) fail(fmt::format("line {} is loaded, and nobody has begun to fetch it", line));
  if (fetching && file.loading != (home.entry.requester == kNoNode)) {
    fail(fmt::format("line {} is asked of its file and of a sharer at once, or of neither", line));
  }
}

// ---- as bytes

void World::encode_files(std::vector<std::uint8_t>& out) const {
  out.push_back(std::uint8_t(failures_left_));
  for (unsigned line = 0; line < options_.lines; ++line) {
    const ModelFile& file = files_[line];
    out.push_back(std::uint8_t((file.fresh ? 1U : 0U) | (file.loading ? 2U : 0U) | (file.writing ? 4U : 0U) |
                               (file.held ? 8U : 0U)));
  }
}

void World::decode_files(Cursor& in) {
  failures_left_ = in.next();
  for (unsigned line = 0; line < options_.lines; ++line) {
    const unsigned bits = in.next();
    files_[line] = {(bits & 1U) != 0, (bits & 2U) != 0, (bits & 4U) != 0, (bits & 8U) != 0};
  }
}

}  // namespace atoll::explorer
