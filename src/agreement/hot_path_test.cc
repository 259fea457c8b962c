// In replay an instance allocates nothing. The program's own operator new counts.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "agreement/member.h"

namespace {
thread_local std::uint64_t allocations = 0;
}  // namespace

// Not inlined: GCC would warn of new and free that do not match.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) {
    return memory;
  }
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace ronde::agreement {
namespace {

class CountingSink final : public Sink {
 public:
  int published = 0;
  int completed = 0;
  void publish(std::uint32_t, Flag) override { ++published; }
  void complete(std::uint32_t, std::uint64_t) override { ++completed; }
  void voided(std::uint32_t) override {}
  void copy_in(std::uint32_t, std::uint32_t, std::uint64_t) override {}
  void set_frozen(std::uint32_t, Reason) override {}
  void send_frozen(std::uint32_t, Reason) override {}
  void store_quiet(const RankSet&) override {}
  Nanoseconds send_request(control::RequestMessage, Nanoseconds deadline) override { return deadline; }
  void send_end(control::EndMessage) override {}
  void send_join() override {}
  void send_leave() override {}
  void settings(const control::SettingsEntry&) override {}
  void table(const Thresholds&) override {}
  void execute(std::vector<control::ExecEntry::Item>) override {}
  void launch(std::uint32_t) override {}
  void prepare(const Bucket&) override {}
  void install(std::uint32_t, std::span<const std::uint32_t>, bool) override {}
  void ended(std::uint32_t) override {}
  void retire(std::uint32_t) override {}
  void join_done(const control::JoinDoneEntry&) override {}
  void fail(const std::string&, Status) override {}
  void bug(std::string_view) override {}
};

TEST(HotPath, AnInstanceOfReplayAllocatesNothing) {
  Member member(Group{0, {0, 1}}, 0);
  CountingSink sink;
  Descriptor descriptor;
  descriptor.tensors = {{DType::float32, {100}}};
  member.step(LogRead{control::PrepareEntry{{0, true, "0", {{"a", descriptor}, {"b", descriptor}}}}}, sink);
  member.step(LogRead{control::InstallEntry{1, {0}}}, sink);
  const std::uint64_t before = allocations;
  constexpr int kTimes = 1000;
  for (int i = 0; i < kTimes; ++i) {
    const Flag flag = member.next_flag(0);
    member.step(SubmitPlace{0, 1, flag, kNever, kNoOffset}, sink);
    member.step(SubmitPlace{0, 0, flag, kNever, kNoOffset}, sink);
    member.step(AllPublished{0}, sink);
    member.step(Reduced{0}, sink);
    member.step(AllDone{0}, sink);
  }
  EXPECT_EQ(allocations, before);
  EXPECT_GT(before, 0u);
  EXPECT_EQ(sink.published, kTimes);
  EXPECT_EQ(sink.completed, kTimes);
}

}  // namespace
}  // namespace ronde::agreement
