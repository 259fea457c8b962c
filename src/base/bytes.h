// Little-endian records: what travels between ranks is written and read field by field, with every length checked.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ronde {

static_assert(std::endian::native == std::endian::little, "records are little-endian; add byte swaps for this machine");

class ByteWriter {
 public:
  /// `expected`: about how many bytes will come; more may.
  explicit ByteWriter(std::size_t expected = 0) { bytes_.reserve(expected); }
  template <typename T>
  void put(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    append(&value, sizeof value);
  }
  void put_string(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    append(text.data(), text.size());
  }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  // Not insert(): GCC 12 warns of an overflow that is none when it inlines it.
  void append(const void* from, std::size_t size) {
    const std::size_t before = bytes_.size();
    bytes_.resize(before + size);
    if (size > 0) {
      std::memcpy(bytes_.data() + before, from, size);
    }
  }

  std::vector<std::byte> bytes_;
};

/// Reads what ByteWriter wrote. A read past the end yields zero and makes ok() false for good.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  T get() {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    T value{};
    if (rest_.size() < sizeof value) {
      ok_ = false;
      rest_ = {};
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return value;
  }
  std::string get_string() {
    const auto size = get<std::uint32_t>();
    if (rest_.size() < size) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    std::string text(reinterpret_cast<const char*>(rest_.data()), size);
    rest_ = rest_.subspan(size);
    return text;
  }
  /// A count of records that take at least `record_bytes` each; more than fit in the rest is an error.
  std::size_t get_count(std::size_t record_bytes) {
    const auto count = get<std::uint32_t>();
    if (count * record_bytes > rest_.size()) {
      ok_ = false;
      return 0;
    }
    return count;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

// ---- Lists of numbers, with their length before them

template <typename T>
void write_numbers(ByteWriter& writer, const std::vector<T>& numbers) {
  writer.put(static_cast<std::uint32_t>(numbers.size()));
  for (T number : numbers) {
    writer.put(number);
  }
}

template <typename T>
std::vector<T> read_numbers(ByteReader& reader) {
  std::vector<T> numbers(reader.get_count(sizeof(T)));
  for (T& number : numbers) {
    number = reader.get<T>();
  }
  return numbers;
}

}  // namespace ronde
