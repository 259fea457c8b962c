#include "engine/replay/exposed_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace ronde::engine {

void ExposedMemory::take_back(const std::function<bool(const std::byte*, std::size_t)>& is_in_use) {
  const std::vector<MemorySpan> spans = std::exchange(exposed_, {});
  // All of them first: they may lie in one page.
  for (const MemorySpan& span : spans) {
    memory_.withdraw(span);
  }
  for (const MemorySpan& span : spans) {
    if (const Status made = make_private(span, is_in_use); !made) {
      lost_.emplace_back(span, made.message());
    }
  }
}

Status ExposedMemory::make_private(const MemorySpan& span,
                                   const std::function<bool(const std::byte*, std::size_t)>& is_in_use) {
  if (is_in_use(memory_.begin_of(span), span.bytes)) {
    return Status::error(Code::system_error, "another group of this process is at work in the same page");
  }
  return memory_.make_private(span);
}

Status ExposedMemory::with_memory_lost(Status status, const Ticket& ticket) const {
  for (const auto& [span, why] : lost_) {
    const auto& tensors = ticket.request().tensors;
    if (std::any_of(tensors.begin(), tensors.end(), [begin = memory_.begin_of(span)](const RequestTensor& pair) {
          return pair.output.data == begin;
        })) {
      return Status::error(status.code(), status.message() + "; the memory of '" + ticket.name() +
                                              "' must not be used any more, since a rank that does not answer may "
                                              "still store into it (" +
                                              why + ")")
          .with_rank(status.failed_rank());
    }
  }
  return status;
}

bool any_in_pages_of(const PendingTable& pending, const std::byte* begin, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(begin) / page;
  const std::uintptr_t last = (reinterpret_cast<std::uintptr_t>(begin) + bytes - 1) / page;
  bool any = false;
  const auto look_at = [&](const Tensor& tensor) {
    const auto at = reinterpret_cast<std::uintptr_t>(tensor.data);
    any |= tensor.bytes() > 0 && at / page <= last && (at + tensor.bytes() - 1) / page >= first;
  };
  pending.for_each_under_way([&](const Ticket& ticket) {
    if (ticket.request().kind == OpKind::allreduce && ticket.request().tensors.size() == 1) {
      look_at(ticket.request().tensors.front().input);
      look_at(ticket.request().tensors.front().output);
    }
  });
  return any;
}

}  // namespace ronde::engine
