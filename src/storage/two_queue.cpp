#include "storage/two_queue.hpp"

#include <limits>
#include <new>

#include "base/check.hpp"

namespace atoll::storage {

TwoQueue::TwoQueue(std::uint64_t frames)
    : frames_(frames), nodes_(static_cast<Node*>(std::calloc(frames, sizeof(Node)))) {
  ATOLL_CHECK(frames < std::numeric_limits<Link>::max());
  if (nodes_ == nullptr && frames > 0) throw std::bad_alloc();
  set_capacity(frames);
}

TwoQueue::Link TwoQueue::checked(std::uint64_t id) const {
  ATOLL_CHECK(id < frames_);
  return Link(id + 1);
}

TwoQueue::List& TwoQueue::list(Place place) {
  ATOLL_CHECK(place != Place::kNowhere);
  switch (place) {
    case Place::kNowhere:
    case Place::kFifo: break;
    case Place::kLru: return lru_;
    case Place::kGhost: return ghosts_;
  }
  return fifo_;
}

void TwoQueue::push(Link link, Place place) {
  List& into = list(place);
  Node& one = node(link);
  one = {0, into.newest, place};
  if (into.newest != 0) {
    node(into.newest).newer = link;
  } else {
    into.oldest = link;
  }
  into.newest = link;
  ++into.size;
}

void TwoQueue::take(Link link) {
  Node& one = node(link);
  List& from = list(one.place);
  (one.newer != 0 ? node(one.newer).older : from.newest) = one.older;
  (one.older != 0 ? node(one.older).newer : from.oldest) = one.newer;
  --from.size;
  one = {};
}

void TwoQueue::trim_ghosts() {
  while (ghosts_.size > most_ghosts_) take(ghosts_.oldest);
}

void TwoQueue::set_capacity(std::uint64_t resident) {
  most_fifo_ = resident / 4;
  most_ghosts_ = resident / 2;
  trim_ghosts();
}

void TwoQueue::admit(std::uint64_t id) {
  const Link link = checked(id);
  ATOLL_CHECK(!is_resident(id));
  const bool is_remembered = node(link).place == Place::kGhost;
  if (is_remembered) take(link);
  push(link, is_remembered ? Place::kLru : Place::kFifo);
}

void TwoQueue::touch(std::uint64_t id) {
  const Link link = checked(id);
  if (node(link).place != Place::kLru || lru_.newest == link) return;
  take(link);
  push(link, Place::kLru);
}

void TwoQueue::remove(std::uint64_t id, bool remember) {
  const Link link = checked(id);
  ATOLL_CHECK(is_resident(id));
  const bool was_in_fifo = node(link).place == Place::kFifo;
  take(link);
  if (!was_in_fifo || !remember) return;
  push(link, Place::kGhost);
  trim_ghosts();
}

void TwoQueue::forget(std::uint64_t id) {
  const Link link = checked(id);
  if (node(link).place != Place::kNowhere) take(link);
}

bool TwoQueue::is_resident(std::uint64_t id) const {
  const Place place = node(checked(id)).place;
  return place == Place::kFifo || place == Place::kLru;
}

}  // namespace atoll::storage
