#include "transport/loopback/links.h"

#include <gtest/gtest.h>

namespace ronde::transport {
namespace {

std::vector<std::byte> text(std::size_t length, int value) { return {length, static_cast<std::byte>(value)}; }

std::vector<std::byte> received(LoopbackNet& net, int to, int from) {
  std::vector<std::byte> message;
  return net.transport(to).link(from).receive(message) ? message : std::vector<std::byte>{};
}

TEST(LoopbackLinks, DeliverInOrderAndKeepWhatHasNoRoom) {
  LoopbackNet net(2, 1);
  Link& link = net.transport(0).link(1);
  link.send(text(1, 7));
  EXPECT_TRUE(link.flush());
  link.send(text(2, 8));
  EXPECT_FALSE(link.flush()) << "there is room for one";
  const std::uint64_t seen = net.news(0);
  EXPECT_EQ(received(net, 1, 0), text(1, 7));
  EXPECT_GT(net.news(0), seen) << "the writer is told of the room";
  EXPECT_EQ(received(net, 1, 0), text(0, 0));
  EXPECT_TRUE(link.flush());
  EXPECT_EQ(received(net, 1, 0), text(2, 8));
}

TEST(LoopbackLinks, HoldWhatIsUnderWay) {
  LoopbackNet net(3);
  net.hold(0, 1);
  net.transport(0).link(1).send(text(1, 1));
  net.transport(0).link(2).send(text(1, 2));
  EXPECT_EQ(received(net, 1, 0), text(0, 0));
  EXPECT_EQ(received(net, 2, 0), text(1, 2));
  EXPECT_EQ(net.news(1), 0u);
  net.release_all();
  EXPECT_EQ(net.news(1), 1u);
  EXPECT_EQ(received(net, 1, 0), text(1, 1));
}

TEST(LoopbackLinks, OfARankThatIsCutOffDeliverWhatWasUnderWay) {
  LoopbackNet net(2, 1);
  net.transport(0).link(1).send(text(1, 1));
  net.transport(1).link(0).send(text(1, 2));
  net.transport(1).link(0).send(text(1, 3));
  net.cut(0);
  net.transport(0).link(1).send(text(1, 4));
  EXPECT_EQ(received(net, 1, 0), text(1, 1));
  EXPECT_EQ(received(net, 1, 0), text(0, 0));
  EXPECT_EQ(received(net, 0, 1), text(0, 0));
  EXPECT_TRUE(net.transport(1).link(0).flush()) << "nobody waits for room at a dead rank";
}

}  // namespace
}  // namespace ronde::transport
