#include "cli/measuring/timing/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <sstream>

namespace ronde::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// One rank, for which a reduction is a copy. Notes what it is told to do.
class Copier final : public Contestant {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string failure() const override { return "the copier fails"; }

  bool open(const BenchOptions&, const std::string& label, const std::vector<TensorPlace>& tensors) override {
    note("open", label);
    tensors_ = tensors;
    return fails_at != "open";
  }
  void close() override {
    note("close", "");
    Contestant::close();
  }
  bool run(std::size_t i) override {
    note("run", i);
    copy(i);
    return fails_at != "run";
  }
  bool submit(std::size_t i) override {
    note("submit", i);
    return true;
  }
  bool wait_all() override {
    note("wait", "");
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      copy(i);
    }
    return true;
  }
  const void* result(std::size_t i) const override { return tensors_[i].output; }

  std::string fails_at;
  std::uint64_t wrong_byte = UINT64_MAX;  ///< of the last tensor's result
  std::vector<std::string> notes;

 private:
  template <typename Value>
  void note(const char* what, const Value& value) {
    std::ostringstream text;
    text << what << ' ' << value;
    notes.push_back(text.str());
  }
  void copy(std::size_t i) {
    if (tensors_[i].output != tensors_[i].input) {
      std::memcpy(tensors_[i].output, tensors_[i].input, tensors_[i].bytes);
    }
    if (i + 1 == tensors_.size() && wrong_byte < tensors_[i].bytes) {
      static_cast<char*>(tensors_[i].output)[wrong_byte] ^= 1;
    }
  }

  std::vector<TensorPlace> tensors_;
};

struct Outcome {
  std::string failure;
  std::vector<Measurement> measurements;
};

Outcome measured(const BenchOptions& options, Copier& copier) {
  Outcome outcome;
  StartLineEntry entry{};
  SweepEvents events;
  events.begin = [](int) {};
  events.measured = [&](int, const Measurement& measurement) { outcome.measurements.push_back(measurement); };
  outcome.failure = measure(options, copier, StartLine(&entry, 0, 1, true), events);
  return outcome;
}

TEST(Measure, ASweepOpensEachSizeUnderALabelOfItsOwn) {
  Copier copier;
  const Outcome outcome = measured({.bytes = {8, 1024}, .iterations = 3}, copier);
  EXPECT_EQ(outcome.failure, "");
  ASSERT_EQ(outcome.measurements.size(), 2u);
  EXPECT_EQ(outcome.measurements[1].bytes, 1024u);
  EXPECT_EQ(outcome.measurements[1].calls, 3u);
  // Two calls warm up.
  EXPECT_THAT(copier.notes, ElementsAre("open 0", "run 0", "run 0", "run 0", "run 0", "run 0", "close ", "open 1",
                                        "run 0", "run 0", "run 0", "run 0", "run 0", "close "));
}

TEST(Measure, ModesOfASet) {
  const auto notes_of = [](SetMode mode) {
    Copier copier;
    const Outcome outcome = measured({.set = "3x64", .mode = mode, .iterations = 1}, copier);
    EXPECT_EQ(outcome.failure, "");
    EXPECT_EQ(outcome.measurements.at(0).tensors, 3u);
    EXPECT_EQ(outcome.measurements.at(0).bytes, 192u);
    // The last call: without the opening and the two that warm up.
    const std::size_t calls = copier.notes.size() - 2;
    return std::vector<std::string>(copier.notes.begin() + 1 + static_cast<std::ptrdiff_t>(calls * 2 / 3),
                                    copier.notes.end() - 1);
  };
  EXPECT_THAT(notes_of(SetMode::async), ElementsAre("submit 0", "submit 1", "submit 2", "wait "));
  EXPECT_THAT(notes_of(SetMode::blocking), ElementsAre("run 0", "run 1", "run 2"));
  EXPECT_THAT(notes_of(SetMode::flat), ElementsAre("run 0"));
  EXPECT_THAT(notes_of(SetMode::packed), ElementsAre("run 0"));
}

TEST(Measure, AWrongResultIsFoundInEveryMode) {
  for (SetMode mode : {SetMode::async, SetMode::blocking, SetMode::flat, SetMode::packed}) {
    for (bool in_place : {false, true}) {
      Copier copier;
      copier.wrong_byte = 63;  // of the last tensor, or within the flat buffer
      const Outcome outcome = measured({.set = "3x64", .mode = mode, .iterations = 1, .in_place = in_place}, copier);
      EXPECT_THAT(outcome.failure, HasSubstr("wrong result of call")) << set_mode_name(mode);
      EXPECT_TRUE(outcome.measurements.empty());
    }
  }
}

TEST(Measure, AFailureIsTheContestantsSentenceAndCloses) {
  for (const char* where : {"open", "run"}) {
    Copier copier;
    copier.fails_at = where;
    EXPECT_EQ(measured({.bytes = {8}, .iterations = 3}, copier).failure, "the copier fails");
    EXPECT_EQ(copier.notes.back(), "close ");
  }
}

TEST(Measure, OverlapComputesAndSaysHowLong) {
  Copier copier;
  const Outcome outcome = measured({.set = "3x64", .overlap_us = 50, .iterations = 5}, copier);
  EXPECT_EQ(outcome.failure, "");
  const Measurement& measurement = outcome.measurements.at(0);
  EXPECT_GT(measurement.compute_us, 0);
  EXPECT_GT(measurement.summary.min_us, 0);
}

TEST(Measure, SecondsEndAMeasurementEarly) {
  Copier copier;
  const Outcome outcome = measured({.bytes = {8}, .iterations = 1u << 30, .seconds = 1e-9}, copier);
  EXPECT_EQ(outcome.failure, "");
  EXPECT_EQ(outcome.measurements.at(0).calls, 1u) << "the first after the limit is the last";
  EXPECT_EQ(copier.notes.size(), 5u) << "two calls to warm up, that one, open and close";
}

}  // namespace
}  // namespace ronde::cli
