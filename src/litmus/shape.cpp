#include "litmus/shape.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace atoll::litmus {

const Shape* find_shape(std::string_view name) {
  const Shape* const found =
      std::find_if(std::begin(kShapes), std::end(kShapes), [name](const Shape& shape) { return shape.name == name; });
  return found == std::end(kShapes) ? nullptr : found;
}

std::string to_text(const Shape& shape, Outcome outcome) {
  std::string text;
  for (unsigned i = 0; i < shape.registers; ++i) text += fmt::format("r{}={} ", i, outcome >> (4 * i) & 0xf);
  for (unsigned v = 0; v < shape.variables; ++v) {
    text += fmt::format("{}={} ", "xy"[v], outcome >> (4 * (kMaxRegisters + v)) & 0xf);
  }
  text.pop_back();
  return text;
}

}  // namespace atoll::litmus
