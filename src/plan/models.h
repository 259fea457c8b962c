// Models: networks whose training step is known without a run: the tensors and multiplications of each layer, counted
// from the layers' shapes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ronde::plan {

struct Layer {
  std::vector<std::uint64_t> tensors;  ///< elements of each parameter tensor, in the model's order
  double macs = 0;                     ///< multiplications and additions of one sample's forward pass
};

struct Model {
  std::string key;    ///< "resnet50"
  std::string title;  ///< "ResNet-50"
  std::vector<Layer> layers;
  double samples_per_second = 0;  ///< that one processor trains without others
  std::string rate_source;

  std::uint64_t parameters() const;
  double macs() const;
};

/// resnet50, inception3, resnet101, vgg16, hepcnn, cosmogan.
const std::vector<std::string>& model_keys();
/// INVALID_ARGUMENT naming those that there are.
Result<Model> find_model(std::string_view key);

}  // namespace ronde::plan
