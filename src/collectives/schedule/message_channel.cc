#include "collectives/schedule/message_channel.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <numeric>
#include <utility>

#include "collectives/adasum.h"
#include "collectives/parts.h"
#include "collectives/schedule/barrier_schedule.h"
#include "collectives/schedule/chain_schedule.h"
#include "collectives/schedule/exchange_schedule.h"
#include "collectives/schedule/hierarchical_schedule.h"
#include "collectives/schedule/schedule_run.h"
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
  return run(channel, plan, exchange_schedule(std::move(exchange)), {GatherList(plan)});
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
  if (plan.bytes() > channel.limits().one_turn && channel.size() > 2) {
    return run(
        channel, plan,
        two_phase_broadcast_schedule(channel.rank(), channel.size(), plan.root, plan.bytes(), channel.limits().chunk),
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
  return run(channel, plan, exchange_schedule(std::move(exchange)), {GatherList(plan)});
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
  return run(channel, plan, exchange_schedule(std::move(exchange)), std::move(lists));
}

std::unique_ptr<Operation> barrier(MessageChannel& channel, const Plan& plan) {
  return run(channel, plan, barrier_schedule(channel.rank(), channel.size()), {GatherList()});
}

/// How the ranks of a host and then the hosts combine values; nothing if that would not do.
std::vector<Combination> combinations_of_two(const reduce::Reduction& reduction, std::size_t ranks) {
  const bool is_small_float = reduction.dtype == DType::float8_e4m3 || reduction.dtype == DType::float8_e5m2;
  const bool is_scaled = reduction.prescale != 1.0 || reduction.postscale != 1.0;
  const bool averages = reduction.op == ReduceOp::average;
  // An integer's average is the wide sum's, its scales are applied to that; so few bits do not bear rounding twice.
  if (is_small_float || (is_integer(reduction.dtype) && (is_scaled || averages)) || reduction.op == ReduceOp::adasum) {
    return {};
  }
  Combination in_host{reduction, 0};
  Combination between{reduction, averages ? ranks : 0};
  in_host.reduction.postscale = between.reduction.prescale = 1.0;
  if (averages && reduction.dtype == DType::float16) {
    // A host's sum may be too large for the type where the average is not.
    in_host.divisor = ranks;
    between = {{reduction.dtype, ReduceOp::sum, 1.0, reduction.postscale}, 0};
  } else if (averages) {
    in_host.reduction.op = ReduceOp::sum;
  }
  return {in_host, between};
}

/// Floating sums and products are rounded at each step.
bool rounds(const reduce::Reduction& reduction) {
  const bool adds = reduction.op == ReduceOp::sum || reduction.op == ReduceOp::average;
  return (adds || reduction.op == ReduceOp::product) && !is_integer(reduction.dtype) &&
         reduction.dtype != DType::boolean;
}

/// Between hosts whose ranks are in order, what combinations_of_two() gives has the bits of all ranks in one go.
bool has_same_bits_by_hosts(const reduce::Reduction& reduction) {
  const bool is_narrow = reduction.dtype == DType::float16 || reduction.dtype == DType::bfloat16;
  const bool is_scaled = reduction.prescale != 1.0 || reduction.postscale != 1.0;
  return !rounds(reduction) && !(is_narrow && is_scaled);
}

/// How the first host's ranks and then the second's combine values, with the bits of all in one go; nothing if they
/// would be others: 16-bit floats would be rounded once more at the border.
std::vector<Combination> combinations_of_chain(const reduce::Reduction& reduction, std::size_t ranks) {
  const bool is_its_own_accumulator =
      reduction.dtype == DType::float32 || reduction.dtype == DType::float64 || is_complex(reduction.dtype);
  if (!is_its_own_accumulator || !rounds(reduction)) {
    return {};
  }
  Combination first{reduction};
  Combination then{reduction, 0, reduce::First::partial};
  first.reduction.postscale = 1.0;
  if (reduction.op == ReduceOp::average) {
    first.reduction.op = ReduceOp::sum;
    then.divisor = ranks;
  }
  return {first, then};
}

struct Algorithm {
  OpKind kind;
  std::unique_ptr<Operation> (*start)(MessageChannel&, const Plan&);
  std::unique_ptr<Operation> (*alone)(const Plan&);  ///< in a world of one rank; null: as in any
};

constexpr Algorithm kAlgorithms[] = {
    {OpKind::allreduce, allreduce, allreduce_of_single_rank},
    {OpKind::broadcast, broadcast, copy_of_single_rank},
    {OpKind::allgather, exchange_parts, copy_of_single_rank},
    {OpKind::alltoall, exchange_parts, copy_of_single_rank},
    {OpKind::gather, exchange_parts, copy_of_single_rank},
    {OpKind::scatter, exchange_parts, copy_of_single_rank},
    {OpKind::reduce, exchange_parts, allreduce_of_single_rank},
    {OpKind::reducescatter, exchange_parts, allreduce_of_single_rank},
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

AllreduceWay allreduce_way(int rank, const RankLayout& layout, const MessageLimits& limits, std::size_t bytes,
                           const reduce::Reduction& reduction) {
  const auto ranks = static_cast<std::size_t>(layout.ranks());
  const bool are_few = layout.ranks() <= limits.rank_order_to;
  // What is small has fewer turns without hosts.
  if (layout.is_hierarchy() && bytes > (are_few ? limits.one_turn : 0)) {
    const std::size_t rails = bytes <= limits.one_turn ? 1 : layout.fewest();
    std::vector<Combination> two = layout.hosts() == 2 && layout.is_in_order() ? combinations_of_chain(reduction, ranks)
                                                                               : std::vector<Combination>();
    if (!two.empty()) {
      const std::size_t slice = chain_slice(bytes, rails, limits.chunk);
      return {chain_allreduce_schedule(rank, layout, bytes, slice, rails), std::move(two), true};
    }
    two = combinations_of_two(reduction, ranks);
    if (!two.empty() && (!are_few || (has_same_bits_by_hosts(reduction) && layout.is_in_order()))) {
      return {hierarchical_allreduce_schedule(rank, layout, bytes, limits.chunk, rails), std::move(two), true};
    }
  }
  if (bytes > limits.one_turn && ranks > 1) {
    return {two_phase_allreduce_schedule(rank, layout.ranks(), bytes, limits.chunk), {{reduction}}};
  }
  Exchange exchange;
  exchange.rank = rank;
  exchange.outgoing.assign(ranks, bytes);
  exchange.incoming.assign(ranks, bytes);
  exchange.longest = bytes;
  exchange.chunk = limits.chunk;
  exchange.one_list = exchange.tells_all = exchange.reduces = true;
  exchange.inputs = first_ranks(layout.ranks());
  return {exchange_schedule(std::move(exchange)), {{reduction}}};
}

bool has_schedule(OpKind kind) { return find(kind) != nullptr; }

std::unique_ptr<Operation> start(MessageChannel& channel, const Plan& plan) {
  assert(has_schedule(plan.kind));
  const Algorithm& algorithm = *find(plan.kind);
  return channel.size() == 1 && algorithm.alone != nullptr ? algorithm.alone(plan) : algorithm.start(channel, plan);
}

}  // namespace ronde::collectives::messages
