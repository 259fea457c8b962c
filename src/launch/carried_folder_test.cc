#include "launch/carried_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace ronde::launch {
namespace {

std::string fresh_folder() {
  std::string path = testing::TempDir() + "carried-XXXXXX";
  EXPECT_NE(::mkdtemp(path.data()), nullptr);
  return path;
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// Moves what `from` sends into `to`, and gives the number of frames.
int carry(CarriedFolder& from, CarriedFolder& to) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  FramePipe writing(UniqueFd{::dup(ends[0])}, UniqueFd{ends[1]}, false);
  FramePipe reading(UniqueFd{ends[0]}, UniqueFd{::dup(ends[0])}, false);
  EXPECT_TRUE(from.send(writing));
  int frames = 0;
  for (bool more = true; more;) {
    more = writing.waiting_bytes() > 0;
    writing.flush();
    std::vector<pollfd> entries;
    reading.watch(entries);
    ::poll(entries.data(), entries.size(), 0);
    reading.move(entries);
    while (const std::optional<Frame> frame = reading.take()) {
      EXPECT_TRUE(to.take(frame->bytes));
      ++frames;
      more = true;
    }
  }
  return frames;
}

TEST(CarriedFolder, FilesGoThereAndNewOnesComeBack) {
  const std::string here = fresh_folder();
  const std::string there = fresh_folder();
  CarriedFolder one(here);
  CarriedFolder other(there);
  const std::string large(3000000, 'x');
  write_file(here + "/function", std::string("a\0b", 3));
  write_file(here + "/large", large);
  write_file(here + "/empty", "");
  write_file(here + "/.hidden", "h");
  write_file(here + "/unfinished.part", "u");
  std::filesystem::create_directory(here + "/folder");
  EXPECT_EQ(carry(one, other), 1 + 3 + 1);
  EXPECT_EQ(content_of(there + "/function"), std::string("a\0b", 3));
  EXPECT_EQ(content_of(there + "/large"), large);
  EXPECT_TRUE(std::filesystem::exists(there + "/empty"));
  EXPECT_FALSE(std::filesystem::exists(there + "/.hidden"));
  write_file(there + "/result.1", "r");
  EXPECT_EQ(carry(other, one), 1);
  EXPECT_EQ(content_of(here + "/result.1"), "r");
  EXPECT_EQ(carry(other, one), 0);
  std::filesystem::remove_all(here);
  std::filesystem::remove_all(there);
}

TEST(CarriedFolder, ANameThatLeadsElsewhereIsNotTaken) {
  const std::string here = fresh_folder();
  CarriedFolder folder(here);
  for (const std::string& name : {std::string("../x"), std::string("a/b"), std::string(".x"), std::string()}) {
    EXPECT_FALSE(folder.take(name + '\0' + "content")) << name;
  }
  EXPECT_FALSE(folder.take("no end"));
  EXPECT_TRUE(std::filesystem::is_empty(here));
  std::filesystem::remove_all(here);
}

}  // namespace
}  // namespace ronde::launch
