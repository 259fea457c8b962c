// Records as bytes, from one description of each: its fields in their order.
//
//   template <>
//   inline constexpr auto kFields<Point> = std::tuple(&Point::x, &Point::y);
//
// put(writer, point) and get(reader, point) both follow from it, so what one writes is what the other reads. Fields are
// numbers, enumerations, texts, lists, optional values and other records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/bytes.h"

namespace ronde {

template <typename Record>
inline constexpr auto kFields = nullptr;

template <typename T>
inline constexpr bool kIsRecord = !std::is_same_v<decltype(kFields<T>), const std::nullptr_t>;

template <typename T>
constexpr std::size_t least_bytes();

/// The fewest bytes that a T can take: a list that claims more elements than could follow is refused before memory is
/// taken for it.
template <typename T>
inline constexpr std::size_t kLeastBytes = least_bytes<T>();

template <typename T>
constexpr std::size_t least_bytes() {
  if constexpr (kIsRecord<T>) {
    return std::apply(
        [](auto... fields) {
          return (std::size_t{0} + ... + kLeastBytes<std::remove_cvref_t<decltype(std::declval<T&>().*fields)>>);
        },
        kFields<T>);
  } else {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>, "say kFields for it");
    return sizeof(T);
  }
}
template <>
inline constexpr std::size_t kLeastBytes<std::string> = sizeof(std::uint32_t);
template <typename T>
inline constexpr std::size_t kLeastBytes<std::vector<T>> = sizeof(std::uint32_t);
template <typename T>
inline constexpr std::size_t kLeastBytes<std::optional<T>> = 1;

// ---- Writing

template <typename T>
void put(ByteWriter& writer, const T& value);

template <typename T>
void put(ByteWriter& writer, const std::vector<T>& list) {
  writer.put(static_cast<std::uint32_t>(list.size()));
  for (const T& each : list) {
    put(writer, each);
  }
}

template <typename T>
void put(ByteWriter& writer, const std::optional<T>& value) {
  writer.put(static_cast<std::uint8_t>(value.has_value()));
  if (value) {
    put(writer, *value);
  }
}

template <typename T>
void put(ByteWriter& writer, const T& value) {
  if constexpr (kIsRecord<T>) {
    std::apply([&](auto... fields) { (put(writer, value.*fields), ...); }, kFields<T>);
  } else if constexpr (std::is_same_v<T, std::string>) {
    writer.put_string(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    writer.put(static_cast<std::uint8_t>(value));
  } else {
    writer.put(value);
  }
}

// ---- Reading

template <typename T>
void get(ByteReader& reader, T& value);

template <typename T>
void get(ByteReader& reader, std::vector<T>& list) {
  list.resize(reader.get_count(kLeastBytes<T>));
  for (T& each : list) {
    get(reader, each);
  }
}

template <typename T>
void get(ByteReader& reader, std::optional<T>& value) {
  value.reset();
  if (reader.get<std::uint8_t>() != 0) {
    get(reader, value.emplace());
  }
}

template <typename T>
void get(ByteReader& reader, T& value) {
  if constexpr (kIsRecord<T>) {
    std::apply([&](auto... fields) { (get(reader, value.*fields), ...); }, kFields<T>);
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = reader.get_string();
  } else if constexpr (std::is_same_v<T, bool>) {
    value = reader.get<std::uint8_t>() != 0;
  } else {
    value = reader.get<T>();
  }
}

}  // namespace ronde
