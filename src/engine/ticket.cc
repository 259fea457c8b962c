#include "engine/ticket.h"

#include <new>

namespace ronde::engine {

Status Ticket::make_outputs(const std::vector<std::vector<std::int64_t>>& rows) {
  owned_outputs_.clear();
  for (std::size_t i = 0; i < request_.tensors.size(); ++i) {
    RequestTensor& pair = request_.tensors[i];
    OwnedOutput output;
    output.shape = pair.input.shape;
    output.shape.front() = 0;
    for (std::int64_t extent : rows[i]) {
      output.shape.front() += extent;
    }
    pair.output = pair.input;
    pair.output.shape = output.shape;
    const std::size_t bytes = pair.output.bytes();
    output.data.reset(new (std::nothrow) std::byte[bytes]);
    if (!output.data) {
      return Status::error(Code::out_of_memory, "no memory for the " + std::to_string(bytes) +
                                                    " bytes that '" + request_.name + "' gathers")
          .with_tensor(request_.name);
    }
    pair.output.data = output.data.get();
    owned_outputs_.push_back(std::move(output));
  }
  return {};
}

}  // namespace ronde::engine
