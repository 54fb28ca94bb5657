// How a node finds its master again, which was started anew or could not be reached for a while.
#include <fmt/format.h>

#include "base/boot_clock.hpp"
#include "base/log.hpp"
#include "cluster/master_membership.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;

constexpr auto kOneTry = 1s;  // so long the destructor may have to wait
constexpr auto kTryAgain = 100ms;
constexpr std::size_t kNamesInFrame = 40;
static_assert(kNamesInFrame * (6 * kMaxRootNameBytes + 40) < kMaxFrameBytes);  // a byte may take six in JSON

}  // namespace

/// The finder's thread: until the master is there again, or it is known that it will not be.
void MasterMembership::look_for_master() noexcept {
  std::string said;
  bool ended = false;
  while (true) {
    std::string why;
    if (!ended && is_refused(*place_.tcp, Clock::now() + kOneTry)) {
      ended = true;
      note_end_of_master();
    }
    if (try_return(why)) break;  // without the mutex: the reader may wait for this thread's end from here on
    base::MutexLock lock(mutex_);
    if (lost_ || stopping_) break;
    if (why != said) spdlog::warn("node {}: {}", id_, why);
    said = why;
    const auto until = Clock::now() + kTryAgain;
    while (!stopping_ && !lost_ && Clock::now() < until) (void)changed_.wait_until(mutex_, until);
    if (stopping_ || lost_) break;
  }
  wake();
}

/// Its connection ended and its address refuses others: its process has ended. (A firewall that answers in its place
/// would lie; docs/membership.md.)
void MasterMembership::note_end_of_master() {
  const base::MutexLock lock(mutex_);
  keeper_->master_ended(base::boot_ns());
  show_right();
  if (!master_returns_) lose("it has ended");
  wake();  // its lease is another now
}

/// One try. True when the master is there, or has said that it will not have this node.
bool MasterMembership::try_return(std::string& why) {
  try {
    bool leaving = false;
    {
      const base::MutexLock lock(mutex_);
      if (lost_ || stopping_) return false;
      leaving = leaving_;
    }
    const auto deadline = Clock::now() + kOneTry;
    Connection connection = connect_master(place_, deadline);
    Json body = introduction("return");
    body["left"] = leaving;
    body.update(offer_);
    connection.send(std::move(body));
    Frame frame;
    if (const Status status = await_frame(connection, frame, deadline); !status.ok()) {
      why = "the master did not answer to a return: " + status.to_string();
      return false;
    }
    Fields fields(frame.body);
    const Term term = frame.op() == "returned" ? fields.number("term") : kNoTerm;
    const base::MutexLock lock(mutex_);
    if (frame.op() == "refused") {
      lose(fmt::format("it refused to have node {} back: {}", id_, fields.text("why", kMaxFrameBytes)));
      return true;
    }
    if (!fields.ok() || term == kNoTerm) {
      why = "the master's answer to a return makes no sense";
      return false;
    }
    found_.emplace(std::move(connection));
    found_term_ = term;
    return true;
  } catch (const std::exception& error) {
    why = error.what();
    return false;
  }
}

/// The reader takes what was found: from here on it is the connection.
void MasterMembership::adopt_connection() {
  Connection connection = std::move(*found_);
  found_.reset();
  if (!keeper_->connected(found_term_, base::boot_ns())) {
    return lose("it was started before the one that this node obeys; is its host's clock wrong?");
  }
  term_ = found_term_;
  connection_.emplace(std::move(connection));
  spdlog::info("node {}: the master is there again (term {})", id_, term_);
  tell_names();
  if (leaving_) connection_->send({{"op", "leave"}});
  for (const auto& [id, request] : requests_) {
    if (!request.answered) connection_->send(request.body);
  }
}

/// A master that was started anew knows no name.
void MasterMembership::tell_names() {
  Json names = Json::array();
  for (const auto& [name, address] : names_.all()) {
    names.push_back({name, address.bits()});
    if (names.size() < kNamesInFrame) continue;
    connection_->send({{"op", "names"}, {"names", std::exchange(names, Json::array())}});
  }
  if (!names.empty()) connection_->send({{"op", "names"}, {"names", std::move(names)}});
}

}  // namespace atoll::cluster
