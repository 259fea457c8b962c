#include "observe/json_array_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace ronde::observe {
namespace {

using nlohmann::json;

class JsonArrayFileTest : public testing::Test {
 protected:
  JsonArrayFileTest() {
    std::string folder = (std::filesystem::temp_directory_path() / "ronde_array_XXXXXX").string();
    folder_ = ::mkdtemp(folder.data());
    path_ = (folder_ / "array.json").string();
  }
  ~JsonArrayFileTest() override { std::filesystem::remove_all(folder_); }

  static std::string text_of(const std::filesystem::path& path) {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }
  std::string text() const { return text_of(path_); }
  std::ptrdiff_t files() const { return std::distance(std::filesystem::directory_iterator(folder_), {}); }
  /// Somebody's files have all names that the hidden copy could have.
  void take_hidden_names() const {
    for (const char* name : {".array.json.other", ".array.json.other2", ".array.json.other3"}) {
      std::ofstream(folder_ / name) << "not ours";
    }
  }
  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(JsonArrayFileTest, HoldsWhatWasAppendedAfterEachAppend) {
  std::ofstream(path_) << "what was there before, and is longer than the new beginning";
  auto file = JsonArrayFile::create(path_, "0");
  ASSERT_TRUE(file) << file.status().message();
  EXPECT_EQ(file->path(), path_);
  EXPECT_EQ(text(), "[\n0\n]\n");
  ASSERT_TRUE(file->append(",\n1,\n2"));
  EXPECT_EQ(text(), "[\n0,\n1,\n2\n]\n");
  ASSERT_TRUE(file->append(",\n3"));
  EXPECT_EQ(text(), "[\n0,\n1,\n2,\n3\n]\n");
  ASSERT_TRUE(file->append(""));
  EXPECT_EQ(text(), "[\n0,\n1,\n2,\n3\n]\n");
  ASSERT_TRUE(file->append(",\n4"));
  EXPECT_EQ(json::parse(text()), json::parse("[0,1,2,3,4]"));
}

TEST_F(JsonArrayFileTest, AReaderThatHasOpenedItReadsAWholeDocumentDuringTheNextAppend) {
  auto file = JsonArrayFile::create(path_, "0");
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->append(",1"));
  std::ifstream reader(path_);
  ASSERT_TRUE(file->append(",2"));  // into the other copy: what the reader has open is hidden, and as it was
  EXPECT_EQ(json::parse(reader), json::parse("[0,1]"));
  EXPECT_EQ(json::parse(text()), json::parse("[0,1,2]"));
}

TEST_F(JsonArrayFileTest, TheHiddenCopyGoesWithTheObjectThatOwnsIt) {
  {
    auto file = JsonArrayFile::create(path_, "0");
    ASSERT_TRUE(file);
    EXPECT_EQ(text_of(folder_ / ".array.json.other"), "[\n0\n]\n");
    JsonArrayFile moved(std::move(*file));
    ASSERT_TRUE(moved.append(",1"));
    EXPECT_EQ(files(), 2);
  }
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(json::parse(text()), json::parse("[0,1]"));
}

TEST_F(JsonArrayFileTest, AFileThatHasTakenTheHiddenNameStaysThere) {
  {
    auto file = JsonArrayFile::create(path_, "0");
    ASSERT_TRUE(file);
    std::filesystem::remove(folder_ / ".array.json.other");
    std::ofstream(folder_ / ".array.json.other") << "new";
  }
  EXPECT_EQ(text_of(folder_ / ".array.json.other"), "new");
}

TEST_F(JsonArrayFileTest, WhatCannotBeOpenedIsSystemError) {
  const auto file = JsonArrayFile::create((folder_ / "none" / "x.json").string(), "0");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.status().code(), Code::system_error);
  EXPECT_THAT(file.status().message(), testing::StartsWith("open: "));
}

/// With two copies and with one.
TEST_F(JsonArrayFileTest, AfterAFailedAppendTheFileIsAsItWasAndMayGrowAgain) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = ::signal(SIGXFSZ, SIG_IGN);
  for (const bool is_one_copy : {false, true}) {
    if (is_one_copy) {
      take_hidden_names();
    }
    auto file = JsonArrayFile::create(path_, "0");
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->append(",1"));
    rlimit small = before;
    small.rlim_cur = 2000;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const Status status = file->append(",\"" + std::string(3000, 'x') + '"');
    const std::string after = text();
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(status.code(), Code::system_error) << is_one_copy;
    EXPECT_EQ(after, "[\n0,1\n]\n") << is_one_copy;
    ASSERT_TRUE(file->append(",2"));
    ASSERT_TRUE(file->append(",3"));
    EXPECT_EQ(json::parse(text()), json::parse("[0,1,2,3]")) << is_one_copy;
  }
  ::signal(SIGXFSZ, old);
}

TEST_F(JsonArrayFileTest, WhatCannotBeShownIsNotInTheFileLater) {
  auto file = JsonArrayFile::create(path_, "0");
  ASSERT_TRUE(file);
  std::filesystem::remove(path_);  // there is nothing to change names with
  const Status status = file->append(",1");
  EXPECT_EQ(status.code(), Code::system_error);
  EXPECT_THAT(status.message(), testing::StartsWith("rename: "));
  std::ofstream(path_) << "somebody's";
  ASSERT_TRUE(file->append(",2"));
  EXPECT_EQ(text(), "[\n0,2\n]\n");
}

TEST_F(JsonArrayFileTest, ALinkStaysALinkAndOnlyWhereItLeadsIsWritten) {
  const std::filesystem::path link = folder_ / "link.json";
  std::filesystem::create_symlink(path_, link);
  auto file = JsonArrayFile::create(link.string(), "0");
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->append(",1"));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(json::parse(text()), json::parse("[0,1]"));
  EXPECT_EQ(files(), 2) << "no hidden copy";
}

TEST_F(JsonArrayFileTest, WhatHasTheHiddenCopysNameIsLeftAlone) {
  const std::filesystem::path precious = folder_ / "precious";
  const std::filesystem::path hidden = folder_ / ".array.json.other";
  std::ofstream(precious) << "precious";
  const std::vector<std::function<void()>> cases = {
      [&] { std::filesystem::create_symlink(precious, hidden); },
      [&] { std::filesystem::create_symlink(folder_ / "nothing", hidden); },
      [&] { std::filesystem::create_hard_link(precious, hidden); },
      [&] { std::filesystem::copy_file(precious, hidden); },
      [&] { std::filesystem::create_directory(hidden); },
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    cases[i]();
    const auto before = std::filesystem::symlink_status(hidden).type();
    {
      auto file = JsonArrayFile::create(path_, "0", "precious");
      ASSERT_TRUE(file) << file.status().message();
      ASSERT_TRUE(file->append(",1"));
    }
    EXPECT_EQ(json::parse(text()), json::parse("[0,1]")) << i;
    EXPECT_EQ(std::filesystem::symlink_status(hidden).type(), before) << i;
    EXPECT_EQ(text_of(precious), "precious") << i;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "nothing")) << i;
    EXPECT_EQ(files(), 3) << i << ": nothing new is left";
    std::filesystem::remove(hidden);
  }
}

TEST_F(JsonArrayFileTest, WithoutANameForAHiddenCopyThereIsOneCopy) {
  take_hidden_names();
  {
    auto file = JsonArrayFile::create(path_, "0");
    ASSERT_TRUE(file);
    EXPECT_EQ(files(), 4);
    ASSERT_TRUE(file->append(",1"));
    EXPECT_EQ(json::parse(text()), json::parse("[0,1]"));
  }
  EXPECT_EQ(text_of(folder_ / ".array.json.other"), "not ours");
  EXPECT_EQ(files(), 4);
}

TEST_F(JsonArrayFileTest, AKilledProcesssHiddenCopyIsTakenAway) {
  const std::filesystem::path hidden = folder_ / ".array.json.other";
  std::ofstream(hidden) << "[\n{\"ours\":1}\n]\n";
  { ASSERT_TRUE(JsonArrayFile::create(path_, "0")); }
  EXPECT_EQ(files(), 2) << "without a mark nobody knows whose it is";
  { ASSERT_TRUE(JsonArrayFile::create(path_, "0", "\"theirs\"")); }
  EXPECT_EQ(files(), 2);
  { ASSERT_TRUE(JsonArrayFile::create(path_, "0", "\"ours\"")); }
  EXPECT_EQ(files(), 1);
}

}  // namespace
}  // namespace ronde::observe
