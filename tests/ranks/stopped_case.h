// One case of a rank that is stopped in an operation: what each of the ranks does in it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <ronde/ronde.hpp>
#include <string>
#include <utility>
#include <vector>

#include "stopped.h"
#include "support/rank_test.h"

namespace ronde::test {

inline constexpr float kCanary = 12345;
inline constexpr std::size_t kLarge = 4 << 20;

inline std::uint64_t replayed() {
  ronde_counters all{};
  all.struct_size = sizeof all;
  ronde_get_counters(nullptr, &all);
  return all.replayed;
}

/// What an operation is done with and how the engine does it.
struct Case {
  std::string name;
  std::size_t elements;
  bool shared;
  bool replay;  ///< else it is the first of its name
  /// Where in its tensor, of 1000 parts, the victim stops when it first looks there. Negative: it is stopped as it
  /// sleeps in its call, its tensor handed in.
  int stops_at;
};

inline std::string text_of(const Case& what) {
  return what.name + (what.replay ? ", replayed" : ", negotiation") + ", stops at " + std::to_string(what.stops_at);
}

inline float sum_of_ranks() { return static_cast<float>(size() * (size() + 1)) / 2; }

/// One case, as one rank has it. Requires: an engine.
class Stopped {
 public:
  Stopped(Case what, int victim, Group group = {})
      : case_(std::move(what)),
        victim_(victim),
        group_(group),
        processes_(all_processes()),
        tensor_(case_.name, case_.elements, case_.shared) {}

  /// How many there have been: in a child process of a test that has had several.
  static void count_from(int cases) { count_ = cases; }

  bool is_victim() const { return test::rank() == victim_; }
  int process_of_victim() const { return processes_[static_cast<std::size_t>(victim_)]; }
  Guarded& tensor() { return tensor_; }
  Group group() const { return group_; }

  /// Until the name is replayed, if it shall be.
  void warm_up() {
    const std::uint64_t before = replayed();
    for (int i = 0; i < (case_.replay ? 20 : 0); ++i) {
      tensor_.fill(static_cast<float>(test::rank() + 1));
      start(20).wait();
      tensor_.expect(sum_of_ranks(), "before anybody stops");
    }
    ASSERT_TRUE(!case_.replay || replayed() > before);
  }

  Ticket start(double limit) {
    return ronde::allreduce_async(tensor_.values(),
                                  {.name = case_.name, .op = Op::sum, .timeout_s = limit, .group = group_});
  }

  /// The victim stops in its call. The others', which begin `end`, fail; of the victim, which goes on when one of them
  /// calls go_on(), this returns then. `dies`: a rank that is killed once the victim has stopped.
  void fail(
      int dies = -1, const std::function<void(const Ticket&)>& end = [](const Ticket& ticket) { ticket.wait(); }) {
    dies_ = dies;
    tensor_.fill(static_cast<float>(test::rank() + 1));
    meet();
    if (is_victim()) {
      fail_as_victim();
      return;
    }
    if (case_.stops_at < 0) {
      stop_as_it_sleeps();
    }
    const Ticket ticket = start(test::rank() == dies ? 60 : kLimit);
    say("has called");  // who dies has left meet() by then, else its parent would find the answer that it waited for
    if (dies >= 0 && test::rank() != dies) {
      wait_for_state(process_of_victim(), 'T');
      EXPECT_TRUE(eventually([&] { return has_said("has called", dies); }, 60));
      ::kill(processes_[static_cast<std::size_t>(dies)], SIGKILL);
    }
    try {
      end(ticket);
      ticket.wait();
      // Of private memory a rank may have all it needs from one that has stopped.
      EXPECT_FALSE(case_.shared) << "a rank had stopped in the middle of it";
      tensor_.expect(sum_of_ranks(), "a success with a stopped rank");
    } catch (const Error& error) {
      EXPECT_THAT(error.code(), testing::AnyOf(Code::timed_out, Code::peer_left, Code::peer_lost, Code::cancelled))
          << error.what();
      EXPECT_EQ(error.code() == Code::peer_lost, dies >= 0) << error.what();
    }
    EXPECT_EQ(state_of(process_of_victim()), 'T') << "too late, or the test stops nobody";
    tensor_.expect_margins("with the error");
  }

  /// A word to the other ranks while one of them cannot come to meet().
  void say(const std::string& word) const { std::ofstream(file_of(word, test::rank())) << "yes" << std::flush; }
  bool has_said(const std::string& word, int rank) const { return std::ifstream(file_of(word, rank)).peek() == 'y'; }

  /// All ranks that live: the victim goes on when the others have come here.
  void go_on() {
    if (is_victim()) {
      return;
    }
    say("refilled");
    for (int r = 0; is_first() && r < size(); ++r) {
      const int process = processes_[static_cast<std::size_t>(r)];
      const auto is_dead = [&] { return state_of(process) == 'Z' || state_of(process) == '?'; };
      EXPECT_TRUE(eventually([&] { return r == victim_ || is_dead() || has_said("refilled", r); }, 60)) << r;
    }
    if (is_first()) {
      ::kill(process_of_victim(), SIGCONT);
    }
  }

 private:
  /// Of the others: it does what one must do.
  bool is_first() const {
    int first = 0;
    while (first == victim_ || first == dies_) {
      ++first;
    }
    return test::rank() == first;
  }

  std::string file_of(const std::string& word, int rank) const {
    return folder() + "/" + word + "." + std::to_string(rank) + "." + std::to_string(number_);
  }

  void stop_as_it_sleeps() {
    if (is_first()) {
      EXPECT_TRUE(eventually([&] { return has_said("calls", victim_); }, 60));
      wait_for_state(process_of_victim(), 'S');
      ::kill(process_of_victim(), SIGSTOP);
    }
    wait_for_state(process_of_victim(), 'T');
  }

  void fail_as_victim() {
    const std::span<float> values = tensor_.values();
    bool succeeded = true;
    const auto call = [&] {
      say("calls");
      try {
        ronde::allreduce(values, {.name = case_.name, .op = Op::sum, .timeout_s = 60, .group = group_});
      } catch (const Error& error) {
        EXPECT_THAT(error.code(), testing::AnyOf(Code::timed_out, Code::peer_left, Code::peer_lost)) << error.what();
        succeeded = false;
      }
    };
    if (case_.stops_at < 0) {
      call();
    } else {
      const StopsAt here(&values[values.size() * static_cast<std::size_t>(case_.stops_at) / 1000]);
      call();
      EXPECT_TRUE(StopsAt::has_stopped());
    }
    EXPECT_FALSE(succeeded && case_.shared) << "the others had an error, and their memory back";
    if (succeeded) {
      tensor_.expect(sum_of_ranks(), "a success after the others' error");
    }
    tensor_.expect_margins("after it went on");
  }

  static inline int count_ = 0;

  const int number_ = ++count_;  ///< of this case
  Case case_;
  int victim_;
  int dies_ = -1;
  Group group_;
  std::vector<int> processes_;
  Guarded tensor_;
};

}  // namespace ronde::test
