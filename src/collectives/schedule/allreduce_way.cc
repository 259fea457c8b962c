#include "collectives/schedule/allreduce_way.h"

#include <numeric>
#include <utility>

#include "collectives/schedule/bruck_schedule.h"
#include "collectives/schedule/chain_schedule.h"
#include "collectives/schedule/circulant_schedule.h"
#include "collectives/schedule/exchange_schedule.h"
#include "collectives/schedule/hierarchical_schedule.h"
#include "collectives/schedule/turns.h"
#include "collectives/schedule/two_phase_schedule.h"

namespace ronde::collectives::messages {

namespace {

/// How the ranks of a host and then the hosts combine values; nothing if that would not do.
std::vector<Combination> combinations_of_two(const reduce::Reduction& reduction, std::size_t ranks) {
  const bool is_small_float = reduction.dtype == DType::float8_e4m3 || reduction.dtype == DType::float8_e5m2;
  const bool is_scaled = reduction.prescale != 1.0 || reduction.postscale != 1.0;
  const bool averages = reduction.op == ReduceOp::average;
  const bool adds = averages || reduction.op == ReduceOp::sum;
  const bool is_short_of_range = reduction.dtype == DType::float16 && is_scaled && !adds;
  // An integer's average is the wide sum's, its scales are applied to that; so few bits do not bear rounding twice.
  if (is_small_float || (is_integer(reduction.dtype) && (is_scaled || averages)) || is_short_of_range ||
      reduction.op == ReduceOp::adasum) {
    return {};
  }
  Combination in_host{reduction, 0};
  Combination between{reduction, averages ? ranks : 0};
  in_host.reduction.postscale = between.reduction.prescale = 1.0;
  if (adds && reduction.dtype == DType::float16) {
    // A host's sum may be too large for the type, or too small, where the average or what is scaled is not: what each
    // host gives is its part of the result.
    in_host = {reduction, averages ? ranks : 0};
    between = {{reduction.dtype, ReduceOp::sum, 1.0, 1.0}, 0};
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

/// Each rank's value would be divided and rounded to the type before any is added: small ones would be lost. Where
/// hosts add theirs first that is so in any case.
bool rounds_parts(const reduce::Reduction& reduction) {
  const bool is_scaled = reduction.prescale != 1.0 || reduction.postscale != 1.0;
  return reduction.dtype == DType::float16 && (is_scaled || reduction.op == ReduceOp::average);
}

/// Of the hosts' partial results two are combined before the last ones are, as `two` says these are but for what is
/// done to the result at last.
std::vector<Combination> with_partial_results(std::vector<Combination> two) {
  Combination between = two.back();
  between.divisor = 0;
  between.reduction.postscale = 1.0;
  if (between.reduction.op == ReduceOp::average) {
    between.reduction.op = ReduceOp::sum;
  }
  two.push_back(between);
  return two;
}

AllreduceWay in_turns(int rank, const RankLayout& layout, const MessageLimits& limits, std::size_t bytes,
                      std::size_t rails, WayInTurns way) {
  const Combination& first = way.combinations.front();
  const bool sends_inputs = !layout.is_hierarchy() && first.reduction.prescale == 1.0 &&
                            first.reduction.postscale == 1.0 && first.divisor == 0;
  const std::size_t slice = circulant_slice(bytes, rails, way.turns.messages(), limits.chunk);
  return {circulant_allreduce_schedule(rank, layout, bytes, slice, rails, way.turns, sends_inputs),
          std::move(way.combinations), true};
}

}  // namespace

CirculantTurns large_turns(int hosts, const MessageLimits& limits, std::size_t bytes) {
  const auto count = static_cast<std::size_t>(hosts);
  return limits.ring > 0 && bytes >= limits.ring ? CirculantTurns::ring(count)
                                                 : CirculantTurns::by_radices(count, limits.large_turn);
}

WayInTurns way_in_turns(const RankLayout& layout, const MessageLimits& limits, std::size_t bytes,
                        const reduce::Reduction& reduction) {
  const auto ranks = static_cast<std::size_t>(layout.ranks());
  std::vector<Combination> two = combinations_by_hosts(layout, limits, bytes, reduction);
  bool is_direct = two.empty();
  if (is_direct && !layout.is_hierarchy() && layout.ranks() > limits.rank_order_to && !rounds_parts(reduction)) {
    is_direct = bytes / ranks > limits.direct && (limits.ring == 0 || bytes < limits.ring);
    two = combinations_of_two(reduction, ranks);
  }
  CirculantTurns turns = large_turns(is_direct ? 1 : layout.hosts(), limits, bytes);
  const bool has_use = turns.count() > 1 && !two.empty();
  return {std::move(turns), has_use ? with_partial_results(std::move(two)) : std::vector<Combination>()};
}

std::vector<Combination> combinations_by_hosts(const RankLayout& layout, const MessageLimits& limits, std::size_t bytes,
                                               const reduce::Reduction& reduction) {
  const bool are_few = layout.ranks() <= limits.rank_order_to;
  // What is small has fewer turns without hosts.
  if (!layout.is_hierarchy() || bytes <= (are_few ? limits.one_turn : 0)) {
    return {};
  }
  if (are_few && !(has_same_bits_by_hosts(reduction) && layout.is_in_order())) {
    return {};
  }
  return combinations_of_two(reduction, static_cast<std::size_t>(layout.ranks()));
}

AllreduceWay allreduce_way(int rank, const RankLayout& layout, const MessageLimits& limits, std::size_t bytes,
                           const reduce::Reduction& reduction) {
  const auto ranks = static_cast<std::size_t>(layout.ranks());
  const std::size_t rails = bytes <= limits.one_turn ? 1 : layout.fewest();
  const bool are_few = layout.ranks() <= limits.rank_order_to;
  if (layout.is_hierarchy() && layout.hosts() == 2 && layout.is_in_order() && bytes > (are_few ? limits.one_turn : 0)) {
    if (std::vector<Combination> two = combinations_of_chain(reduction, ranks); !two.empty()) {
      const std::size_t slice = chain_slice(bytes, rails, limits.chunk);
      return {chain_allreduce_schedule(rank, layout, bytes, slice, rails), std::move(two), true};
    }
  }
  const auto is_small = [&](int hosts) {
    return bytes <= limits.one_turn && bytes * static_cast<std::size_t>(hosts) <= limits.gathered;
  };
  if (std::vector<Combination> two = combinations_by_hosts(layout, limits, bytes, reduction); !two.empty()) {
    if (is_small(layout.hosts())) {
      return {bruck_allreduce_schedule(rank, layout, bytes, limits.turn), std::move(two), true};
    }
    if (WayInTurns way = way_in_turns(layout, limits, bytes, reduction); !way.combinations.empty()) {
      return in_turns(rank, layout, limits, bytes, rails, std::move(way));
    }
    const std::size_t slice = hierarchical_slice(bytes, rails, static_cast<std::size_t>(layout.hosts()), limits.chunk);
    return {hierarchical_allreduce_schedule(rank, layout, bytes, slice, rails), std::move(two), true};
  }
  if (!is_small(layout.ranks()) && !layout.is_hierarchy()) {
    if (WayInTurns way = way_in_turns(layout, limits, bytes, reduction); !way.combinations.empty()) {
      return in_turns(rank, layout, limits, bytes, 1, std::move(way));
    }
  }
  if (!is_small(layout.ranks()) && ranks > 1) {
    return {two_phase_allreduce_schedule(rank, layout.ranks(), bytes, limits.chunk), {{reduction}}};
  }
  if (ranks > 1 && best_turns(ranks, limits.turn).size() > 1) {
    const RankLayout apart = RankLayout::apart(layout.ranks());
    return {bruck_allreduce_schedule(rank, apart, bytes, limits.turn), {{reduction}}, true};
  }
  Exchange exchange;
  exchange.rank = rank;
  exchange.outgoing.assign(ranks, bytes);
  exchange.incoming.assign(ranks, bytes);
  exchange.longest = bytes;
  exchange.chunk = limits.chunk;
  exchange.one_list = exchange.tells_all = exchange.reduces = true;
  exchange.inputs.resize(ranks);
  std::iota(exchange.inputs.begin(), exchange.inputs.end(), 0);
  return {exchange_schedule(std::move(exchange)), {{reduction}}};
}

}  // namespace ronde::collectives::messages
