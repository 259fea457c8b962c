// A member in the mode that a test of the table wants.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "agreement/member.h"
#include "agreement/testing/recording_sink.h"

namespace ronde::agreement {

inline Descriptor tensor(std::int64_t elements, std::int64_t offset = kNoOffset) {
  Descriptor descriptor;
  descriptor.tensors = {{DType::float32, {elements}}};
  descriptor.memory_place = offset;
  return descriptor;
}

/// Rank 1 of 3. Bucket 0: "a" and "b", staged; 1: "c", inline; 2: "d", direct at 1024 on this rank.
class MemberTest : public testing::Test {
 protected:
  MemberTest() {
    prepare({0, true, "0", {{"a", tensor(100)}, {"b", tensor(100)}}});
    prepare({1, false, "128", {{"c", tensor(1)}}});
    prepare({2, true, "384", {{"d", tensor(100), {0, 1024, 128}}}});
    sink_.take();
  }
  void prepare(const Bucket& bucket) { read(control::PrepareEntry{bucket}); }
  void read(control::Message entry) { member_.step(LogRead{std::move(entry)}, sink_); }
  void error(const std::string& name) { read(control::ErrorEntry{name, Code::timed_out, 2, "too late", {}}); }
  Lane submit(const std::string& name, Descriptor descriptor) {
    return member_.step(Submit{name, std::move(descriptor), 7}, sink_);
  }
  Lane submit_a() { return submit("a", tensor(100)); }
  Lane submit_b() { return submit("b", tensor(100)); }
  void freeze() { member_.step(LocalReason{Reason::abort, 0}, sink_); }
  void decide(std::vector<std::uint64_t> published) { member_.step(AllFrozen{published}, sink_); }
  void lose(std::size_t peer) {
    RankSet lost(3);
    lost[peer] = true;
    member_.step(Lost{lost}, sink_);
  }
  void all_quiet() { member_.step(AllQuiet{Status::error(Code::peer_lost, "rank 2 died")}, sink_); }

  /// Brings a fresh member to this mode; in frozen and drain "d" is published, in drain it is decided.
  void enter(Mode mode) {
    if (mode == Mode::negotiate) {
      return;
    }
    read(control::InstallEntry{1, {0, 1, 2}});
    if (mode == Mode::frozen || mode == Mode::drain) {
      submit("d", tensor(100, 1024));
      freeze();
    }
    if (mode == Mode::drain) {
      decide({0, 0, 1});
    }
    if (mode == Mode::failing || mode == Mode::failed) {
      lose(2);
    }
    if (mode == Mode::failed) {
      all_quiet();
    }
    ASSERT_EQ(member_.mode(), mode);
    sink_.take();
  }
  void expect_bug() { EXPECT_THAT(sink_.take(), testing::Contains(testing::HasSubstr("bug"))); }

  Member member_{Group{0, {0, 1, 2}}, 1};
  RecordingSink sink_;
};

class InMode : public MemberTest, public testing::WithParamInterface<Mode> {
 protected:
  bool breaking() const { return GetParam() == Mode::frozen || GetParam() == Mode::drain; }
};

inline const auto kWorking = testing::Values(Mode::negotiate, Mode::replay, Mode::frozen, Mode::drain);
inline const auto kBreak = testing::Values(Mode::frozen, Mode::drain);
inline const auto kOver = testing::Values(Mode::failing, Mode::failed);

}  // namespace ronde::agreement
