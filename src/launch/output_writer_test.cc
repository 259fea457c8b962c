#include "launch/output_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace ronde::launch {
namespace {

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
  Pipe() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader.reset(ends[0]);
    writer.reset(ends[1]);
  }
  std::string read_some() {
    std::string text(1 << 20, '\0');
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(::read(reader.get(), text.data(), text.size()), 0)));
    return text;
  }
};

TEST(OutputWriter, DoesNotBlockOnAFullPipeAndLosesNothing) {
  Pipe pipe;
  OutputWriter writer;
  std::string expected;
  for (int i = 0; i < 50000; ++i) {
    expected += std::to_string(i) + "\n";
  }
  writer.put(pipe.writer.get(), expected);
  std::string got;
  EXPECT_EQ(writer.push(), 0);
  EXPECT_FALSE(writer.is_empty());
  EXPECT_EQ(writer.waiting_fd(), pipe.writer.get());
  while (got.size() < expected.size()) {
    got += pipe.read_some();
    EXPECT_EQ(writer.push(), 0);
  }
  EXPECT_TRUE(writer.is_empty());
  EXPECT_EQ(got, expected);
}

TEST(OutputWriter, KeepsTheOrderOfTwoDescriptors) {
  Pipe pipe;
  const UniqueFd same(::fcntl(pipe.writer.get(), F_DUPFD_CLOEXEC, 0));
  OutputWriter writer;
  writer.put(pipe.writer.get(), "a");
  writer.put(same.get(), "b");
  writer.put(pipe.writer.get(), "c");
  writer.put(pipe.writer.get(), "");
  EXPECT_EQ(writer.push(), 0);
  EXPECT_EQ(pipe.read_some(), "abc");
}

TEST(OutputWriter, SaysWhenThereIsNoRoom) {
  OutputWriter writer;
  EXPECT_TRUE(writer.has_room());
  writer.put(1, std::string(OutputWriter::kRoomBytes, 'x'));
  EXPECT_FALSE(writer.has_room());
}

TEST(OutputWriter, TellsThatTheReaderHasGone) {
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  pipe.reader.reset();
  OutputWriter writer;
  writer.put(pipe.writer.get(), "text");
  EXPECT_EQ(writer.push(), EPIPE);
  EXPECT_TRUE(writer.is_empty());
  EXPECT_TRUE(writer.has_room());
  ::signal(SIGPIPE, before);
}

}  // namespace
}  // namespace ronde::launch
