// Sets of tensors that are reduced together: the gradients of known models, lists from files, many of one size.
//
// The lists are the shapes of the models' parameters as torchvision and the papers have them, made here by the rule
// that made the model and not copied, so that a slip shows in the sums that the test knows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ronde::cli {

struct TensorSet {
  std::string failure = {};  ///< why there is none, a sentence; empty: there is one
  /// Of each tensor, in the order in which a backward pass has them ready: the model's, reversed.
  std::vector<std::uint64_t> elements = {};
  std::uint64_t bytes_each = 0;  ///< of a set of equal tensors: their size, whatever the type; else 0
};

/// "resnet50" and the other names of model_names(); "3000x1K": so many tensors of so many bytes; else a file with one
/// number of elements a line, in the model's order (the rest of a line is a comment, so are empty lines and #).
TensorSet tensor_set(std::string_view set);
/// Whether it is of the form "3000x1K".
bool is_many(std::string_view set);
const std::vector<std::string>& model_names();

/// The sizes of the tensors for elements of so many bytes.
std::vector<std::uint64_t> tensor_bytes(const TensorSet& set, std::uint64_t element_bytes);

}  // namespace ronde::cli
