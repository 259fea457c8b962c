#include "engine/progress/timeline_recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace ronde::engine {
namespace {

using testing::HasSubstr;

class TimelineRecordings : public testing::Test {
 protected:
  TimelineRecordings() {
    std::string folder = (std::filesystem::temp_directory_path() / "ronde_recording_XXXXXX").string();
    folder_ = ::mkdtemp(folder.data());
  }
  ~TimelineRecordings() override { std::filesystem::remove_all(folder_); }

  std::string path(const char* name) const { return (folder_ / name).string(); }
  static bool is_complete(const std::string& path) { return nlohmann::json::accept(std::ifstream(path)); }

  std::filesystem::path folder_;
  FakeClock clock_;
  observe::Observer* told_ = nullptr;
  int tellings_ = 0;
  TimelineRecording recording_{1, 2, clock_, [this](observe::Observer* observer) {
                                 told_ = observer;
                                 ++tellings_;
                               }};
};

TEST_F(TimelineRecordings, IsToldFromStartToStop) {
  ASSERT_TRUE(recording_.start(path("t"), false));
  EXPECT_NE(told_, nullptr);
  ASSERT_TRUE(recording_.stop());
  EXPECT_EQ(told_, nullptr);
  EXPECT_TRUE(is_complete(path("t.1"))) << "that of rank 1, whole once stop() has returned";
  ASSERT_TRUE(recording_.start(path("again"), false));
  EXPECT_NE(told_, nullptr);
}

TEST_F(TimelineRecordings, OneAtATime) {
  EXPECT_EQ(recording_.stop().code(), Code::invalid_argument);
  EXPECT_EQ(recording_.start("", false).code(), Code::invalid_argument);
  ASSERT_TRUE(recording_.start(path("t"), false));
  const Status second = recording_.start(path("u"), false);
  EXPECT_EQ(second.code(), Code::invalid_argument);
  EXPECT_THAT(second.message(), HasSubstr(path("t.1")));
  EXPECT_FALSE(std::filesystem::exists(path("u.1")));
}

TEST_F(TimelineRecordings, AFileThatCannotBeWrittenLeavesTheEnginesAlone) {
  EXPECT_EQ(recording_.start(path("no/such/folder/t"), false).code(), Code::system_error);
  EXPECT_EQ(tellings_, 0);
  EXPECT_TRUE(recording_.start(path("t"), false));
}

TEST_F(TimelineRecordings, NoneBeginsAfterTheEnd) {
  ASSERT_TRUE(recording_.start(path("t"), false));
  recording_.end();
  EXPECT_EQ(told_, nullptr);
  EXPECT_TRUE(is_complete(path("t.1")));
  EXPECT_EQ(recording_.start(path("u"), false).code(), Code::not_initialized);
  EXPECT_EQ(told_, nullptr);
}

}  // namespace
}  // namespace ronde::engine
