#include "api/convert.h"

#include <string_view>

#include "types/call_sites.h"

namespace ronde::api {

namespace {

Status too_small(std::size_t given, std::size_t needed, const char* type) {
  return Status::error(Code::invalid_argument, std::string(type) + ".struct_size is " + std::to_string(given) +
                                                   "; set it to sizeof(" + type + "), which is " +
                                                   std::to_string(needed));
}

/// Several times a request: worth being inline.
inline Status check_size(std::size_t given, std::size_t needed, const char* type) {
  return given < needed ? too_small(given, needed, type) : Status();
}

Result<Tensor> tensor_from(const ronde_tensor& from) {
  if (from.ndim < 0 || from.ndim > static_cast<std::int32_t>(kMaxDimensions)) {
    return Status::error(Code::invalid_argument,
                         "a tensor has 0 to 32 dimensions, this one " + std::to_string(from.ndim));
  }
  if (from.ndim > 0 && from.shape == nullptr) {
    return Status::error(Code::invalid_argument, "a tensor's shape pointer is null but it has dimensions");
  }
  Tensor tensor;
  tensor.data = from.data;
  tensor.dtype = static_cast<DType>(from.dtype);
  tensor.shape.assign(from.shape, from.shape + from.ndim);
  tensor.device = {static_cast<DeviceType>(from.device), from.device_index};
  return tensor;
}

/// Element i of an array whose elements may be longer than this library knows.
const ronde_tensor& element(const ronde_tensor* array, std::size_t i) {
  return *reinterpret_cast<const ronde_tensor*>(reinterpret_cast<const char*>(array) + i * array->struct_size);
}

Status read_tensors(const ronde_request& from, Request& request) {
  if (from.count == 0) {
    return {};
  }
  if (from.inputs == nullptr) {
    return Status::error(Code::invalid_argument, "the request has tensors but inputs is null");
  }
  RONDE_RETURN_IF_ERROR(check_size(from.inputs->struct_size, sizeof(ronde_tensor), "ronde_tensor"));
  if (from.outputs != nullptr) {
    RONDE_RETURN_IF_ERROR(check_size(from.outputs->struct_size, sizeof(ronde_tensor), "ronde_tensor"));
  }
  if (from.count > kMaxTensorsPerRequest) {
    return Status::error(Code::invalid_argument, "more than 65536 tensors in one request");
  }
  request.tensors.reserve(from.count);
  for (std::size_t i = 0; i < from.count; ++i) {
    RequestTensor pair;
    RONDE_ASSIGN_OR_RETURN(pair.input, tensor_from(element(from.inputs, i)));
    if (from.outputs != nullptr) {
      RONDE_ASSIGN_OR_RETURN(pair.output, tensor_from(element(from.outputs, i)));
    } else {
      pair.output = pair.input;
    }
    request.tensors.push_back(std::move(pair));
  }
  return {};
}

std::optional<int> unless_negative(std::int32_t value) { return value < 0 ? std::nullopt : std::optional<int>(value); }

}  // namespace

Status check_request(const ronde_request* request) {
  if (request == nullptr) {
    return Status::error(Code::invalid_argument, "the request is null");
  }
  return check_size(request->struct_size, offsetof(ronde_request, call_number), "ronde_request");
}

Result<Request> request_from(const ronde_request* from, const engine::Runner& runner) {
  RONDE_RETURN_IF_ERROR(check_request(from));
  Request request;
  request.kind = static_cast<OpKind>(from->op);
  request.group = from->group;
  if (from->name != nullptr) {
    request.name.assign(from->name, from->name_bytes);
  }
  RONDE_RETURN_IF_ERROR(read_tensors(*from, request));
  request.reduce_op = static_cast<ReduceOp>(from->reduce_op);
  request.root = from->root;
  request.tag = from->tag;
  request.call_site = call_site_of(from->call_site);
  if (from->splits_count > 0 && from->splits == nullptr) {
    return Status::error(Code::invalid_argument, "splits_count is not 0 but splits is null");
  }
  request.splits.assign(from->splits, from->splits + from->splits_count);
  request.prescale = from->prescale == 0.0 ? 1.0 : from->prescale;
  request.postscale = from->postscale == 0.0 ? 1.0 : from->postscale;
  request.timeout = from->timeout_s == 0.0  ? runner.timeout_of(from->group)
                    : from->timeout_s < 0.0 ? kNever
                                            : from_seconds(from->timeout_s);
  return request;
}

Result<engine::JoinOptions> options_from(const ronde_options* from) {
  engine::JoinOptions options;
  if (from == nullptr) {
    return options;
  }
  RONDE_RETURN_IF_ERROR(check_size(from->struct_size, offsetof(ronde_options, meeting), "ronde_options"));
  options.rank = unless_negative(from->rank);
  options.size = unless_negative(from->size);
  options.local_rank = unless_negative(from->local_rank);
  options.local_size = unless_negative(from->local_size);
  options.cross_rank = unless_negative(from->cross_rank);
  options.cross_size = unless_negative(from->cross_size);
  if (from->store != nullptr) {
    options.store = std::string(from->store, from->store_bytes);
  }
  if (from->key != nullptr) {
    options.key = std::string(from->key, from->key_bytes);
  }
  if (from->struct_size >= sizeof(ronde_options) && from->meeting != nullptr) {
    options.meeting = std::string(from->meeting, from->meeting_bytes);
  }
  options.init_timeout = from->init_timeout_s > 0 ? from_seconds(from->init_timeout_s) : 0;
  options.timeout = from->timeout_s > 0 ? from_seconds(from->timeout_s) : from->timeout_s < 0 ? kNever : 0;
  return options;
}

}  // namespace ronde::api
