#include "types/request.h"

#include <algorithm>
#include <cmath>

namespace ronde {

namespace {

/// Shapes agree if equal; of what has rows the first extents may differ.
bool shapes_agree(OpKind kind, const Shape& a, const Shape& b) {
  const Rows rows = traits(kind).rows;
  if ((rows != Rows::all && rows != Rows::of_pairs) || a.empty() || b.empty()) {
    return a == b;
  }
  return a.size() == b.size() && std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

std::string number_text(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  return text.back() == '.' ? text + "0" : text;
}

Status invalid(const Request& request, const std::string& what) {
  return Status::error(Code::invalid_argument, std::string(op_name(request.kind)) + " '" + request.name + "': " + what)
      .with_tensor(request.name);
}

/// Of an all-to-all or the root of a scatter, which have one tensor: what of it goes to whom.
Status validate_splits(const Request& request, const Group& group) {
  if (request.tensors.size() != 1) {
    return invalid(request, "one tensor at a time, " + std::to_string(request.tensors.size()) + " were given");
  }
  const std::int64_t rows = request.tensors.front().input.shape.front();
  const std::string found = "the tensor has " + std::to_string(rows) + " rows (its first dimension)";
  if (request.splits.empty()) {
    return rows % group.size() == 0
               ? Status()
               : invalid(request, found + ", which do not divide by the " + std::to_string(group.size()) +
                                      " ranks; say with splits how many go to each");
  }
  if (request.splits.size() != static_cast<std::size_t>(group.size())) {
    return invalid(request, "splits has " + std::to_string(request.splits.size()) + " entries; one for each of the " +
                                std::to_string(group.size()) + " ranks was expected");
  }
  std::int64_t sum = 0;
  for (std::int64_t each : request.splits) {
    if (each < 0 || each > rows - sum) {
      return invalid(request, found + "; the splits must be at least 0 and add up to that");
    }
    sum += each;
  }
  return sum == rows ? Status() : invalid(request, found + ", the splits add up to " + std::to_string(sum));
}

/// Of a send or recv: with whom.
Status validate_peer(const Request& request, const Group& group, int rank) {
  if (request.tensors.size() != 1) {
    return invalid(request, "one tensor at a time, " + std::to_string(request.tensors.size()) + " were given");
  }
  if (request.root == rank) {
    return invalid(request, "a rank has no messages for itself, and this is rank " + std::to_string(rank) +
                                "; copy the tensor instead");
  }
  const bool any = request.kind == OpKind::recv && request.root == kAnySource;
  if (!any && group.index_of(request.root) < 0) {
    return invalid(request, "rank " + std::to_string(request.root) + " is not in the group of " +
                                std::to_string(group.size()) + " ranks");
  }
  if (any && group.size() == 1) {
    return invalid(request, "there is no other rank that could send");
  }
  return {};
}

Status validate_tensor(const Request& request, const RequestTensor& pair) {
  const Tensor& input = pair.input;
  if (dtype_bytes(input.dtype) == 0) {
    return invalid(request, "data type number " + std::to_string(static_cast<int>(input.dtype)) + " is unknown");
  }
  if (input.shape.size() > kMaxDimensions) {
    return invalid(request, "more than 32 dimensions");
  }
  std::int64_t bytes = static_cast<std::int64_t>(dtype_bytes(input.dtype));
  for (std::int64_t extent : input.shape) {
    if (extent < 0) {
      return invalid(request, "negative extent in shape " + shape_text(input.shape));
    }
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes)) {
      return invalid(request, "shape " + shape_text(input.shape) + " has more bytes than memory can hold");
    }
  }
  if (input.device.type != DeviceType::host) {
    return Status::error(Code::not_implemented, std::string(op_name(request.kind)) + " '" + request.name +
                                                    "': only tensors in host memory are supported; copy it to the CPU");
  }
  if (input.data == nullptr && input.elements() > 0) {
    return invalid(request,
                   "the data pointer is null but the tensor has " + std::to_string(input.elements()) + " elements");
  }
  if (makes_outputs(request.kind)) {
    if (input.shape.empty()) {
      return invalid(request, std::string("a scalar has no first dimension to ") +
                                  (traits(request.kind).rows == Rows::all || traits(request.kind).root == Root::to
                                       ? "gather along"
                                       : "be cut along") +
                                  "; reshape it to [1]");
    }
    return {};
  }
  if (pair.output.dtype != input.dtype || pair.output.shape != input.shape) {
    return invalid(request, "the output is " + std::string(dtype_name(pair.output.dtype)) + " " +
                                shape_text(pair.output.shape) + ", the input " + std::string(dtype_name(input.dtype)) +
                                " " + shape_text(input.shape) + "; they must be the same");
  }
  if (pair.output.data == nullptr && pair.output.elements() > 0) {
    return invalid(request, "the output pointer is null");
  }
  const auto* const from = static_cast<const std::byte*>(input.data);
  const auto* const to = static_cast<const std::byte*>(pair.output.data);
  if (from != to && from < to + input.bytes() && to < from + input.bytes()) {
    return invalid(request, "input and output overlap; they must be the same memory, or share none");
  }
  return {};
}

/// Where one tensor of a group is stored while another is still read, the result depends on who comes first.
Status validate_apart(const Request& request) {
  struct Range {
    const std::byte* begin;
    const std::byte* end;
    std::size_t index;
  };
  const auto range_of = [](const void* data, std::size_t bytes, std::size_t index) {
    const auto* const begin = static_cast<const std::byte*>(data);
    return Range{begin, begin + bytes, index};
  };
  std::vector<Range> outputs;
  outputs.reserve(request.tensors.size());
  for (std::size_t i = 0; i < request.tensors.size(); ++i) {
    if (const Tensor& output = request.tensors[i].output; output.bytes() > 0) {
      outputs.push_back(range_of(output.data, output.bytes(), i));
    }
  }
  const auto by_begin = [](const Range& a, const Range& b) { return a.begin < b.begin; };
  if (!std::is_sorted(outputs.begin(), outputs.end(), by_begin)) {
    std::sort(outputs.begin(), outputs.end(), by_begin);
  }
  const auto clash = [&](std::size_t a, std::size_t b) {
    return invalid(request, "tensors " + std::to_string(std::min(a, b)) + " and " + std::to_string(std::max(a, b)) +
                                " of the group overlap, and one is written; give copies");
  };
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    if (outputs[i].begin < outputs[i - 1].end) {
      return clash(outputs[i - 1].index, outputs[i].index);
    }
  }
  for (std::size_t i = 0; i < request.tensors.size(); ++i) {
    const RequestTensor& pair = request.tensors[i];
    if (pair.input.data == pair.output.data || pair.input.bytes() == 0) {
      continue;  // it has been looked at as an output
    }
    const Range input = range_of(pair.input.data, pair.input.bytes(), i);
    const auto next = std::partition_point(outputs.begin(), outputs.end(),
                                           [&](const Range& output) { return output.end <= input.begin; });
    if (next != outputs.end() && next->begin < input.end) {
      return clash(next->index, i);
    }
  }
  return {};
}

}  // namespace

std::vector<std::int64_t> scattered_rows(std::int64_t rows, int ranks) {
  std::vector<std::int64_t> each(static_cast<std::size_t>(ranks), rows / ranks);
  std::for_each(each.begin(), each.begin() + rows % ranks, [](std::int64_t& own) { ++own; });
  return each;
}

void canonicalise(Request& request) {
  if (!reduces(request.kind)) {
    request.reduce_op = ReduceOp::sum;
    request.prescale = 1.0;
    request.postscale = 1.0;
  }
  if (!is_pairwise(request.kind) && !(request.has_own_number && traits(request.kind).has_tensors)) {
    request.tag = 0;
  }
  if (!has_root(request.kind) && !is_pairwise(request.kind)) {
    request.root = 0;
  }
  if (!traits(request.kind).takes_splits) {
    request.splits.clear();
  }
}

Descriptor describe(const Request& request) {
  Descriptor descriptor;
  descriptor.kind = request.kind;
  descriptor.reduce_op = request.reduce_op;
  descriptor.prescale = request.prescale;
  descriptor.postscale = request.postscale;
  descriptor.root = request.root;
  descriptor.planned_group = request.planned_group;
  descriptor.splits = request.splits;
  descriptor.tag = request.tag;
  for (const RequestTensor& pair : request.tensors) {
    descriptor.tensors.push_back({pair.input.dtype, pair.input.shape});
  }
  return descriptor;
}

bool Descriptor::operator==(const Descriptor& other) const {
  return kind == other.kind && reduce_op == other.reduce_op && root == other.root && prescale == other.prescale &&
         postscale == other.postscale && tensors == other.tensors && planned_group == other.planned_group;
}

std::string disagreement(const Descriptor& a, const Descriptor& b) {
  if (a.kind != b.kind) {
    return "operation";
  }
  if (a.reduce_op != b.reduce_op) {
    return "reduction";
  }
  if (a.root != b.root) {
    return "root rank";
  }
  if (a.tensors.size() != b.tensors.size()) {
    return "number of tensors";
  }
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    if (a.tensors[i].dtype != b.tensors[i].dtype) {
      return "data type";
    }
    if (!shapes_agree(a.kind, a.tensors[i].shape, b.tensors[i].shape)) {
      return "shape";
    }
  }
  if (a.prescale != b.prescale || a.postscale != b.postscale) {
    return "scale factors";
  }
  if (a.planned_group != b.planned_group) {
    return "persistent plan";
  }
  return {};
}

std::string tag_text(std::int32_t tag) {
  if (tag <= 0) {
    return {};
  }
  if (tag == kOwnOrder) {
    return "by the program itself";
  }
  if (tag >= kBehindChain) {
    return "behind what was put behind the end of a call before it";
  }
  return tag >= kBehindOther ? "behind the end of a send or recv, or of a call of another group or before a barrier"
                             : "behind the end of the call " + std::to_string(tag - kOwnOrder) + " before it";
}

std::string descriptor_text(const Descriptor& descriptor) {
  std::string text(op_name(descriptor.kind));
  if (reduces(descriptor.kind)) {
    text += " (" + std::string(reduce_op_name(descriptor.reduce_op)) + ")";
  }
  if (has_root(descriptor.kind)) {
    text += (traits(descriptor.kind).root == Root::to ? " to rank " : " from rank ") + std::to_string(descriptor.root);
  }
  constexpr std::size_t kShown = 4;
  for (std::size_t i = 0; i < descriptor.tensors.size() && i < kShown; ++i) {
    text += i == 0 ? " of " : ", ";
    text += std::string(dtype_name(descriptor.tensors[i].dtype)) + " " + shape_text(descriptor.tensors[i].shape);
  }
  if (descriptor.tensors.size() > kShown) {
    text += " and " + std::to_string(descriptor.tensors.size() - kShown) + " more";
  }
  if (descriptor.planned_group.id != 0) {
    text += ", in a persistent plan of " + std::to_string(descriptor.planned_group.size);
  }
  if (descriptor.prescale != 1.0) {
    text += ", prescale " + number_text(descriptor.prescale);
  }
  if (descriptor.postscale != 1.0) {
    text += ", postscale " + number_text(descriptor.postscale);
  }
  return text;
}

Status validate(const Request& request, const Group& group, int rank) {
  const OperationTraits& operation = traits(request.kind);
  if (!operation.is_known) {
    return Status::error(Code::invalid_argument,
                         "operation number " + std::to_string(static_cast<int>(request.kind)) + " is unknown");
  }
  if (request.name.empty() || request.name.size() > kMaxNameBytes) {
    return Status::error(Code::invalid_argument,
                         "a request's name has 1 to 4096 bytes; this one has " + std::to_string(request.name.size()));
  }
  if (request.tensors.empty() == operation.has_tensors) {
    return invalid(request, operation.has_tensors ? "no tensor was given"
                                                  : "a " + std::string(operation.name) + " has no tensors");
  }
  if (request.tensors.size() > kMaxTensorsPerRequest) {
    return invalid(request, "more than 65536 tensors in one group");
  }
  if (is_pairwise(request.kind)) {
    RONDE_RETURN_IF_ERROR(validate_peer(request, group, rank));
  }
  if (has_root(request.kind) && group.index_of(request.root) < 0) {
    return invalid(request, "root rank " + std::to_string(request.root) + " is not in the group of " +
                                std::to_string(group.size()) + " ranks");
  }
  if (reduces(request.kind) && reduce_op_name(request.reduce_op) == "unknown") {
    return invalid(request, "reduction number " + std::to_string(static_cast<int>(request.reduce_op)) + " is unknown");
  }
  if (operation.reduces && request.reduce_op == ReduceOp::average && !operation.has_average) {
    return invalid(request, "there is no average of a part of the ranks; use sum and divide by how many they are");
  }
  if (!std::isfinite(request.prescale) || !std::isfinite(request.postscale)) {
    return invalid(request, "scale factors must be finite");
  }
  for (const RequestTensor& pair : request.tensors) {
    RONDE_RETURN_IF_ERROR(validate_tensor(request, pair));
  }
  if (request.tensors.size() > 1 && !makes_outputs(request.kind)) {
    RONDE_RETURN_IF_ERROR(validate_apart(request));
  }
  const bool cuts = operation.takes_splits && (operation.root == Root::none || request.root == rank);
  return cuts ? validate_splits(request, group) : Status();
}

}  // namespace ronde
