// One client: what it has sent, what it is to be told, and what it has said about itself. Knows no sockets.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kv/batch.hpp"
#include "kv/buffer.hpp"
#include "kv/command.hpp"
#include "kv/resp_parser.hpp"
#include "kv/resp_writer.hpp"
#include "kv/transaction.hpp"

namespace atoll::kv {

/// Thread-safety: none; it belongs to its worker's thread.
class Session {
 public:
  explicit Session(Worker& worker);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  enum class Progress : std::uint8_t {
    kIdle,   // nothing to do before more comes in
    kAgain,  // more to do once the batch has run
    kYield,  // more to do, after the others had their turn
    kFull,   // more to do once the client has taken some of its answers
  };
  /// Runs the requests that have come in, in order. Those that are in the batch now are answered when it runs; they
  /// use the bytes of `in`, which must stay until then.
  Progress advance(Batch& batch);
  /// True: so much waits for the client that this GET of the batch, and those of the same client behind it, are not to
  /// be answered now. They are run again when the client has taken some.
  [[nodiscard]] bool postpones(std::string_view key);

  /// REQUIRES, to add to it: the last `advance` said kIdle.
  [[nodiscard]] Buffer& in() noexcept { return in_; }
  [[nodiscard]] Buffer& out() noexcept { return out_; }
  [[nodiscard]] RespWriter& reply() noexcept { return reply_; }
  [[nodiscard]] Worker& worker() noexcept { return worker_; }
  [[nodiscard]] Service& service() noexcept { return worker_.service; }

  /// Memory that the client costs as long as it neither sends more nor takes what it is sent.
  [[nodiscard]] std::size_t held_bytes() const noexcept {
    return in_.capacity() + out_.capacity() + transaction_.held_bytes();
  }

  /// No more requests are run; it ends when `out` has been sent.
  void close() noexcept { closing_ = true; }
  [[nodiscard]] bool closing() const noexcept { return closing_; }

  // what the client has said
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  void set_name(std::string_view name) { name_ = name; }
  [[nodiscard]] bool authenticated() const noexcept { return authenticated_; }
  /// Answers nothing when the password is right.
  bool authenticate(std::string_view user, std::string_view password);
  void reset();
  [[nodiscard]] Transaction& transaction() noexcept { return transaction_; }

 private:
  /// A request that could join others in a batch.
  enum class Kind : std::uint8_t { kOther, kGet, kSet };
  [[nodiscard]] ParserLimits parser_limits() const noexcept;
  [[nodiscard]] Kind kind() const noexcept;
  [[nodiscard]] bool is_full() const noexcept { return out_.size() >= worker_.service.limits().output_pause_bytes; }
  [[nodiscard]] std::size_t begin_run(Kind kind) noexcept;
  void add_postponed(Batch& batch);
  void finish_request() noexcept;
  void run(Arguments arguments);
  void reject_arity();
  void reject_unknown(Arguments arguments);

  Worker& worker_;
  Buffer in_, out_;
  RespWriter reply_;
  RespParser parser_;
  const Command* command_ = nullptr;  // of the request that is next
  bool have_request_ = false;
  bool closing_ = false;
  static constexpr std::size_t kMaxRun = 32;
  std::size_t max_gets_ = kMaxRun;      // in a batch; few after some were postponed
  std::vector<std::string> postponed_;  // keys of GETs, before what is in in_
  std::string postponed_key_;           // of the one that is in the batch
  bool authenticated_;
  std::uint64_t id_;
  std::string name_;
  Transaction transaction_;
};

}  // namespace atoll::kv
