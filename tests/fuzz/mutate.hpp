// Mutations of inputs that are a few bytes of header and then records of one size, field by field: what a message
// means stays what it means, so that most of what is tried gets past the first check.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/random.hpp"
#include "fuzz.hpp"

namespace atoll::fuzz {

struct Field {
  std::uint8_t offset;
  std::uint8_t bytes;  // 1, 2, 4 or 8
};

struct Records {
  std::size_t header;  // bytes before the first record
  std::size_t bytes;   // of a record
  std::span<const Field> fields;
};

/// A value that is likely to be at the edge of something.
inline std::uint64_t interesting(base::Random& random, std::uint64_t old) {
  switch (random.below(6)) {
    case 0: return old + 1;
    case 1: return old - 1;
    case 2: return random.below(16);
    case 3: return std::uint64_t{1} << random.below(64);
    case 4: return ~std::uint64_t{0} >> random.below(64);
    default: return random.next();
  }
}

inline void mutate_field(base::Random& random, std::uint8_t* record, Field field) {
  std::uint64_t value = 0;
  std::memcpy(&value, record + field.offset, field.bytes);
  value = interesting(random, value);
  std::memcpy(record + field.offset, &value, field.bytes);
}

/// One small change. Returns the new size.
inline std::size_t mutate_records(const Records& form, std::uint8_t* data, std::size_t size, std::size_t max_size,
                                  unsigned seed) {
  base::Random random(seed);
  const std::size_t count = size > form.header ? (size - form.header) / form.bytes : 0;
  const auto choice = random.below(10);
  if (count == 0 || choice == 0) return LLVMFuzzerMutate(data, size, max_size);
  const auto record = [&](std::size_t k) { return data + form.header + k * form.bytes; };
  const std::size_t one = random.below(count), other = random.below(count);
  switch (choice) {
    case 1:  // again
      if (size + form.bytes > max_size) break;
      std::memmove(record(one) + form.bytes, record(one), size - form.header - one * form.bytes);
      return size + form.bytes;
    case 2:  // not at all
      std::memmove(record(one), record(one) + form.bytes, size - form.header - (one + 1) * form.bytes);
      return size - form.bytes;
    case 3:  // in another order
      std::swap_ranges(record(one), record(one) + form.bytes, record(other));
      return size;
    case 4: {  // a field of another
      const Field field = form.fields[random.below(form.fields.size())];
      std::memmove(record(one) + field.offset, record(other) + field.offset, field.bytes);
      return size;
    }
    case 5:
      if (form.header > 0) data[random.below(form.header)] = std::uint8_t(random.next());
      return size;
    default: break;
  }
  mutate_field(random, record(one), form.fields[random.below(form.fields.size())]);
  return size;
}

}  // namespace atoll::fuzz
