#include "base/records.h"

#include <gtest/gtest.h>

namespace ronde {

namespace {

enum class Colour : std::uint8_t { red = 1, blue = 2 };

struct Point {
  std::int32_t x = 0;
  Colour colour = Colour::red;
  bool operator==(const Point&) const = default;
};

struct Drawing {
  std::string name;
  bool is_closed = false;
  std::vector<Point> points;
  std::optional<Point> centre;
  std::vector<std::vector<std::int64_t>> rows;
  std::vector<std::string> words;
  int not_sent = 0;
  bool operator==(const Drawing&) const = default;
};

}  // namespace

template <>
inline constexpr auto kFields<Point> = std::tuple(&Point::x, &Point::colour);
template <>
inline constexpr auto kFields<Drawing> = std::tuple(&Drawing::name, &Drawing::is_closed, &Drawing::points,
                                                    &Drawing::centre, &Drawing::rows, &Drawing::words);

namespace {

Drawing drawing() {
  return {"house", true, {{1, Colour::blue}, {-2, Colour::red}}, Point{7, Colour::blue}, {{1, 2}, {}}, {"a", ""}, 0};
}

std::vector<std::byte> bytes_of(const Drawing& value) {
  ByteWriter writer;
  put(writer, value);
  return writer.take();
}

TEST(Records, ComeBackAsTheyWere) {
  for (const Drawing& value : {drawing(), Drawing{}}) {
    const std::vector<std::byte> bytes = bytes_of(value);
    ByteReader reader(bytes);
    Drawing read = {"other", true, {{5, Colour::red}}, Point{}, {{9}}, {"b"}, 0};
    get(reader, read);
    EXPECT_TRUE(reader.at_end());
    EXPECT_EQ(read, value);
  }
}

TEST(Records, FieldsFollowEachOtherWithoutAGap) {
  EXPECT_EQ(kLeastBytes<Point>, 5u);
  EXPECT_EQ(kLeastBytes<Drawing>, 4u + 1 + 4 + 1 + 4 + 4);
  EXPECT_EQ(bytes_of({}).size(), kLeastBytes<Drawing>);
  EXPECT_EQ(bytes_of(drawing()).size(), (4u + 5) + 1 + (4 + 2 * 5) + (1 + 5) + (4 + 4 + 16 + 4) + (4 + 4 + 1 + 4));
}

TEST(Records, WhatEndsTooEarlyIsNoRecord) {
  const std::vector<std::byte> bytes = bytes_of(drawing());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ByteReader reader(std::span<const std::byte>(bytes).first(size));
    Drawing read;
    get(reader, read);
    EXPECT_FALSE(reader.at_end()) << size;
  }
}

TEST(Records, AListThatCannotFollowTakesNoMemory) {
  ByteWriter writer;
  writer.put(std::uint32_t{0xffffffff});
  writer.put(std::uint64_t{0});
  const std::vector<std::byte> bytes = writer.take();
  ByteReader reader(bytes);
  std::vector<Point> points;
  get(reader, points);
  EXPECT_FALSE(reader.ok());
  EXPECT_TRUE(points.empty());
}

}  // namespace
}  // namespace ronde
