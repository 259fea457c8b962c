#include "plan/models.h"

#include <initializer_list>
#include <utility>

namespace ronde::plan {

namespace {

using Number = std::uint64_t;

/// What stands behind a convolution's weights.
enum class Behind { normalisation, bias, bias_and_normalisation };

/// Layers of one network, in the order of its forward pass.
class Layers {
 public:
  /// A convolution of a kernel of `area` elements that computes `size` x `size` outputs.
  Layers& convolution(Number in, Number out, Number area, Number size, Behind behind = Behind::normalisation) {
    Layer layer{{area * in * out}, static_cast<double>(area * in * out * size * size)};
    if (behind != Behind::normalisation) {
      layer.tensors.push_back(out);
    }
    if (behind != Behind::bias) {
      layer.tensors.insert(layer.tensors.end(), {out, out});
    }
    layers_.push_back(std::move(layer));
    return *this;
  }
  Layers& dense(Number in, Number out) {
    layers_.push_back({{in * out, out}, static_cast<double>(in * out)});
    return *this;
  }
  /// One whose outputs are normalised.
  Layers& normalised_dense(Number in, Number out, Number channels) {
    layers_.push_back({{in * out, out, channels, channels}, static_cast<double>(in * out)});
    return *this;
  }
  std::vector<Layer> take() { return std::move(layers_); }

 private:
  std::vector<Layer> layers_;
};

/// Bottlenecks of 1x1, 3x3 and 1x1 convolutions (He et al., 2015), of which the second halves the picture where a stage
/// begins; the first of a stage has a fourth on its shortcut.
std::vector<Layer> resnet(std::initializer_list<int> blocks_of_stages) {
  Layers layers;
  layers.convolution(3, 64, 49, 112);
  Number in = 64;
  Number width = 64;
  Number size = 56;
  for (const int blocks : blocks_of_stages) {
    const Number out = 4 * width;
    const Number size_before = width == 64 ? size : 2 * size;
    for (int block = 0; block < blocks; ++block) {
      layers.convolution(in, width, 1, block == 0 ? size_before : size);
      layers.convolution(width, width, 9, size).convolution(width, out, 1, size);
      if (block == 0) {
        layers.convolution(in, out, 1, size);
      }
      in = out;
    }
    width *= 2;
    size /= 2;
  }
  return layers.dense(2048, 1000).take();
}

std::vector<Layer> vgg16() {
  Layers layers;
  Number in = 3;
  Number size = 224;
  for (const auto& [convolutions, out] : {std::pair<int, Number>{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}) {
    for (int i = 0; i < convolutions; ++i) {
      layers.convolution(in, out, 9, size, Behind::bias);
      in = out;
    }
    size /= 2;
  }
  return layers.dense(7 * 7 * 512, 4096).dense(4096, 4096).dense(4096, 1000).take();
}

/// The blocks of Szegedy et al., 2015, by the names that they usually have.
void inception_a(Layers& layers, Number in, Number pooled) {
  layers.convolution(in, 64, 1, 35).convolution(in, 48, 1, 35).convolution(48, 64, 25, 35);
  layers.convolution(in, 64, 1, 35).convolution(64, 96, 9, 35).convolution(96, 96, 9, 35);
  layers.convolution(in, pooled, 1, 35);
}
void inception_b(Layers& layers) {
  layers.convolution(288, 384, 9, 17);
  layers.convolution(288, 64, 1, 35).convolution(64, 96, 9, 35).convolution(96, 96, 9, 17);
}
void inception_c(Layers& layers, Number width) {
  layers.convolution(768, 192, 1, 17);
  layers.convolution(768, width, 1, 17).convolution(width, width, 7, 17).convolution(width, 192, 7, 17);
  layers.convolution(768, width, 1, 17);
  for (int i = 0; i < 3; ++i) {
    layers.convolution(width, width, 7, 17);
  }
  layers.convolution(width, 192, 7, 17).convolution(768, 192, 1, 17);
}
void inception_d(Layers& layers) {
  layers.convolution(768, 192, 1, 17).convolution(192, 320, 9, 8);
  layers.convolution(768, 192, 1, 17).convolution(192, 192, 7, 17).convolution(192, 192, 7, 17);
  layers.convolution(192, 192, 9, 8);
}
void inception_e(Layers& layers, Number in) {
  layers.convolution(in, 320, 1, 8);
  layers.convolution(in, 384, 1, 8).convolution(384, 384, 3, 8).convolution(384, 384, 3, 8);
  layers.convolution(in, 448, 1, 8).convolution(448, 384, 9, 8);
  layers.convolution(384, 384, 3, 8).convolution(384, 384, 3, 8).convolution(in, 192, 1, 8);
}

/// Without the auxiliary classifier.
std::vector<Layer> inception3() {
  Layers layers;
  layers.convolution(3, 32, 9, 149).convolution(32, 32, 9, 147).convolution(32, 64, 9, 147);
  layers.convolution(64, 80, 1, 73).convolution(80, 192, 9, 71);
  inception_a(layers, 192, 32);
  inception_a(layers, 256, 64);
  inception_a(layers, 288, 64);
  inception_b(layers);
  for (const Number width : {128, 160, 160, 192}) {
    inception_c(layers, width);
  }
  inception_d(layers);
  inception_e(layers, 1280);
  inception_e(layers, 2048);
  return layers.dense(2048, 1000).take();
}

/// Of arXiv:1708.05256, for pictures of 224 x 224.
std::vector<Layer> hepcnn() {
  Layers layers;
  Number in = 3;
  for (const Number size : {224, 112, 56, 28, 14}) {
    layers.convolution(in, 128, 9, size, Behind::bias);
    in = 128;
  }
  return layers.dense(128, 2).take();
}

/// Of arXiv:1706.02390, for maps of 256 x 256: the discriminator, then the generator. A transposed convolution computes
/// with every input what a convolution does with every output.
std::vector<Layer> cosmogan() {
  constexpr auto kBoth = Behind::bias_and_normalisation;
  Layers layers;
  layers.convolution(1, 64, 25, 128, Behind::bias).convolution(64, 128, 25, 64, kBoth);
  layers.convolution(128, 256, 25, 32, kBoth).convolution(256, 384, 25, 16, kBoth).dense(98304, 1);
  layers.normalised_dense(64, 131072, 512).convolution(512, 256, 25, 16, kBoth);
  layers.convolution(256, 128, 25, 32, kBoth).convolution(128, 64, 25, 64, kBoth);
  return layers.convolution(64, 1, 25, 128, Behind::bias).take();
}

constexpr const char* kTensorFlow =
    "one P100, batches of 64, synthetic data (tensorflow.org/performance/benchmarks, 2017)";
constexpr const char* kLikeResnet = "one P100, by multiplications from ResNet-50's 219 a second";
constexpr const char* kKnl = "40 ms a sample on one KNL node (Cori)";
constexpr const char* kLikeHepCnn = "one KNL node, by multiplications from HEP-CNN's 25 a second";

struct Entry {
  const char* key;
  const char* title;
  std::vector<Layer> (*layers)();
  double samples_per_second;
  const char* source;
};

std::vector<Layer> resnet50() { return resnet({3, 4, 6, 3}); }
std::vector<Layer> resnet101() { return resnet({3, 4, 23, 3}); }

constexpr Entry kEntries[] = {
    {"resnet50", "ResNet-50", resnet50, 219, kTensorFlow},
    {"inception3", "Inception V3", inception3, 142, kTensorFlow},
    {"resnet101", "ResNet-101", resnet101, 115, kLikeResnet},
    {"vgg16", "VGG-16", vgg16, 154, kTensorFlow},
    {"hepcnn", "HEP-CNN", hepcnn, 25, kKnl},
    {"cosmogan", "CosmoGAN", cosmogan, 13.5, kLikeHepCnn},
};

}  // namespace

std::uint64_t Model::parameters() const {
  std::uint64_t sum = 0;
  for (const Layer& layer : layers) {
    for (const std::uint64_t elements : layer.tensors) {
      sum += elements;
    }
  }
  return sum;
}

double Model::macs() const {
  double sum = 0;
  for (const Layer& layer : layers) {
    sum += layer.macs;
  }
  return sum;
}

const std::vector<std::string>& model_keys() {
  static const auto* const keys = [] {
    auto* all = new std::vector<std::string>;
    for (const Entry& each : kEntries) {
      all->push_back(each.key);
    }
    return all;
  }();
  return *keys;
}

Result<Model> find_model(std::string_view key) {
  std::string names;
  for (const Entry& each : kEntries) {
    if (key == each.key) {
      return Model{each.key, each.title, each.layers(), each.samples_per_second, each.source};
    }
    names += (names.empty() ? "" : ", ") + std::string(each.key);
  }
  return Status::error(Code::invalid_argument,
                       "there is no model '" + std::string(key) + "'; expected one of " + names);
}

}  // namespace ronde::plan
