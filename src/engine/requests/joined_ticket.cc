#include "engine/requests/joined_ticket.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "reduce/neutral.h"

namespace ronde::engine {

TicketPtr make_joined_ticket(const std::string& name, const Descriptor& descriptor, std::int32_t group) {
  Request request;
  request.kind = descriptor.kind;
  request.name = name;
  request.group = group;
  request.reduce_op = descriptor.reduce_op;
  request.root = descriptor.root;
  request.prescale = descriptor.prescale;
  request.postscale = descriptor.postscale;
  auto memory = std::make_shared<std::vector<std::unique_ptr<std::byte[]>>>();
  for (const Descriptor::Spec& spec : descriptor.tensors) {
    RequestTensor pair;
    pair.input.dtype = spec.dtype;
    pair.input.shape = spec.shape;
    const std::size_t bytes = pair.input.bytes();
    memory->push_back(std::make_unique<std::byte[]>(bytes));
    pair.input.data = memory->back().get();
    reduce::fill_neutral(spec.dtype, descriptor.reduce_op, {memory->back().get(), bytes});
    pair.output = pair.input;
    request.tensors.push_back(std::move(pair));
  }
  auto ticket = std::make_shared<Ticket>(std::move(request));
  ticket->give_joined_memory(std::move(memory));
  return ticket;
}

}  // namespace ronde::engine
