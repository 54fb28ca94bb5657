// State machines as data: rows, their expansion into one entry per (state, event), and the proof that
// every pair has exactly one row.
#pragma once

#include "atoll/detail/namespace.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>

namespace atoll::coherence {

inline constexpr std::size_t kMaxActions = 6;
inline constexpr std::size_t kMaxEvents = 10;

/// One row as written: a state, the events that it covers, what follows, and why.
template <typename State, typename Event, typename Action>
struct Row {
  State state;
  std::array<Event, kMaxEvents> events{};
  std::size_t event_count = 0;
  State next;
  std::array<Action, kMaxActions> actions{};
  std::size_t action_count = 0;
  bool never = false;
  const char* why;

  /// A transition.
  constexpr Row(State from, std::initializer_list<Event> on, State to, std::initializer_list<Action> act,
                const char* reason)
      : state(from), next(to), why(reason) {
    for (Event e : on) events[event_count++] = e;
    for (Action a : act) actions[action_count++] = a;
  }
  /// What cannot happen between correct nodes; a peer that makes it happen is cut off.
  constexpr Row(State from, std::initializer_list<Event> on, const char* reason)
      : state(from), next(from), never(true), why(reason) {
    for (Event e : on) events[event_count++] = e;
  }
};

/// One (state, event) pair after expansion.
template <typename State, typename Action>
struct Cell {
  State next{};
  std::array<Action, kMaxActions> actions{};
  std::uint8_t action_count = 0;
  std::uint8_t rows = 0;  // how many rows cover the pair: one, or the table is wrong
  bool never = false;
  const char* why = "";
};

/// The expanded table: two indexed loads from (state, event) to what happens.
template <typename State, typename Event, typename Action>
struct Table {
  using StateType = State;
  using EventType = Event;
  static constexpr std::size_t kStates = std::size_t(State::kCount);
  static constexpr std::size_t kEvents = std::size_t(Event::kCount);
  std::array<std::array<Cell<State, Action>, kEvents>, kStates> cells{};

  template <std::size_t N>
  constexpr explicit Table(const Row<State, Event, Action> (&rows)[N]) {
    for (const auto& row : rows) {
      for (std::size_t e = 0; e < row.event_count; ++e) {
        auto& cell = cells[std::size_t(row.state)][std::size_t(row.events[e])];
        ++cell.rows;
        cell.next = row.next;
        cell.actions = row.actions;
        cell.action_count = std::uint8_t(row.action_count);
        cell.never = row.never;
        cell.why = row.why;
      }
    }
  }

  [[nodiscard]] constexpr const Cell<State, Action>& at(State state, Event event) const {
    return cells[std::size_t(state)][std::size_t(event)];
  }
  [[nodiscard]] constexpr Cell<State, Action>& at(State state, Event event) {
    return cells[std::size_t(state)][std::size_t(event)];
  }
  /// Every (state, event) pair has exactly one row.
  [[nodiscard]] constexpr bool complete() const {
    for (const auto& state : cells) {
      for (const auto& cell : state) {
        if (cell.rows != 1) return false;
      }
    }
    return true;
  }
};

}  // namespace atoll::coherence
