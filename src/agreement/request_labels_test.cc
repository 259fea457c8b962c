#include "agreement/request_labels.h"

#include <gtest/gtest.h>

namespace ronde::agreement {
namespace {

control::RequestMessage labelled(const std::string& name, std::uint64_t label, const std::string& planning_name = {}) {
  control::RequestMessage request;
  request.name = name;
  request.label = label;
  request.planning_name = planning_name;
  return request;
}

TEST(RequestLabels, ARequestIsLateIfItsRankHadNotReadTheLastEntryAboutItsName) {
  RequestLabels labels(2);
  EXPECT_FALSE(labels.is_late(labelled("a", 0)));
  labels.begin_entry();
  labels.concerns("a");
  labels.begin_entry();
  labels.concerns("b");
  EXPECT_TRUE(labels.is_late(labelled("a", 0)));
  EXPECT_FALSE(labels.is_late(labelled("a", 1)));
  EXPECT_TRUE(labels.is_late(labelled("b", 1)));
  EXPECT_FALSE(labels.is_late(labelled("c", 0)));
}

TEST(RequestLabels, AnUnnamedCallIsLateByItsPlanningNameToo) {
  RequestLabels labels(2);
  labels.begin_entry();
  labels.concerns("plan");
  EXPECT_TRUE(labels.is_late(labelled("call 7", 0, "plan")));
  EXPECT_FALSE(labels.is_late(labelled("call 7", 1, "plan")));
}

TEST(RequestLabels, WhatAllMembersHaveReadIsForgotten) {
  RequestLabels labels(2);
  for (const char* name : {"a", "b", "a"}) {
    labels.begin_entry();
    labels.concerns(name);
  }
  EXPECT_EQ(labels.names(), 2u);
  labels.on_label(0, 3);
  EXPECT_EQ(labels.names(), 2u) << "the other member has read nothing";
  labels.on_label(1, 2);
  EXPECT_EQ(labels.names(), 1u) << "the third entry is about a again";
  EXPECT_TRUE(labels.is_late(labelled("a", 2)));
  labels.on_label(1, 1);
  labels.on_label(1, 3);
  EXPECT_EQ(labels.names(), 0u);
}

}  // namespace
}  // namespace ronde::agreement
