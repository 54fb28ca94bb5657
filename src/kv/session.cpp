#include "kv/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kv/execute.hpp"
#include "kv/handlers.hpp"

namespace atoll::kv {
namespace {

/// A web browser that somebody made talk to us: it must not get to the body of its request.
bool is_http(std::string_view word) noexcept {
  return is_word(word, "POST") || is_word(word, "HOST:");
}

}  // namespace

Session::Session(Worker& worker)
    : worker_(worker),
      reply_(out_, worker.service.limits().output_limit_bytes),
      authenticated_(worker.service.options().password.empty()),
      id_(worker.service.next_client_id()) {}

ParserLimits Session::parser_limits() const noexcept {
  const Limits& limits = worker_.service.limits();
  ParserLimits result{limits.arguments, limits.argument_bytes, limits.request_bytes, !authenticated_};
  if (!authenticated_) {
    result.arguments = std::min(result.arguments, kStrangerArguments);
    result.argument_bytes = std::min(result.argument_bytes, kStrangerBytes);
  }
  return result;
}

Session::Progress Session::advance(Batch& batch) {
  const ParserLimits limits = parser_limits();
  Kind run_of = Kind::kOther;
  std::size_t in_run = 0, max_run = 0;
  while (!closing_ && !reply_.overflowed()) {
    if (is_full()) return Progress::kFull;
    if (!postponed_.empty()) {
      add_postponed(batch);
      return Progress::kAgain;
    }
    if (!have_request_) {
      const RespParser::Outcome outcome = parser_.parse(in_.data(), in_.size(), limits);
      // Again, for the batch may postpone some.
      if (outcome == RespParser::Outcome::kMore) return run_of == Kind::kGet ? Progress::kAgain : Progress::kIdle;
      if (outcome == RespParser::Outcome::kError) {
        if (in_run > 0) return Progress::kAgain;
        reply_.error("ERR " + parser_.error());
        close();
        break;
      }
      if (parser_.arguments().empty()) {
        finish_request();
        continue;
      }
      have_request_ = true;
      command_ = find_command(parser_.arguments()[0]);
    }
    const Kind next = kind();
    if (in_run > 0 && (next != run_of || in_run == max_run)) return Progress::kAgain;
    if (in_run == 0) max_run = begin_run(next);
    ++worker_.counts.commands;
    if (next == Kind::kGet) {
      batch.add_get(*this, parser_.arguments()[1]);
    } else if (next == Kind::kSet) {
      batch.add_put(*this, parser_.arguments()[1], parser_.prefixed(2, kPlainTag));
    } else {
      const bool slow = command_ != nullptr && command_->has(kSlow);
      const bool was_stranger = !authenticated_;
      run(parser_.arguments());
      finish_request();
      if (slow || (was_stranger && authenticated_)) return closing_ ? Progress::kIdle : Progress::kYield;
      continue;
    }
    run_of = next;
    ++in_run;
    finish_request();
  }
  return Progress::kIdle;
}

/// How many requests of this kind may be in the batch. For GETs more and more, until some are postponed.
std::size_t Session::begin_run(Kind kind) noexcept {
  if (kind != Kind::kGet) return kMaxRun;
  return std::exchange(max_gets_, std::min(kMaxRun, max_gets_ * 2));
}

bool Session::postpones(std::string_view key) {
  if (!is_full()) return false;
  postponed_.emplace_back(key);
  max_gets_ = 1;
  return true;
}

/// One at a time: its value is likely to be large, and others would be read in vain.
void Session::add_postponed(Batch& batch) {
  postponed_key_ = std::move(postponed_.front());
  postponed_.erase(postponed_.begin());
  batch.add_get(*this, postponed_key_);
}

Session::Kind Session::kind() const noexcept {
  if (command_ == nullptr || !authenticated_ || transaction_.open() || parser_.is_line()) return Kind::kOther;
  const Arguments arguments = parser_.arguments();
  if (arguments.size() < 2 || arguments[1].size() > HashMap::kMaxKeyBytes) return Kind::kOther;
  if (command_->on_keys == &commands::get) return arguments.size() == 2 ? Kind::kGet : Kind::kOther;
  if (command_->on_keys != &commands::set || arguments.size() != 3) return Kind::kOther;
  return arguments[2].size() <= kMaxStringBytes ? Kind::kSet : Kind::kOther;
}

void Session::finish_request() noexcept {
  in_.consume(parser_.consumed());
  parser_.next();
  have_request_ = false;
}

void Session::run(Arguments arguments) {
  if (parser_.is_line() && is_http(arguments[0])) return close();
  if (!authenticated_ && (command_ == nullptr || !command_->has(kNoAuth))) {
    return reply_.error("NOAUTH Authentication required.");
  }
  if (command_ == nullptr) {
    transaction_.fail();
    return reject_unknown(arguments);
  }
  if (!command_->takes(arguments.size())) return reject_arity();
  if (command_->has(kContainer) && !check_subcommand(*command_, arguments, reply_)) return transaction_.fail();
  if (transaction_.open() && !command_->has(kAtOnce)) return transaction_.queue(*this, *command_, arguments);
  if (command_->on_keys != nullptr) return run_on_keys(worker_, *command_, arguments, reply_);
  command_->on_session(*this, arguments);
}

void Session::reject_arity() {
  if (command_->on_session == &commands::exec) {  // of all commands this one ends the transaction
    transaction_.discard();
    return reply_.error("EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command");
  }
  transaction_.fail();
  wrong_arity(reply_, command_->name);
}

void Session::reject_unknown(Arguments arguments) {
  constexpr std::size_t kShown = 128;
  std::string beginning;
  for (std::size_t i = 1; i < arguments.size() && beginning.size() < kShown; ++i) {
    beginning += fmt::format("'{}' ", arguments[i].substr(0, kShown - beginning.size()));
  }
  reply_.error(
      fmt::format("ERR unknown command '{}', with args beginning with: {}", arguments[0].substr(0, kShown), beginning));
}

bool Session::authenticate(std::string_view user, std::string_view password) {
  // Nobody needs to know whether it was the name.
  const bool right = service().options().password.empty() || service().is_password(password);
  if (right && user == "default") {
    authenticated_ = true;
    return true;
  }
  reply_.error("WRONGPASS invalid username-password pair or user is disabled.");
  return false;
}

void Session::reset() {
  transaction_.discard();
  reply_.set_version(2);
  name_.clear();
  authenticated_ = service().options().password.empty();
}

}  // namespace atoll::kv
