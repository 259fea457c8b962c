#include "cli/measuring/workload/tensor_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <numeric>

namespace ronde::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::uint64_t sum(const TensorSet& set) {
  return std::accumulate(set.elements.begin(), set.elements.end(), std::uint64_t{0});
}

/// A file that is gone with the test.
class File {
 public:
  explicit File(const std::string& text) : path_(testing::TempDir() + "tensor_set.txt") {
    std::ofstream(path_) << text;
  }
  ~File() { std::remove(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(TensorSets, ModelsHaveTheirTensorsAndParameters) {
  struct Model {
    const char* name;
    std::size_t tensors;
    std::uint64_t parameters;
  };
  const Model models[] = {{"resnet50", 161, 25557032}, {"resnet101", 314, 44549160}, {"inception3", 284, 23834568},
                          {"vgg16", 32, 138357544},    {"hepcnn", 12, 594178},       {"cosmogan", 34, 16408322}};
  EXPECT_EQ(model_names().size(), std::size(models));
  for (const Model& model : models) {
    const TensorSet set = tensor_set(model.name);
    EXPECT_EQ(set.failure, "") << model.name;
    EXPECT_EQ(set.elements.size(), model.tensors) << model.name;
    EXPECT_EQ(sum(set), model.parameters) << model.name;
  }
}

TEST(TensorSets, TheLastLayerComesFirst) {
  const TensorSet set = tensor_set("resnet50");
  EXPECT_EQ(set.elements.front(), 1000u);
  EXPECT_EQ(set.elements[1], 2048000u);
  EXPECT_EQ(set.elements.back(), 9408u);
}

TEST(TensorSets, ManyEqualOnes) {
  const TensorSet set = tensor_set("3000x1K");
  EXPECT_EQ(set.elements.size(), 3000u);
  EXPECT_THAT(tensor_bytes(set, 4), testing::Each(1024u));
  EXPECT_THAT(tensor_bytes(set, 2), testing::Each(1024u)) << "bytes, whatever the type";
  EXPECT_TRUE(is_many("2x8"));
  for (const char* text : {"0x1K", "3x0", "x1K", "3x", "3000", "resnet50", "3x1x1", "-1x8"}) {
    EXPECT_FALSE(is_many(text)) << text;
  }
}

TEST(TensorSets, AFileIsReadInTheModelsOrder) {
  const File file("# a small model\n12 weights\n\n 4 bias\n2K\n");
  const TensorSet set = tensor_set(file.path());
  EXPECT_EQ(set.failure, "");
  EXPECT_THAT(set.elements, ElementsAre(2048, 4, 12));
  EXPECT_THAT(tensor_bytes(set, 2), ElementsAre(4096, 8, 24));
}

TEST(TensorSets, WhatIsWrongIsASentence) {
  EXPECT_THAT(tensor_set("no/such/file").failure, HasSubstr("'no/such/file' is neither a model (resnet50, vgg16, "));
  const File words("12\nmany\n");
  EXPECT_THAT(tensor_set(words.path()).failure, HasSubstr("line 2: no number of elements: many"));
  const File empty("# nothing\n");
  EXPECT_THAT(tensor_set(empty.path()).failure, HasSubstr("lists no tensor"));
}

}  // namespace
}  // namespace ronde::cli
