#include "collectives/schedule/select.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <numeric>
#include <utility>

#include "collectives/adasum.h"
#include "collectives/parts.h"
#include "collectives/schedule/allreduce_way.h"
#include "collectives/schedule/barrier_schedule.h"
#include "collectives/schedule/bruck_gather_schedule.h"
#include "collectives/schedule/carried_parts.h"
#include "collectives/schedule/circulant_gather_schedule.h"
#include "collectives/schedule/circulant_reduce_scatter_schedule.h"
#include "collectives/schedule/exchange_schedule.h"
#include "collectives/schedule/hierarchical_schedule.h"
#include "collectives/schedule/host_broadcast_schedule.h"
#include "collectives/schedule/host_gather_schedule.h"
#include "collectives/schedule/host_reduce_scatter_schedule.h"
#include "collectives/schedule/kept_inputs.h"
#include "collectives/schedule/schedule_run.h"
#include "collectives/schedule/tree_broadcast_schedule.h"
#include "collectives/schedule/turns.h"
#include "collectives/schedule/two_phase_schedule.h"
#include "collectives/single_rank.h"

namespace ronde::collectives::messages {

namespace {

reduce::Reduction reduction_of(const Plan& plan) { return {plan.dtype, plan.reduce_op, plan.prescale, plan.postscale}; }

std::unique_ptr<Operation> run(MessageChannel& channel, const Plan& plan, std::unique_ptr<Schedule> schedule,
                               std::vector<GatherList> lists) {
  return scheduled_operation(channel.mailbox(), std::move(schedule), std::move(lists), {{reduction_of(plan)}},
                             MessageChannel::kPlans, channel.next_instance());
}

std::unique_ptr<Operation> run(MessageChannel& channel, const Plan& plan, Exchange exchange,
                               std::vector<GatherList> lists) {
  exchange.keeps = keeps_inputs(exchange, lists);
  return run(channel, plan, exchange_schedule(std::move(exchange)), std::move(lists));
}

Exchange exchange_of(const MessageChannel& channel) {
  const auto ranks = static_cast<std::size_t>(channel.size());
  Exchange exchange;
  exchange.rank = channel.rank();
  exchange.outgoing.resize(ranks);
  exchange.incoming.resize(ranks);
  exchange.chunk = channel.limits().chunk;
  return exchange;
}

/// The ranks from 0 on.
std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// The outputs as what is read and what is written.
GatherList outputs_of(const Plan& plan) {
  GatherList list;
  for (const PlanMember& member : plan.members) {
    list.append(member.output.data, member.output.data, member.input.bytes());
  }
  return list;
}

/// Every rank has the whole tensor for those that `sends_to` names, and reduces what comes from those of `inputs`.
template <typename SendsTo>
std::unique_ptr<Operation> reduce_whole(MessageChannel& channel, const Plan& plan, std::vector<int> inputs,
                                        const SendsTo& sends_to) {
  Exchange exchange = exchange_of(channel);
  exchange.longest = plan.bytes();
  exchange.one_list = exchange.reduces = true;
  for (int peer = 0; peer < channel.size(); ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    exchange.outgoing[index] = peer == channel.rank() || sends_to(peer) ? exchange.longest : 0;
    exchange.incoming[index] = std::find(inputs.begin(), inputs.end(), peer) != inputs.end() ? exchange.longest : 0;
  }
  exchange.inputs = std::move(inputs);
  return run(channel, plan, std::move(exchange), {GatherList(plan)});
}

std::unique_ptr<Operation> allreduce(MessageChannel& channel, const Plan& plan) {
  if (plan.bytes() == 0) {
    return allreduce_of_single_rank(plan);
  }
  if (plan.reduce_op == ReduceOp::adasum) {
    return adasum_allreduce(
        channel.rank(), channel.size(), [&channel](const Plan& part) { return start(channel, part); }, plan);
  }
  AllreduceWay way =
      allreduce_way(channel.rank(), channel.layout(), channel.limits(), plan.bytes(), reduction_of(plan));
  return scheduled_operation(channel.mailbox(), std::move(way.schedule), {GatherList(plan), outputs_of(plan)},
                             way.combinations, MessageChannel::kPlans, channel.next_instance());
}

std::unique_ptr<Operation> scan(MessageChannel& channel, const Plan& plan) {
  return reduce_whole(channel, plan, first_ranks(channel.rank() + 1), [&](int peer) { return peer > channel.rank(); });
}

std::unique_ptr<Operation> exscan(MessageChannel& channel, const Plan& plan) {
  return reduce_whole(channel, plan, first_ranks(channel.rank()), [&](int peer) { return peer > channel.rank(); });
}

std::unique_ptr<Operation> broadcast(MessageChannel& channel, const Plan& plan) {
  const bool is_root = channel.rank() == plan.root;
  const RankLayout& layout = channel.layout();
  if (plan.bytes() > channel.limits().one_turn && layout.is_hierarchy()) {
    const std::size_t slice = hierarchical_slice(plan.bytes(), layout.fewest(),
                                                 static_cast<std::size_t>(layout.hosts()), channel.limits().chunk);
    return run(channel, plan, host_broadcast_schedule(channel.rank(), layout, plan.root, plan.bytes(), slice),
               {GatherList(plan), outputs_of(plan)});
  }
  if (plan.bytes() > channel.limits().one_turn && channel.size() > 2) {
    return run(
        channel, plan,
        two_phase_broadcast_schedule(channel.rank(), channel.size(), plan.root, plan.bytes(), channel.limits().chunk),
        {GatherList(plan), outputs_of(plan)});
  }
  if (plan.bytes() > 0 && best_turns(static_cast<std::size_t>(channel.size()), channel.limits().turn).size() > 1) {
    return run(
        channel, plan,
        tree_broadcast_schedule(channel.rank(), channel.size(), plan.root, plan.bytes(), channel.limits().turn),
        {GatherList(plan), outputs_of(plan)});
  }
  Exchange exchange = exchange_of(channel);
  exchange.one_list = true;
  exchange.longest = plan.bytes();
  if (is_root) {
    exchange.outgoing.assign(exchange.outgoing.size(), exchange.longest);
  } else {
    exchange.incoming[static_cast<std::size_t>(plan.root)] = exchange.longest;
  }
  return run(channel, plan, std::move(exchange), {GatherList(plan)});
}

/// Each rank has a part for each, which is put down or reduced.
std::unique_ptr<Operation> exchange_parts(MessageChannel& channel, const Plan& plan) {
  const auto ranks = static_cast<std::size_t>(channel.size());
  const auto own = static_cast<std::size_t>(channel.rank());
  const Parts parts(plan, channel.size());
  Exchange exchange = exchange_of(channel);
  exchange.longest = parts.longest();
  exchange.reduces = reduces(plan.kind);
  if (exchange.reduces) {
    exchange.inputs = first_ranks(channel.size());
  }
  std::vector<GatherList> lists;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    lists.push_back(parts.outgoing(own, peer));
    exchange.outgoing[peer] = lists.back().bytes();
  }
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    lists.push_back(parts.incoming(own, peer));
    exchange.incoming[peer] = lists.back().bytes();
  }
  return run(channel, plan, std::move(exchange), std::move(lists));
}

bool has_equal_hosts(const RankLayout& layout) { return layout.fewest() == layout.most(); }

std::unique_ptr<Operation> allgather(MessageChannel& channel, const Plan& plan) {
  const auto ranks = static_cast<std::size_t>(channel.size());
  const auto own = static_cast<std::size_t>(channel.rank());
  const RankLayout& layout = channel.layout();
  const Parts parts(plan, channel.size());
  HostParts all{channel.rank(), layout, {}, carried_slice(layout, channel.limits().chunk)};
  std::vector<GatherList> written;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    written.push_back(peer == own ? parts.outgoing(own, own) : parts.incoming(own, peer));
    all.bytes.push_back(written.back().bytes());
  }
  // What is small has few turns without hosts.
  const std::size_t total = std::accumulate(all.bytes.begin(), all.bytes.end(), std::size_t{0});
  if (total > 0 && total <= channel.limits().one_turn && best_turns(ranks, channel.limits().turn).size() > 1) {
    return run(channel, plan, bruck_allgather_schedule(channel.rank(), std::move(all.bytes), channel.limits().turn),
               std::move(written));
  }
  if (total > channel.limits().one_turn && has_equal_hosts(layout)) {
    if (CirculantTurns turns = large_turns(layout.hosts(), channel.limits(), total); turns.count() > 1) {
      std::vector<GatherList> lists = host_gather_lists(all, written);
      return run(channel, plan, circulant_gather_schedule(std::move(all), std::move(turns)), std::move(lists));
    }
  }
  if (!layout.is_hierarchy() || total <= channel.limits().one_turn) {
    return exchange_parts(channel, plan);
  }
  std::vector<GatherList> lists = host_gather_lists(all, written);
  return run(channel, plan, host_gather_schedule(std::move(all)), std::move(lists));
}

/// A reduce is a reduce-scatter in which the root alone has a part.
std::unique_ptr<Operation> reduce_parts(MessageChannel& channel, const Plan& plan) {
  const auto ranks = static_cast<std::size_t>(channel.size());
  const auto own = static_cast<std::size_t>(channel.rank());
  const RankLayout& layout = channel.layout();
  const std::vector<Combination> two =
      combinations_by_hosts(layout, channel.limits(), plan.bytes(), reduction_of(plan));
  const Parts parts(plan, channel.size());
  const std::size_t most = channel.limits().chunk;
  HostParts all{channel.rank(), layout, {}, plan.kind == OpKind::reduce ? most : carried_slice(layout, most)};
  std::vector<GatherList> inputs;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    inputs.push_back(parts.outgoing(own, peer));
    all.bytes.push_back(inputs.back().bytes());
  }
  if (plan.bytes() > channel.limits().one_turn && has_equal_hosts(layout)) {
    if (WayInTurns way = way_in_turns(layout, channel.limits(), plan.bytes(), reduction_of(plan));
        !way.combinations.empty()) {
      std::vector<GatherList> lists = host_reduce_scatter_lists(all, parts.incoming(own, own), inputs);
      return scheduled_operation(channel.mailbox(),
                                 circulant_reduce_scatter_schedule(std::move(all), std::move(way.turns)),
                                 std::move(lists), way.combinations, MessageChannel::kPlans, channel.next_instance());
    }
  }
  if (two.empty() || plan.bytes() == 0) {
    return exchange_parts(channel, plan);
  }
  std::vector<GatherList> lists = host_reduce_scatter_lists(all, parts.incoming(own, own), inputs);
  return scheduled_operation(channel.mailbox(), host_reduce_scatter_schedule(std::move(all)), std::move(lists), two,
                             MessageChannel::kPlans, channel.next_instance());
}

std::unique_ptr<Operation> barrier(MessageChannel& channel, const Plan& plan) {
  return run(channel, plan, barrier_schedule(channel.rank(), channel.size()), {GatherList()});
}

struct Algorithm {
  OpKind kind;
  std::unique_ptr<Operation> (*start)(MessageChannel&, const Plan&);
  std::unique_ptr<Operation> (*alone)(const Plan&);  ///< in a world of one rank; null: as in any
};

constexpr Algorithm kAlgorithms[] = {
    {OpKind::allreduce, allreduce, allreduce_of_single_rank},
    {OpKind::broadcast, broadcast, copy_of_single_rank},
    {OpKind::allgather, allgather, copy_of_single_rank},
    {OpKind::alltoall, exchange_parts, copy_of_single_rank},
    {OpKind::gather, exchange_parts, copy_of_single_rank},
    {OpKind::scatter, exchange_parts, copy_of_single_rank},
    {OpKind::reduce, reduce_parts, allreduce_of_single_rank},
    {OpKind::reducescatter, reduce_parts, allreduce_of_single_rank},
    {OpKind::barrier, barrier, nullptr},
    {OpKind::scan, scan, allreduce_of_single_rank},
    {OpKind::exscan, exscan, exscan_of_single_rank},
};

const Algorithm* find(OpKind kind) {
  const auto* const found = std::find_if(std::begin(kAlgorithms), std::end(kAlgorithms),
                                         [kind](const Algorithm& algorithm) { return algorithm.kind == kind; });
  return found == std::end(kAlgorithms) ? nullptr : found;
}

}  // namespace

bool has_schedule(OpKind kind) { return find(kind) != nullptr; }

std::unique_ptr<Operation> start(MessageChannel& channel, const Plan& plan) {
  assert(has_schedule(plan.kind));
  const Algorithm& algorithm = *find(plan.kind);
  return channel.size() == 1 && algorithm.alone != nullptr ? algorithm.alone(plan) : algorithm.start(channel, plan);
}

}  // namespace ronde::collectives::messages
