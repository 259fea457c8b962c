// What becomes of callers' memory when their requests end in an error while other ranks may still be at work on it.
//
// A tensor in shared memory that is reduced where it lies is written by the ranks itself. One of them may be stopped,
// not dead, in the middle of that, and go on at any time. So before anybody is told of the error, the pages of such
// outputs are replaced by others that no rank but this one has. From then on they are private for every group of this
// process: heap_offset_of() does not know them, buckets that were planned there are left, and the heap does not give
// their places out again.
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "engine/engine.h"

namespace ronde::engine {

/// From now on this rank does nothing for them.
void Engine::abandon_plans() {
  const PlanRun* const running = executor_.running();
  if (running != nullptr && running->plan.is_shared()) {
    for (const PlanMember& member : running->plan.members) {
      const HeapPlace& own = member.places[static_cast<std::size_t>(peers_.self())];
      exposed_.push_back({static_cast<std::size_t>(own.output), member.output.bytes()});
    }
  }
  for (PlanRun& run : executor_.abandon()) {
    abandoned_.push_back(std::move(run));
  }
}

/// The peer may still be at work on what this group had under way.
bool Engine::may_touch(int peer) const {
  return peer != peers_.self() && !loss_.is_gone(peer) && !has_gone(peer) && !peers_.has_given_up(peer) &&
         !loss_.is_quiet(peer);
}

/// Requires: this rank touches nothing of the group's any more and has said so.
void Engine::take_memory_back() {
  const std::vector<HeapSpan> spans = std::exchange(exposed_, {});
  bool any = false;
  for (int peer = 0; peer < peers_.size(); ++peer) {
    any |= may_touch(peer);
  }
  if (!any) {
    return;
  }
  // All of them first: they may lie in one page.
  for (const HeapSpan& span : spans) {
    connections_.arena->withdraw(span.offset, span.bytes);
  }
  for (const HeapSpan& span : spans) {
    if (const Status made = make_private(span); !made) {
      lost_.emplace_back(span, made.message());
    }
  }
}

Status Engine::make_private(const HeapSpan& span) {
  const std::byte* const begin = connections_.arena->heap(connections_.arena->rank()) + span.offset;
  bool is_in_use = false;
  if (visit_neighbours_) {
    visit_neighbours_([&](Engine& other) {
      other.replay_.leave_withdrawn_places();
      is_in_use |= other.works_in(begin, span.bytes);
    });
  }
  if (is_in_use) {
    return Status::error(Code::system_error, "another group of this process is at work in the same page");
  }
  return connections_.arena->make_private(span.offset, span.bytes);
}

/// A request that may be done in shared memory, in one of the pages of these bytes, is under way.
bool Engine::works_in(const std::byte* begin, std::size_t bytes) const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(begin) / page;
  const std::uintptr_t last = (reinterpret_cast<std::uintptr_t>(begin) + bytes - 1) / page;
  bool any = false;
  const auto look_at = [&](const Tensor& tensor) {
    const auto at = reinterpret_cast<std::uintptr_t>(tensor.data);
    any |= tensor.bytes() > 0 && at / page <= last && (at + tensor.bytes() - 1) / page >= first;
  };
  pending_.for_each_under_way([&](const Ticket& ticket) {
    if (ticket.request().kind == OpKind::allreduce && ticket.request().tensors.size() == 1) {
      look_at(ticket.request().tensors.front().input);
      look_at(ticket.request().tensors.front().output);
    }
  });
  return any;
}

/// Says so if the tensor's memory could not be taken back.
Status Engine::with_memory_lost(Status status, const Ticket& ticket) const {
  for (const auto& [span, why] : lost_) {
    const std::byte* const at = connections_.arena->heap(connections_.arena->rank()) + span.offset;
    const auto& tensors = ticket.request().tensors;
    if (std::any_of(tensors.begin(), tensors.end(),
                    [&](const RequestTensor& pair) { return pair.output.data == at; })) {
      return Status::error(status.code(), status.message() + "; the memory of '" + ticket.name() +
                                              "' must not be used any more, since a rank that does not answer may "
                                              "still store into it (" +
                                              why + ")")
          .with_rank(status.failed_rank());
    }
  }
  return status;
}

/// A peer has given up what this rank has its part in, so there is no result. True if this rank gives up too.
bool Engine::give_up_too(Nanoseconds now) {
  now = now == 0 ? clock_.now() : now;
  loss_.learn_from_peers();  // they may have done so because of a death
  if (loss_.any()) {
    step_failing(now);
  } else {
    std::vector<int> gone;
    for (int peer = 0; peer < peers_.size(); ++peer) {
      if (peer != peers_.self() && peers_.has_given_up(peer)) {
        gone.push_back(peer);
      }
    }
    start_failing(now, gone, true);
  }
  return true;
}

}  // namespace ronde::engine
