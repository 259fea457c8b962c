#include "engine/membership/peer_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "base/poll_for.h"

namespace ronde::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Stands for a pidfd.
UniqueFd eventfd_for_process() { return UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

void let_end(const UniqueFd& process) { ASSERT_EQ(::eventfd_write(process.get(), 1), 0); }

bool has_untold_ends(const PeerProcesses& processes) {
  pollfd fds[] = {{processes.descriptor(), POLLIN, 0}};
  return poll_for(fds, 0) == 1;
}

TEST(PeerProcesses, TellsOfEachEndOnce) {
  const UniqueFd first = eventfd_for_process();
  const UniqueFd third = eventfd_for_process();
  Result<PeerProcesses> processes = PeerProcesses::watch({first.get(), -1, third.get()});
  ASSERT_TRUE(processes) << processes.status().message();
  EXPECT_FALSE(has_untold_ends(*processes));
  EXPECT_THAT(processes->ended(), IsEmpty());
  let_end(third);
  EXPECT_TRUE(has_untold_ends(*processes));
  EXPECT_THAT(processes->ended(), ElementsAre(2));
  EXPECT_FALSE(has_untold_ends(*processes)) << "or a sleep would never last again";
  let_end(first);
  EXPECT_THAT(processes->ended(), ElementsAre(0));
}

TEST(PeerProcesses, TellsOfManyInSeveralCalls) {
  std::vector<UniqueFd> all;
  std::vector<int> descriptors;
  for (int i = 0; i < 20; ++i) {
    all.push_back(eventfd_for_process());
    descriptors.push_back(all.back().get());
    let_end(all.back());
  }
  Result<PeerProcesses> processes = PeerProcesses::watch(descriptors);
  ASSERT_TRUE(processes);
  std::size_t told = 0;
  for (int call = 0; call < 20 && has_untold_ends(*processes); ++call) {
    told += processes->ended().size();
  }
  EXPECT_EQ(told, all.size());
}

TEST(PeerProcesses, WhatIsNoDescriptorIsAnError) {
  EXPECT_EQ(PeerProcesses::watch({1 << 20}).status().code(), Code::system_error);
}

}  // namespace
}  // namespace ronde::engine
