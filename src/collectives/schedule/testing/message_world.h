// For tests: ranks whose bytes travel as messages, over loopback links.
#pragma once

#include <memory>
#include <vector>

#include "collectives/schedule/select.h"
#include "collectives/testing/job_world.h"
#include "transport/loopback/links.h"

namespace ronde::collectives {

/// Few elements meet every regime: one message and several, one turn and two phases.
inline constexpr messages::MessageLimits kTinyMessages = {.one_turn = 1024, .chunk = 256, .rank_order_to = 0};

class MessageWorld final : public JobWorld {
 public:
  /// `room`: messages that a link takes.
  MessageWorld(int size, std::size_t room, const messages::MessageLimits& limits = kTinyMessages)
      : MessageWorld(RankLayout::apart(size), room, limits) {}
  MessageWorld(const RankLayout& layout, std::size_t room, const messages::MessageLimits& limits = kTinyMessages)
      : net_(layout.ranks(), room) {
    const int size = layout.ranks();
    for (int rank = 0; rank < size; ++rank) {
      mailboxes_.push_back(std::make_unique<transport::Mailbox>(&net_.transport(rank), rank, size));
      channels_.push_back(std::make_unique<messages::MessageChannel>(*mailboxes_.back(), layout, limits));
    }
  }

  transport::LoopbackNet& net() { return net_; }
  transport::Mailbox& mailbox(std::size_t rank) { return *mailboxes_[rank]; }
  std::size_t size() const override { return channels_.size(); }
  std::unique_ptr<Operation> begin(std::size_t rank, const Plan& plan) override {
    return messages::start(*channels_[rank], plan);
  }
  bool finish(std::size_t rank, Operation& operation) override {
    while (true) {
      const std::uint64_t seen = net_.news(static_cast<int>(rank));
      const Progress progress = operation.advance();
      if (progress == Progress::done) {
        return true;
      }
      if (progress == Progress::idle && !net_.wait_for_news(static_cast<int>(rank), seen, 30 * kSecond)) {
        return false;
      }
    }
  }
  bool move_on(std::mt19937_64& random) override {
    if (held_.empty()) {
      return false;
    }
    const std::size_t which = random() % held_.size();
    net_.release(held_[which].first, held_[which].second);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
    return true;
  }
  /// What these send each other comes only when nothing else can happen, and then link by link.
  void hold_some(std::mt19937_64& random) {
    for (int from = 0; from < net_.size(); ++from) {
      for (int to = 0; to < net_.size(); ++to) {
        if (from != to && random() % 3 == 0) {
          net_.hold(from, to);
          held_.emplace_back(from, to);
        }
      }
    }
  }

 private:
  transport::LoopbackNet net_;
  std::vector<std::pair<int, int>> held_;
  std::vector<std::unique_ptr<transport::Mailbox>> mailboxes_;
  std::vector<std::unique_ptr<messages::MessageChannel>> channels_;
};

}  // namespace ronde::collectives
