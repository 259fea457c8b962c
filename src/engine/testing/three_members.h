// ThreeMembers: the fixture of a group whose members have names, and no links.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "engine/membership/member_names.h"

namespace ronde::engine {

/// Members 0, 1 and 2, which are ranks 3, 5 and 8 of the job.
class ThreeMembers : public testing::Test {
 protected:
  ThreeMembers() {
    connections_.who.resize(3);
    for (int member = 0; member < 3; ++member) {
      connections_.who[static_cast<std::size_t>(member)].host = "node" + std::to_string(member);
      connections_.who[static_cast<std::size_t>(member)].pid = 100 + member;
    }
  }

  const Group group_{4, {3, 5, 8}};
  Connections connections_;
  MemberNames names_{group_, connections_};
};

}  // namespace ronde::engine
