#include "launch/line_mixer.h"

#include <gtest/gtest.h>

#include <random>

namespace ronde::launch {
namespace {

/// All that the mixer prints, whatever the stream.
std::string printed(LineMixer& mixer) {
  std::string text;
  for (const Piece& piece : mixer.take_output()) {
    text += piece.text;
  }
  return text;
}

constexpr int kOut = 0;
constexpr int kErr = 1;

TEST(LineMixer, PutsTheRankInFrontOfEachLine) {
  LineMixer mixer({});
  mixer.take(1, kOut, "a\nb\n", 0);
  mixer.take(0, kOut, "c\n\n", 0);
  EXPECT_EQ(printed(mixer), "[1] a\n[1] b\n[0] c\n[0] \n");
}

TEST(LineMixer, KeepsStreamsApart) {
  LineMixer mixer({});
  mixer.take(1, kOut, "out\n", 0);
  mixer.take(1, kErr, "err\n", 0);
  const std::vector<Piece> pieces = mixer.take_output();
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].stream, kOut);
  EXPECT_EQ(pieces[1].stream, kErr);
  EXPECT_EQ(pieces[1].text, "[1] err\n");
}

TEST(LineMixer, NeverMixesInsideALine) {
  LineMixer mixer({});
  mixer.take(1, kOut, "one ", 0);
  mixer.take(2, kOut, "two ", 0);
  mixer.take(1, kOut, "more\n", 0);
  mixer.take(2, kOut, "more\n", 0);
  EXPECT_EQ(printed(mixer), "[1] one more\n[2] two more\n");
}

TEST(LineMixer, ALineWithoutEndIsShownWhenTheRankEnds) {
  LineMixer mixer({});
  mixer.take(1, kOut, "last words", 0);
  mixer.take(0, kOut, "mine", 0);
  EXPECT_EQ(printed(mixer), "");
  mixer.end(1, kOut);
  mixer.end(1, kErr);
  mixer.end(0, kOut);
  EXPECT_EQ(printed(mixer), "[1] last words\n[0] mine\n");
}

TEST(LineMixer, WindowsLineEndsAreLineEnds) {
  LineMixer mixer({});
  mixer.take(1, kOut, "a\r", 0);
  mixer.take(1, kOut, "\nb\r\n", 0);
  mixer.take(0, kOut, "c\r\n", 0);
  EXPECT_EQ(printed(mixer), "[1] a\n[1] b\n[0] c\n");
}

TEST(LineMixer, OtherRanksProgressBarsShowTheirLastState) {
  LineMixer mixer({});
  mixer.take(1, kErr, "\r10%", 0);
  mixer.take(1, kErr, "\r50%\r", 0);
  mixer.take(1, kErr, "100%\n", 0);
  EXPECT_EQ(printed(mixer), "[1] 100%\n");
}

TEST(LineMixer, TheLiveRanksBarPassesStateByState) {
  LineMixer mixer({});
  mixer.take(0, kErr, "\r10%", 0);
  EXPECT_EQ(mixer.next_deadline(), LineMixer::kPartialDelay);
  mixer.flush(LineMixer::kPartialDelay - 1);
  EXPECT_EQ(printed(mixer), "");
  mixer.flush(LineMixer::kPartialDelay);
  EXPECT_EQ(printed(mixer), "[0] 10%");
  EXPECT_EQ(mixer.next_deadline(), kNever);
  mixer.take(0, kErr, "\r20%\r30%", kSecond);
  mixer.flush(2 * kSecond);
  EXPECT_EQ(printed(mixer), "\r[0] 20%\r[0] 30%");
  mixer.take(0, kErr, "\n", 3 * kSecond);
  EXPECT_EQ(printed(mixer), "\n");
}

TEST(LineMixer, AnUnfinishedLineGoesOnWhereItWas) {
  LineMixer mixer({});
  mixer.take(0, kOut, "loading... ", 0);
  mixer.flush(kSecond);
  mixer.take(0, kOut, "done\n", kSecond);
  EXPECT_EQ(printed(mixer), "[0] loading... done\n");
}

TEST(LineMixer, OnATerminalTheLiveLineMovesDownForAnothersLine) {
  LineMixer mixer({.terminal = true});
  mixer.take(0, kErr, "\r10%", 0);
  mixer.flush(kSecond);
  mixer.take(1, kOut, "a\nb\n", kSecond);
  mixer.take(0, kErr, "\r20%", kSecond);
  mixer.flush(2 * kSecond);
  EXPECT_EQ(printed(mixer), "[0] 10%\r\x1b[K[1] a\n[1] b\n[0] 10%\r[0] 20%");
}

TEST(LineMixer, TheLiveRanksOwnLineOnTheOtherStreamMovesItsBarToo) {
  LineMixer mixer({.terminal = true});
  mixer.take(0, kErr, "\r10%", 0);
  mixer.flush(kSecond);
  mixer.take(0, kOut, "epoch 1\n", kSecond);
  EXPECT_EQ(printed(mixer), "[0] 10%\r\x1b[K[0] epoch 1\n[0] 10%");
}

TEST(LineMixer, ElsewhereTheLiveLineIsEndedAndStartsAgain) {
  LineMixer mixer({});
  mixer.take(0, kErr, "\r10%", 0);
  mixer.flush(kSecond);
  mixer.take(1, kOut, "a\n", kSecond);
  mixer.take(0, kErr, "\r20%", kSecond);
  mixer.flush(2 * kSecond);
  EXPECT_EQ(printed(mixer), "[0] 10%\n[1] a\n[0] 20%");
  mixer.take(1, kOut, "b\n", 2 * kSecond);
  mixer.take(0, kErr, " of 5\n", 2 * kSecond);
  EXPECT_EQ(printed(mixer), "\n[1] b\n[0] 20% of 5\n") << "what goes on after a break is repeated whole";
  mixer.take(0, kErr, "x", 3 * kSecond);
  mixer.flush(4 * kSecond);
  mixer.take(1, kOut, "c\n", 5 * kSecond);
  mixer.take(0, kErr, "\n", 6 * kSecond);
  EXPECT_EQ(printed(mixer), "[0] x\n[1] c\n") << "its end alone needs no line";
}

TEST(LineMixer, TwoUnfinishedLinesOfTheLiveRankDoNotMix) {
  LineMixer mixer({});
  mixer.take(0, kErr, "bar", 0);
  mixer.flush(kSecond);
  mixer.take(0, kOut, "name? ", kSecond);
  mixer.flush(2 * kSecond);
  mixer.take(0, kErr, "\rbar 2", 2 * kSecond);
  mixer.flush(3 * kSecond);
  EXPECT_EQ(printed(mixer), "[0] bar\n[0] name? \n[0] bar 2");
  mixer.end(0, kErr);
  mixer.end(0, kOut);
  EXPECT_EQ(printed(mixer), "\n");
}

TEST(LineMixer, TheLaunchersOwnLinesBreakNothing) {
  LineMixer mixer({});
  mixer.take(0, kErr, "10%", 0);
  mixer.flush(kSecond);
  mixer.announce(kErr, "ronde: stopping");
  EXPECT_EQ(printed(mixer), "[0] 10%\nronde: stopping\n");
}

TEST(LineMixer, ColoursThePrefixOnly) {
  LineMixer mixer({.terminal = true, .color = true});
  mixer.take(1, kOut, "a\n", 0);
  EXPECT_EQ(printed(mixer), "\x1b[33m[1]\x1b[0m a\n");
}

TEST(LineMixer, WithoutPrefixLinesAreStillWhole) {
  LineMixer mixer({.prefix = false});
  mixer.take(1, kOut, "on", 0);
  mixer.take(2, kOut, "two\n", 0);
  mixer.take(1, kOut, "e\n", 0);
  EXPECT_EQ(printed(mixer), "two\none\n");
}

TEST(LineMixer, ALongLineIsPassedOnWhole) {
  for (const int rank : {0, 1}) {
    LineMixer mixer({});
    const std::string line(1 << 20, 'x');
    for (std::size_t at = 0; at < line.size(); at += 65536) {  // as it comes out of a pipe, slowly
      const Nanoseconds now = static_cast<Nanoseconds>(at) * kMillisecond;
      mixer.take(rank, kOut, line.substr(at, 65536), now);
      mixer.take(2, kOut, "other\n", now);
      mixer.flush(now + LineMixer::kPartialDelay);
      EXPECT_EQ(printed(mixer), "[2] other\n");
      EXPECT_EQ(mixer.next_deadline(), kNever);
    }
    mixer.take(rank, kOut, "\n", 0);
    EXPECT_EQ(printed(mixer), "[" + std::to_string(rank) + "] " + line + "\n");
  }
}

TEST(LineMixer, AnEndlessLineIsCut) {
  for (const int rank : {0, 1}) {
    LineMixer mixer({});
    mixer.take(rank, kOut, std::string(LineMixer::kMaxLineBytes + 10, 'x'), 0);
    mixer.end(rank, kOut);
    EXPECT_EQ(printed(mixer).size(), 2 * LineMixer::kMaxLineBytes / 2 + 10 + 2 * 5);
  }
}

TEST(LineMixer, TheSameLinesHoweverTheTextIsCut) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    LineMixer mixer({.live_rank = 7});
    std::string expected[2];
    std::string text[2];
    for (int rank = 0; rank < 2; ++rank) {
      for (int line = 0; line < 20; ++line) {
        const std::string words(random() % 5, static_cast<char>('a' + rank));
        text[rank] += words + "\n";
        expected[rank] += "[" + std::to_string(rank) + "] " + words + "\n";
      }
    }
    while (!text[0].empty() || !text[1].empty()) {
      const std::size_t rank = random() % 2;
      const std::size_t size = std::min<std::size_t>(random() % 7, text[rank].size());
      mixer.take(static_cast<int>(rank), kOut, text[rank].substr(0, size), 0);
      text[rank].erase(0, size);
    }
    std::string got[2];
    const std::string all = printed(mixer);
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t end = all.find('\n', at) + 1;
      got[all[at + 1] - '0'] += all.substr(at, end - at);
      at = end;
    }
    EXPECT_EQ(got[0], expected[0]);
    EXPECT_EQ(got[1], expected[1]);
  }
}

}  // namespace
}  // namespace ronde::launch
