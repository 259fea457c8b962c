#include "engine/p2p/pair_errors.h"

#include <string_view>

namespace ronde::engine {

namespace {

/// "send 'x' of float32 [3]"
std::string pair_text(std::string_view what, const std::string& name, DType dtype, const Shape& shape) {
  return std::string(what) + " '" + name + "' of " + std::string(dtype_name(dtype)) + " " + shape_text(shape);
}

std::string pair_text(const Request& request) {
  const Tensor& tensor = request.tensors.front().input;
  return pair_text(op_name(request.kind), request.name, tensor.dtype, tensor.shape);
}

}  // namespace

Status pair_is_late(const Request& request) {
  const bool sends = request.kind == OpKind::send;
  const std::string peer = request.root == kAnySource ? "no rank" : "rank " + std::to_string(request.root);
  std::string seconds = std::to_string(static_cast<double>(request.timeout) / static_cast<double>(kSecond));
  seconds.erase(seconds.find('.') + 2);
  return Status::error(Code::timed_out,
                       "Timed out after " + seconds + " s in " + pair_text(request) + (sends ? " to " : " from ") +
                           (request.root == kAnySource ? "any rank" : peer) + ", tag " + std::to_string(request.tag) +
                           ": " + peer + (request.root == kAnySource ? " has" : " has not") +
                           (sends ? " received it" : " sent it") +
                           "; raise the timeout (RONDE_TIMEOUT_S) if it may take longer")
      .with_rank(request.root)
      .with_tensor(request.name);
}

Status pair_is_cancelled(const Ticket& ticket, int own) {
  return Status::error(Code::cancelled, "'" + ticket.name() + "' was cancelled: the program was " +
                                            "interrupted in it, or called ronde_cancel")
      .with_rank(own);
}

std::string pair_does_not_fit(const control::OfferMessage& offer, int from, const Request& recv, int own) {
  return pair_text("send", offer.name, offer.dtype, offer.shape) + " from rank " + std::to_string(from) +
         " does not fit " + pair_text(recv) + " on rank " + std::to_string(own) + " (tag " + std::to_string(offer.tag) +
         "): they must have the same data type and number of elements";
}

control::GiveUpMessage farewell(std::uint64_t id, bool by_sender, const Ticket& ticket, const Status& reason, int own) {
  const std::string what = std::string(op_name(ticket.request().kind)) + " '" + ticket.name() + "'";
  const std::string rank = "rank " + std::to_string(own);
  if (reason.code() == Code::timed_out) {
    return {id, by_sender, Code::timed_out, "Timed out: " + rank + " gave up its " + what, own};
  }
  if (reason.code() == Code::cancelled && reason.failed_rank() == own) {
    return {id, by_sender, Code::cancelled, rank + " has cancelled its " + what, own};
  }
  if (reason.code() == Code::cancelled) {
    return {id, by_sender, Code::peer_left,
            rank + " has left the job (it shut down or exited) with its " + what + " unfinished", own};
  }
  return {id, by_sender, reason.code(), reason.message(), reason.failed_rank()};  // of another rank's doing
}

control::GiveUpMessage refusal(std::uint64_t id, const Status& reason, int own) {
  if (reason.code() == Code::cancelled) {
    return {id, false, Code::peer_left, "rank " + std::to_string(own) + " has left the job (it shut down or exited)",
            own};
  }
  return {id, false, reason.code(), reason.message(), reason.failed_rank()};
}

}  // namespace ronde::engine
