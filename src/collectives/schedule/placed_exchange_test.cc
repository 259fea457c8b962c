// Exchanges that send what lies where it is, and whose messages are written to where they belong as they come.
#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "collectives/schedule/exchange_schedule.h"
#include "collectives/schedule/kept_inputs.h"
#include "collectives/schedule/schedule_run.h"
#include "transport/loopback/links.h"

namespace ronde::collectives {
namespace {

constexpr std::uint32_t kExchanges = 7;
constexpr std::size_t kExchangeChunk = std::size_t{32} << 10;

/// An all-to-all: rank r's part for rank s begins with r and s, and is as long as these say.
class PlacedExchange : public testing::TestWithParam<std::tuple<int, bool, bool>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  bool is_in_place() const { return std::get<1>(GetParam()); }
  bool is_cut() const { return std::get<2>(GetParam()); }

  /// Of unequal lengths unless that cannot be, in place.
  std::size_t bytes(int from, int to) const {
    return is_in_place() ? 3 * kExchangeChunk + 40 : static_cast<std::size_t>(from * 7 + to * 3) * 9001 + 20000;
  }
  static std::byte value(int from, int to, std::size_t at) {
    return static_cast<std::byte>(static_cast<std::size_t>(from * 31 + to * 17) + at % 251);
  }
  std::size_t total(int rank, bool incoming) const {
    std::size_t all = 0;
    for (int peer = 0; peer < ranks(); ++peer) {
      all += incoming ? bytes(peer, rank) : bytes(rank, peer);
    }
    return all;
  }
  void append(GatherList& list, std::byte* from, std::byte* to, std::size_t bytes) const {
    const std::size_t cut = is_cut() ? bytes / 3 : 0;  // tensors end within a part
    list.append(from, to, cut);
    list.append(from + cut, to + cut, bytes - cut);
  }
  void make(int rank) {
    const auto index = static_cast<std::size_t>(rank);
    const auto count = static_cast<std::size_t>(ranks());
    mailboxes_.push_back(std::make_unique<transport::Mailbox>(&net_->transport(rank), rank, ranks()));
    inputs_[index].resize(total(rank, false));
    outputs_[index].assign(is_in_place() ? 0 : total(rank, true), std::byte{0xee});
    std::byte* const written = is_in_place() ? inputs_[index].data() : outputs_[index].data();
    Exchange exchange;
    exchange.rank = rank;
    exchange.chunk = kExchangeChunk;
    std::vector<GatherList> lists(2 * count);
    std::size_t read_at = 0;
    std::size_t written_at = 0;
    for (int peer = 0; peer < ranks(); ++peer) {
      const std::size_t out = bytes(rank, peer);
      const std::size_t in = bytes(peer, rank);
      for (std::size_t i = 0; i < out; ++i) {
        inputs_[index][read_at + i] = value(rank, peer, i);
      }
      append(lists[static_cast<std::size_t>(peer)], inputs_[index].data() + read_at, written + written_at, out);
      append(lists[count + static_cast<std::size_t>(peer)], written + written_at, written + written_at, in);
      exchange.outgoing.push_back(out);
      exchange.incoming.push_back(in);
      exchange.longest = std::max({exchange.longest, bytes(ranks() - 1, ranks() - 1), out});
      read_at += out;
      written_at += in;
    }
    exchange.keeps = keeps_inputs(exchange, lists);
    EXPECT_EQ(exchange.keeps, !is_in_place());
    runs_.push_back(std::make_unique<ScheduleRun>(*mailboxes_[index], exchange_schedule(exchange), std::move(lists),
                                                  std::vector<Combination>{{}}));
  }
  void make_all() {
    net_ = std::make_unique<transport::LoopbackNet>(ranks(), 3);
    inputs_.resize(static_cast<std::size_t>(ranks()));
    outputs_.resize(inputs_.size());
    for (int rank = 0; rank < ranks(); ++rank) {
      make(rank);
    }
  }
  void expect_parts(int rank) const {
    const std::vector<std::byte>& of = (is_in_place() ? inputs_ : outputs_)[static_cast<std::size_t>(rank)];
    std::size_t at = 0;
    for (int peer = 0; peer < ranks(); ++peer) {
      for (std::size_t i = 0; i < bytes(peer, rank); ++i, ++at) {
        ASSERT_EQ(of[at], value(peer, rank, i)) << "from " << peer << " at " << i;
      }
    }
  }

  std::unique_ptr<transport::LoopbackNet> net_;
  std::vector<std::unique_ptr<transport::Mailbox>> mailboxes_;
  std::vector<std::vector<std::byte>> inputs_;
  std::vector<std::vector<std::byte>> outputs_;
  std::vector<std::unique_ptr<ScheduleRun>> runs_;
};

INSTANTIATE_TEST_SUITE_P(PlacedExchange, PlacedExchange,
                         testing::Combine(testing::Values(2, 3, 5), testing::Bool(), testing::Bool()));

TEST_P(PlacedExchange, BringsEachPartInWhateverOrderRanksStep) {
  for (const unsigned seed : {1u, 2u, 3u, 4u}) {
    std::mt19937_64 random(seed);
    runs_.clear();
    mailboxes_.clear();
    make_all();
    std::vector<bool> is_begun(runs_.size());
    std::vector<bool> is_done(runs_.size());
    std::size_t done = 0;
    for (int steps = 0; done < runs_.size(); ++steps) {
      ASSERT_LT(steps, 200000);
      const std::size_t rank = random() % runs_.size();
      if (!is_begun[rank]) {
        runs_[rank]->begin(kExchanges, 1);
        is_begun[rank] = true;
      } else if (random() % 3 == 0) {
        mailboxes_[rank]->receive();  // for another of its runs
      } else if (!is_done[rank] && runs_[rank]->advance() == Progress::done) {
        is_done[rank] = true;
        ++done;
        ASSERT_NO_FATAL_FAILURE(expect_parts(static_cast<int>(rank))) << rank;
        std::fill(inputs_[rank].begin(), inputs_[rank].end(), std::byte{0x55});  // it is the program's again
      }
    }
    for (int rank = 0; rank < ranks() && !is_in_place(); ++rank) {
      ASSERT_NO_FATAL_FAILURE(expect_parts(rank)) << rank << ", after all are done";
    }
  }
}

class PlacedExchangeOfTwo : public PlacedExchange {};
INSTANTIATE_TEST_SUITE_P(PlacedExchange, PlacedExchangeOfTwo, testing::Values(std::tuple(2, false, false)));

/// Rank 1 has sent what rank 0 waits for.
TEST_P(PlacedExchangeOfTwo, IsWrittenToTheOutputBeforeTheRunLooksAndNotOnceItWasGivenUp) {
  for (const bool is_given_up : {false, true}) {
    runs_.clear();
    mailboxes_.clear();
    make_all();
    for (auto& run : runs_) {
      run->begin(kExchanges, 1);
    }
    while (runs_[1]->advance() == Progress::again) {
    }
    std::byte& last = outputs_[0][bytes(0, 0) + std::min(bytes(1, 0), kExchangeChunk) - 1];
    EXPECT_EQ(last, std::byte{0xee});
    if (is_given_up) {
      runs_[0]->give_up();
    }
    mailboxes_[0]->receive();
    EXPECT_EQ(last, is_given_up ? std::byte{0xee} : value(1, 0, std::min(bytes(1, 0), kExchangeChunk) - 1));
    EXPECT_TRUE(mailboxes_[0]->status());
  }
}

}  // namespace
}  // namespace ronde::collectives
