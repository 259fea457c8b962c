// Elements of memory that has no more alignment than the caller gave it. Internal to src/reduce.
#pragma once

#include <cstddef>
#include <cstring>

namespace ronde::reduce {

template <typename T>
T load_element(const void* base, std::size_t i) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(base) + i * sizeof value, sizeof value);
  return value;
}

template <typename T>
void store_element(T value, void* base, std::size_t i) {
  std::memcpy(static_cast<std::byte*>(base) + i * sizeof value, &value, sizeof value);
}

}  // namespace ronde::reduce
