#include "transport/tcp/message_assembler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ronde::transport {
namespace {

using Message = std::vector<std::byte>;

Message message_with(std::size_t size, int seed) {
  Message message(size);
  for (std::size_t i = 0; i < size; ++i) {
    message[i] = static_cast<std::byte>(static_cast<std::size_t>(seed) * 31 + i * 7 + (i >> 8));
  }
  return message;
}

/// A stream's bytes, which come in pieces.
class Arriving {
 public:
  explicit Arriving(Integrity integrity) : tags_(integrity) {}

  void add(Pipe::Channel channel, const Message& message) {
    MessageHead head(tags_.integrity());
    Message sent = message;
    tags_.begin();
    if (tags_.integrity() == Integrity::encrypt) {
      tags_.crypt(sent);
    }
    const std::span<const std::byte> part = sent;
    head.describe(channel, Parts(&part, 1), tags_);
    bytes.insert(bytes.end(), head.bytes().begin(), head.bytes().end());
    bytes.insert(bytes.end(), sent.begin(), sent.end());
  }
  /// A read of at most so many bytes; false: nothing has come.
  bool read(MessageAssembler& assembler, std::size_t most) { return read_to({assembler.room(), {}}, assembler, most); }
  /// The same to two places.
  bool read_to_both(MessageAssembler& assembler, std::size_t most) {
    return read_to(assembler.rooms(), assembler, most);
  }

  Message bytes;
  std::size_t largest_room = 0;

 private:
  bool read_to(const std::array<std::span<std::byte>, 2>& rooms, MessageAssembler& assembler, std::size_t most) {
    std::size_t got = 0;
    for (const std::span<std::byte> room : rooms) {
      largest_room = std::max(largest_room, room.size());
      const std::size_t piece = std::min({room.size(), most - got, bytes.size() - at_});
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at_), piece, room.begin());
      at_ += piece;
      got += piece;
    }
    if (got > 0) {
      assembler.note_read(got);
    }
    return got > 0;
  }

  MessageTags tags_;
  std::size_t at_ = 0;
};

class Assembling : public testing::TestWithParam<Integrity> {};
INSTANTIATE_TEST_SUITE_P(MessageAssembler, Assembling,
                         testing::Values(Integrity::off, Integrity::checksum, Integrity::mac, Integrity::encrypt));

TEST_P(Assembling, MessagesAreWholeAndInOrderHoweverTheirBytesCome) {
  const std::vector<std::size_t> sizes = {0,     1,     100,   16383, 16384,  65535,  65536, 65537, 200001,
                                          70000, 69999, 66560, 66559, 300000, 262144, 1024,  1023,  4096,
                                          4097,  131072, 0,    7};
  for (const std::size_t piece : {1UL, 5UL, 1000UL, 4096UL, 65536UL, 66000UL, 1UL << 30U}) {
    for (const bool to_both : {false, true}) {
      Arriving stream(GetParam());
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        stream.add(i + 5, message_with(sizes[i], static_cast<int>(i)));
      }
      const auto read = [&](MessageAssembler& assembler) {
        return to_both ? stream.read_to_both(assembler, piece) : stream.read(assembler, piece);
      };
      MessageAssembler assembler(3, MessageTags(GetParam()));
      Pipe::Channel channel = 0;
      Message message;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        while (!assembler.next(channel, message)) {
          ASSERT_TRUE(assembler.status()) << assembler.status().message();
          ASSERT_TRUE(read(assembler)) << "message " << i << " by " << piece;
        }
        ASSERT_EQ(channel, i + 5);
        ASSERT_TRUE(message == message_with(sizes[i], static_cast<int>(i))) << sizes[i] << " by " << piece;
      }
      EXPECT_FALSE(assembler.next(channel, message));
      EXPECT_FALSE(read(assembler)) << "nothing is left";
    }
  }
}

TEST_P(Assembling, TheEndOfALargeMessageIsReadToWhereItStaysWithTheNextOnesHead) {
  Arriving stream(GetParam());
  for (int i = 0; i < 3; ++i) {
    stream.add(1, message_with(100000, i));
  }
  MessageAssembler assembler(3, MessageTags(GetParam()));
  Pipe::Channel channel = 0;
  Message message;
  const auto read = [&] { return stream.read_to_both(assembler, std::size_t{1} << 30U); };
  EXPECT_FALSE(assembler.next(channel, message));
  ASSERT_TRUE(read());  // 64 KiB of the first, to be copied
  EXPECT_FALSE(assembler.next(channel, message));
  const std::size_t left = assembler.rooms()[0].size();
  EXPECT_EQ(left, 100000 + MessageHead(GetParam()).size() - 65536);
  EXPECT_EQ(assembler.rooms()[1].size(), 4096U);
  ASSERT_TRUE(read());
  ASSERT_TRUE(assembler.next(channel, message));
  EXPECT_TRUE(message == message_with(100000, 0));
  EXPECT_FALSE(assembler.next(channel, message));
  EXPECT_EQ(assembler.rooms()[0].size(), 100000 + MessageHead(GetParam()).size() - 4096) << "of the second";
  ASSERT_TRUE(read());
  ASSERT_TRUE(assembler.next(channel, message));
  EXPECT_TRUE(message == message_with(100000, 1));
}

/// Messages of one channel, of which every second is expected.
TEST_P(Assembling, WhatIsExpectedIsReadToItsPlaceHoweverItsBytesCome) {
  const std::vector<std::size_t> sizes = {16384, 16383, 65536, 200001, 100, 100000, 32, 70000, 16385, 16417, 0, 300000};
  for (const std::size_t piece : {1UL, 7UL, 1000UL, 4096UL, 65536UL, 1UL << 30U}) {
    for (const bool to_both : {false, true}) {
      Arriving stream(GetParam());
      MessageAssembler assembler(3, MessageTags(GetParam()));
      std::vector<Message> sent;
      std::vector<Message> places;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        sent.push_back(message_with(sizes[i], static_cast<int>(i)));
        places.emplace_back(i % 2 == 0 && sizes[i] > kBeginningBytes ? sizes[i] - kBeginningBytes : 0);
        stream.add(1, sent[i]);
        if (!places[i].empty()) {
          assembler.expect_at(1, sent[i], places[i]);
          assembler.expect_at(2, sent[i], places[i]);
          assembler.forget_places(2);  // another channel's
        }
      }
      Pipe::Channel channel = 0;
      Message message;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        while (!assembler.next(channel, message)) {
          ASSERT_TRUE(assembler.status()) << assembler.status().message();
          ASSERT_TRUE(to_both ? stream.read_to_both(assembler, piece) : stream.read(assembler, piece));
        }
        const bool is_placed = GetParam() != Integrity::encrypt && i % 2 == 0 && sizes[i] >= 16384;
        ASSERT_EQ(message.size(), is_placed ? kBeginningBytes : sizes[i]) << i << " by " << piece;
        if (is_placed) {
          ASSERT_TRUE(assembler.take_placed(1, message));
          ASSERT_FALSE(assembler.take_placed(1, message)) << "it is said once";
          message.insert(message.end(), places[i].begin(), places[i].end());
        } else if (sizes[i] >= kBeginningBytes) {
          ASSERT_FALSE(assembler.take_placed(1, message));
        }
        ASSERT_TRUE(message == sent[i]) << sizes[i] << " by " << piece;
      }
    }
  }
}

TEST_P(Assembling, APlaceThatIsForgottenIsNotWrittenToAnyMore) {
  const Message sent = message_with(100000, 1);
  const std::size_t bytes = sent.size() + MessageHead(GetParam()).size();
  for (const bool all : {false, true}) {
    for (std::size_t before = 0; before < bytes; before += 9973) {
      Arriving stream(GetParam());
      stream.add(1, sent);
      MessageAssembler assembler(3, MessageTags(GetParam()));
      Message place(sent.size() - kBeginningBytes);
      assembler.expect_at(1, sent, place);
      Pipe::Channel channel = 0;
      Message message;
      for (std::size_t come = 0; come < before; ++come) {
        ASSERT_FALSE(assembler.next(channel, message));
        ASSERT_TRUE(stream.read_to_both(assembler, 1));
      }
      ASSERT_FALSE(assembler.next(channel, message));
      assembler.forget_places(2);
      all ? assembler.forget_places(1) : assembler.forget_place(1, sent);
      place.assign(place.size(), std::byte{0x5a});
      while (!assembler.next(channel, message)) {
        ASSERT_TRUE(assembler.status()) << assembler.status().message();
        ASSERT_TRUE(stream.read_to_both(assembler, 5000));
      }
      EXPECT_TRUE(message == sent) << "forgotten after " << before;
      EXPECT_FALSE(assembler.take_placed(1, sent));
      EXPECT_EQ(std::count(place.begin(), place.end(), std::byte{0x5a}), 99968);
    }
  }
}

TEST_P(Assembling, DamageIsSeenInWhatIsPlacedToo) {
  if (GetParam() == Integrity::off) {
    GTEST_SUCCEED() << "nothing is seen then";
    return;
  }
  const Message sent = message_with(100000, 1);
  Arriving stream(GetParam());
  stream.add(1, sent);
  stream.bytes.back() ^= std::byte{1};
  MessageAssembler assembler(3, MessageTags(GetParam()));
  Message place(sent.size() - kBeginningBytes);
  assembler.expect_at(1, sent, place);
  Pipe::Channel channel = 0;
  Message message;
  while (!assembler.next(channel, message) && assembler.status()) {
    ASSERT_TRUE(stream.read_to_both(assembler, 5000));
  }
  EXPECT_EQ(assembler.status().code(), Code::internal);
}

TEST_P(Assembling, ManySmallMessagesTakeOneRead) {
  Arriving stream(GetParam());
  for (int i = 0; i < 100; ++i) {
    stream.add(1, message_with(10, i));
  }
  MessageAssembler assembler(3, MessageTags(GetParam()));
  ASSERT_TRUE(stream.read(assembler, 1U << 20U));
  Pipe::Channel channel = 0;
  Message message;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(assembler.next(channel, message)) << i;
    EXPECT_TRUE(message == message_with(10, i)) << i;
  }
}

TEST_P(Assembling, MemoryGrowsWithWhatHasComeNotWithWhatIsAnnounced) {
  constexpr std::size_t kMost = std::size_t{4} << 20;
  const Message large = message_with(3 * kMost, 1);
  Arriving stream(GetParam());
  stream.add(1, large);
  MessageAssembler assembler(3, MessageTags(GetParam()));
  Pipe::Channel channel = 0;
  Message message;
  while (!assembler.next(channel, message)) {
    ASSERT_TRUE(stream.read(assembler, kMost));
  }
  EXPECT_TRUE(message == large);
  EXPECT_EQ(stream.largest_room, kMost);
}

TEST(MessageAssembler, TheRestOfALargeMessageIsReadToWhereItStays) {
  Arriving stream(Integrity::checksum);
  stream.add(1, message_with(300'000, 1));
  MessageAssembler assembler(3, MessageTags(Integrity::checksum));
  Pipe::Channel channel = 0;
  Message message;
  EXPECT_FALSE(assembler.next(channel, message));
  ASSERT_TRUE(stream.read(assembler, 65536));
  EXPECT_FALSE(assembler.next(channel, message));
  const std::span<std::byte> rest = assembler.room();
  EXPECT_EQ(rest.size(), 300'000 - (65536 - 24));
  ASSERT_TRUE(stream.read(assembler, 1U << 30U));
  ASSERT_TRUE(assembler.next(channel, message));
  EXPECT_EQ(message.data() + message.size(), rest.data() + rest.size());
}

TEST(MessageAssembler, MemoryThatIsGivenBackHoldsALaterMessage) {
  Arriving stream(Integrity::checksum);
  for (int i = 0; i < 3; ++i) {
    stream.add(1, message_with(100'000, i));
  }
  MessageAssembler assembler(3, MessageTags(Integrity::checksum));
  Pipe::Channel channel = 0;
  const auto next = [&] {
    Message message;
    while (!assembler.next(channel, message)) {
      EXPECT_TRUE(stream.read(assembler, 4096));
    }
    return message;
  };
  Message first = next();
  const std::byte* const memory = first.data();
  assembler.recycle(std::move(first));
  EXPECT_NE(next().data(), memory) << "it had begun elsewhere";
  const Message third = next();
  EXPECT_EQ(third.data(), memory);
  EXPECT_TRUE(third == message_with(100'000, 2));
}

TEST(MessageAssembler, ADamagedHeadIsSeenBeforeItsLengthIsBelieved) {
  Arriving stream(Integrity::checksum);
  stream.add(1, message_with(10, 1));
  stream.bytes[3] ^= std::byte{0x30};  // now very long
  MessageAssembler assembler(3, MessageTags(Integrity::checksum));
  ASSERT_TRUE(stream.read(assembler, 1000));
  Pipe::Channel channel = 0;
  Message message;
  EXPECT_FALSE(assembler.next(channel, message));
  EXPECT_EQ(assembler.status().code(), Code::internal);
  EXPECT_EQ(assembler.status().failed_rank(), 3);
  EXPECT_NE(assembler.status().message().find("what rank 3 has sent was changed on the way"), std::string::npos);
}

TEST(MessageAssembler, ADamagedMessageIsNotGivenOutNorAnyBehindIt) {
  Arriving stream(Integrity::checksum);
  stream.add(1, message_with(10, 1));
  stream.add(1, message_with(10, 2));
  stream.bytes[24 + 9] ^= std::byte{1};
  MessageAssembler assembler(3, MessageTags(Integrity::checksum));
  ASSERT_TRUE(stream.read(assembler, 1000));
  Pipe::Channel channel = 0;
  Message message;
  EXPECT_FALSE(assembler.next(channel, message));
  EXPECT_FALSE(assembler.status());
  EXPECT_FALSE(assembler.next(channel, message));
}

TEST(MessageAssembler, ALengthBeyondTheLimitIsDamage) {
  for (const bool is_allowed : {true, false}) {
    const auto length = static_cast<std::uint32_t>(kMaxMessageBytes + (is_allowed ? 0 : 1));
    Arriving stream(Integrity::off);
    stream.bytes.resize(12);
    std::ranges::copy(std::as_bytes(std::span(&length, 1)), stream.bytes.begin());
    MessageAssembler assembler(3, MessageTags(Integrity::off));
    ASSERT_TRUE(stream.read(assembler, 1000));
    Pipe::Channel channel = 0;
    Message message;
    EXPECT_FALSE(assembler.next(channel, message));
    EXPECT_EQ(assembler.status().is_ok(), is_allowed);
  }
}

}  // namespace
}  // namespace ronde::transport
