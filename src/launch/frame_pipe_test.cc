#include "launch/frame_pipe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

namespace ronde::launch {
namespace {

struct PipeEnds {
  PipeEnds() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    reader.reset(ends[0]);
    writer.reset(ends[1]);
  }
  UniqueFd reader;
  UniqueFd writer;
};

/// Two ends that talk to each other.
struct Conversation {
  explicit Conversation(bool greeting = false) {
    PipeEnds there;
    PipeEnds back;
    one = FramePipe(std::move(back.reader), std::move(there.writer), greeting);
    other = FramePipe(std::move(there.reader), std::move(back.writer), false);
  }
  static void move(FramePipe& pipe) {
    std::vector<pollfd> entries;
    pipe.watch(entries);
    ASSERT_GE(::poll(entries.data(), entries.size(), 1000), 0);
    pipe.move(entries);
  }
  FramePipe one;
  FramePipe other;
};

TEST(FramePipe, FramesOfAnySizeComeWholeAndInOrder) {
  Conversation talk;
  const std::vector<std::size_t> sizes = {0, 1, 5, 65531, 65536, 300000, 3, 1 << 21};
  for (const std::size_t size : sizes) {
    talk.one.put(FrameKind::packet, "head", std::string(size, static_cast<char>('a' + size % 7)));
  }
  for (const std::size_t size : sizes) {
    std::optional<Frame> frame;
    while (!(frame = talk.other.take())) {
      talk.one.flush();
      Conversation::move(talk.other);
    }
    EXPECT_EQ(frame->kind, FrameKind::packet);
    EXPECT_EQ(frame->bytes, "head" + std::string(size, static_cast<char>('a' + size % 7)));
  }
  EXPECT_EQ(talk.one.waiting_bytes(), 0U);
  EXPECT_FALSE(talk.other.has_ended());
}

TEST(FramePipe, AnEndComesBehindTheLastFrame) {
  Conversation talk;
  talk.one.put(FrameKind::ready, "");
  talk.one.flush();
  talk.one.close();
  while (!talk.other.has_ended()) {
    Conversation::move(talk.other);
    if (const std::optional<Frame> frame = talk.other.take()) {
      EXPECT_EQ(frame->kind, FrameKind::ready);
    }
  }
  EXPECT_EQ(talk.other.damage(), "");
}

TEST(FramePipe, WhatAShellPrintsBeforeTheGreetingIsSkipped) {
  Conversation talk(true);
  talk.other.put_raw("Welcome to node1!\n");
  talk.other.put_raw(std::string(FramePipe::kGreeting));
  talk.other.put(FrameKind::hello, "{}");
  talk.other.flush();
  std::optional<Frame> frame;
  while (!(frame = talk.one.take())) {
    Conversation::move(talk.one);
  }
  EXPECT_EQ(frame->kind, FrameKind::hello);
  EXPECT_EQ(talk.one.noise(), "Welcome to node1!\n");
}

TEST(FramePipe, NoGreetingIsAnEndAndKeptForTheSentence) {
  Conversation talk(true);
  talk.other.put_raw("This account is not available.\n");
  talk.other.flush();
  talk.other.close();
  while (!talk.one.has_ended()) {
    Conversation::move(talk.one);
    EXPECT_FALSE(talk.one.take());
  }
  EXPECT_EQ(talk.one.noise(), "This account is not available.\n");
}

TEST(FramePipe, AnImpossibleLengthEndsIt) {
  Conversation talk;
  talk.one.put_raw("\xff\xff\xff\xff\x01 and more");
  talk.one.flush();
  Conversation::move(talk.other);
  EXPECT_FALSE(talk.other.take());
  EXPECT_TRUE(talk.other.has_ended());
  EXPECT_EQ(talk.other.damage(), "a frame of 4294967295 bytes");
}

}  // namespace
}  // namespace ronde::launch
