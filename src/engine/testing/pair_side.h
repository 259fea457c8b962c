// PairSide: what one half of sends and recvs needs, with the test at the other end of the wire: rank 0 is this side,
// and the test reads what rank 1 gets and says what rank 1 says.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/p2p/pair_context.h"
#include "transport/loopback/testing/host.h"

namespace ronde::engine {

class PairSide : public testing::Test {
 protected:
  PairSide() {
    for (const transport::LoopbackRank& rank : ranks_) {
      controls_.push_back(std::make_unique<control::Control>(rank.transport.get(), rank.peers->self(), 2));
    }
    context_.emplace(PairContext{
        group_, *controls_[0], *ranks_[0].peers,
        [this](const TicketPtr& ticket, Status status) { ends_.emplace_back(ticket->name(), std::move(status)); }});
  }

  /// What has come to rank 1 since, of this kind and no other.
  template <typename M>
  std::vector<M> told() {
    std::vector<M> all;
    int from = 0;
    control::Envelope envelope;
    controls_[0]->flush();
    while (controls_[1]->receive(from, envelope).value()) {
      EXPECT_TRUE(std::holds_alternative<M>(envelope.message)) << envelope.message.index();
      if (M* message = std::get_if<M>(&envelope.message)) {
        all.push_back(std::move(*message));
      }
      controls_[0]->flush();
    }
    return all;
  }

  /// A ticket of this side for `values`, sent to rank 1 or received from `peer`.
  static TicketPtr ticket(OpKind kind, const std::string& name, std::vector<char>& values, int peer = 1) {
    Request request;
    request.name = name;
    request.kind = kind;
    request.root = peer;
    request.timeout = kSecond;
    Tensor tensor;
    tensor.data = values.data();
    tensor.dtype = DType::int8;
    tensor.shape = {static_cast<std::int64_t>(values.size())};
    request.tensors.push_back({tensor, tensor});
    return std::make_shared<Ticket>(std::move(request));
  }

  /// How the tickets that have ended did so, and nothing of it afterwards.
  std::vector<std::pair<std::string, Status>> take_ends() { return std::exchange(ends_, {}); }
  /// The only one that has ended since.
  Status end_of(const std::string& name) {
    const std::vector<std::pair<std::string, Status>> ends = take_ends();
    EXPECT_EQ(ends.size(), 1u);
    EXPECT_TRUE(!ends.empty() && ends.front().first == name);
    return ends.empty() ? Status::error(Code::internal, "nothing has ended") : ends.front().second;
  }

  Group group_{0, {0, 1}};
  std::vector<transport::LoopbackRank> ranks_ = transport::loopback_host(2);
  std::vector<std::unique_ptr<control::Control>> controls_;
  std::optional<PairContext> context_;
  std::vector<std::pair<std::string, Status>> ends_;
};

}  // namespace ronde::engine
