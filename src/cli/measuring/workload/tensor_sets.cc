#include "cli/measuring/workload/tensor_sets.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "cli/measuring/workload/sizes.h"

namespace ronde::cli {

namespace {

using List = std::vector<std::uint64_t>;

void append(List& list, std::initializer_list<std::uint64_t> more) { list.insert(list.end(), more); }

/// A convolution's weights, then the scale and shift of the normalisation behind it.
void append_normalised(List& list, std::uint64_t weights, std::uint64_t channels) {
  append(list, {weights, channels, channels});
}

/// Bottlenecks of 1x1, 3x3 and 1x1 convolutions; a stage's first has a fourth on its shortcut.
List resnet(std::initializer_list<int> blocks_of_stages) {
  List list;
  append_normalised(list, 9408, 64);
  std::uint64_t in = 64;
  std::uint64_t width = 64;
  for (const int blocks : blocks_of_stages) {
    const std::uint64_t out = 4 * width;
    for (int block = 0; block < blocks; ++block) {
      append_normalised(list, in * width, width);
      append_normalised(list, 9 * width * width, width);
      append_normalised(list, width * out, out);
      if (block == 0) {
        append_normalised(list, in * out, out);
      }
      in = out;
    }
    width *= 2;
  }
  append(list, {2048000, 1000});
  return list;
}

List vgg16() {
  List list;
  std::uint64_t in = 3;
  for (const std::uint64_t out : {64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512}) {
    append(list, {9 * in * out, out});
    in = out;
  }
  append(list, {102760448, 4096, 16777216, 4096, 4096000, 1000});
  return list;
}

/// Weights and channels of the 94 convolutions, without the auxiliary classifier.
constexpr std::pair<std::uint64_t, std::uint64_t> kInceptionStem[] = {
    {864, 32},   {9216, 32},  {18432, 64},   {5120, 80},  {138240, 192}, {12288, 64}, {9216, 48},  {76800, 64},
    {12288, 64}, {55296, 96}, {82944, 96},   {6144, 32},  {16384, 64},   {12288, 48}, {76800, 64}, {16384, 64},
    {55296, 96}, {82944, 96}, {16384, 64},   {18432, 64}, {13824, 48},   {76800, 64}, {18432, 64}, {55296, 96},
    {82944, 96}, {18432, 64}, {995328, 384}, {18432, 64}, {55296, 96},   {82944, 96}};
constexpr std::pair<std::uint64_t, std::uint64_t> kInceptionNarrow[] = {
    {147456, 192}, {98304, 128},  {114688, 128}, {172032, 192}, {98304, 128},
    {114688, 128}, {114688, 128}, {114688, 128}, {172032, 192}, {147456, 192}};
constexpr std::pair<std::uint64_t, std::uint64_t> kInceptionMiddle[] = {
    {147456, 192}, {122880, 160}, {179200, 160}, {215040, 192}, {122880, 160},
    {179200, 160}, {179200, 160}, {179200, 160}, {215040, 192}, {147456, 192}};
constexpr std::pair<std::uint64_t, std::uint64_t> kInceptionWide[] = {
    {147456, 192}, {147456, 192}, {258048, 192}, {258048, 192}, {147456, 192},
    {258048, 192}, {258048, 192}, {258048, 192}, {258048, 192}, {147456, 192}};
constexpr std::pair<std::uint64_t, std::uint64_t> kInceptionReduction[] = {{147456, 192}, {552960, 320}, {147456, 192},
                                                                           {258048, 192}, {258048, 192}, {331776, 192}};

/// One of the two last blocks: all its convolutions read the same number of channels or 448 and fewer of its own.
void append_inception_end(List& list, std::uint64_t in) {
  append_normalised(list, in * 320, 320);
  append_normalised(list, in * 384, 384);
  append_normalised(list, 442368, 384);
  append_normalised(list, 442368, 384);
  append_normalised(list, in * 448, 448);
  append_normalised(list, 1548288, 384);
  append_normalised(list, 442368, 384);
  append_normalised(list, 442368, 384);
  append_normalised(list, in * 192, 192);
}

List inception3() {
  List list;
  const auto append_all = [&list](const auto& convolutions) {
    for (const auto& [weights, channels] : convolutions) {
      append_normalised(list, weights, channels);
    }
  };
  append_all(kInceptionStem);
  append_all(kInceptionNarrow);
  append_all(kInceptionMiddle);
  append_all(kInceptionMiddle);
  append_all(kInceptionWide);
  append_all(kInceptionReduction);
  append_inception_end(list, 1280);
  append_inception_end(list, 2048);
  append(list, {2048000, 1000});
  return list;
}

List hepcnn() { return {3456, 128, 147456, 128, 147456, 128, 147456, 128, 147456, 128, 256, 2}; }

/// Discriminator, then generator.
List cosmogan() {
  return {1600, 64,  204800,  128, 128, 128, 819200, 256, 256, 256, 2457600, 384, 384, 384, 98304, 1, 8388608, 131072,
          512,  512, 3276800, 256, 256, 256, 819200, 128, 128, 128, 204800,  64,  64,  64,  1600,  1};
}

std::optional<List> model(std::string_view name) {
  if (name == "resnet50") return resnet({3, 4, 6, 3});
  if (name == "resnet101") return resnet({3, 4, 23, 3});
  if (name == "vgg16") return vgg16();
  if (name == "inception3") return inception3();
  if (name == "hepcnn") return hepcnn();
  if (name == "cosmogan") return cosmogan();
  return std::nullopt;
}

/// COUNTxBYTES.
std::optional<TensorSet> many(std::string_view set) {
  constexpr std::uint64_t kMost = 1 << 20;
  const std::size_t times = set.find('x');
  if (times == std::string_view::npos) {
    return std::nullopt;
  }
  const std::optional<std::uint64_t> count = parse_size(set.substr(0, times));
  const std::optional<std::uint64_t> bytes = parse_size(set.substr(times + 1));
  if (!count || !bytes || *count == 0 || *count > kMost || *bytes == 0) {
    return std::nullopt;
  }
  return TensorSet{.elements = List(*count, 0), .bytes_each = *bytes};
}

TensorSet from_file(const std::string& path) {
  std::string names;
  for (const std::string& name : model_names()) {
    names += (names.empty() ? "" : ", ") + name;
  }
  std::ifstream file(path);
  if (!file) {
    return {.failure =
                "'" + path + "' is neither a model (" + names + "), nor COUNTxBYTES such as 3000x1K, nor a file"};
  }
  TensorSet set;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line);
    std::string first;
    if (!(words >> first) || first.front() == '#') {
      continue;
    }
    const std::optional<std::uint64_t> elements = parse_size(first);
    if (!elements || *elements == 0) {
      return {.failure = path + ", line " + std::to_string(number) + ": no number of elements: " + first};
    }
    set.elements.push_back(*elements);
  }
  if (set.elements.empty()) {
    return {.failure = path + " lists no tensor: one number of elements a line is expected"};
  }
  std::reverse(set.elements.begin(), set.elements.end());
  return set;
}

}  // namespace

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names{"resnet50", "vgg16", "inception3", "resnet101", "hepcnn", "cosmogan"};
  return names;
}

bool is_many(std::string_view set) { return many(set).has_value(); }

TensorSet tensor_set(std::string_view set) {
  if (std::optional<List> list = model(set)) {
    std::reverse(list->begin(), list->end());
    return {.elements = std::move(*list)};
  }
  if (std::optional<TensorSet> equal = many(set)) {
    return *equal;
  }
  return from_file(std::string(set));
}

std::vector<std::uint64_t> tensor_bytes(const TensorSet& set, std::uint64_t element_bytes) {
  std::vector<std::uint64_t> bytes;
  for (const std::uint64_t elements : set.elements) {
    bytes.push_back(set.bytes_each != 0 ? set.bytes_each : elements * element_bytes);
  }
  return bytes;
}

}  // namespace ronde::cli
