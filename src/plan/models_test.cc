#include "plan/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::plan {
namespace {

struct Published {
  const char* key;
  std::size_t tensors;
  std::uint64_t parameters;
  double gmacs;  ///< of one forward pass; 0: none is published
};

/// Tensors and parameters as torchvision and the papers' own code count them; multiplications as torchvision says them.
constexpr Published kPublished[] = {
    {"resnet50", 161, 25557032, 4.09}, {"resnet101", 314, 44549160, 7.80}, {"inception3", 284, 23834568, 5.71},
    {"vgg16", 32, 138357544, 15.47},   {"hepcnn", 12, 594178, 0},          {"cosmogan", 34, 16408322, 0},
};

TEST(Models, HaveThePublishedCounts) {
  for (const Published& each : kPublished) {
    Result<Model> model = find_model(each.key);
    ASSERT_TRUE(model) << each.key;
    std::size_t tensors = 0;
    for (const Layer& layer : model->layers) {
      tensors += layer.tensors.size();
    }
    EXPECT_EQ(tensors, each.tensors) << each.key;
    EXPECT_EQ(model->parameters(), each.parameters) << each.key;
    if (each.gmacs > 0) {
      EXPECT_NEAR(model->macs() * 1e-9, each.gmacs, 0.01 * each.gmacs) << each.key;
    }
    EXPECT_GT(model->samples_per_second, 0) << each.key;
  }
}

TEST(Models, AllNamesAreKnown) {
  EXPECT_EQ(model_keys().size(), std::size(kPublished));
  for (const std::string& key : model_keys()) {
    EXPECT_TRUE(find_model(key)) << key;
  }
}

TEST(Models, RatesThatNobodyPublishedFollowFromMultiplications) {
  const Model resnet50 = find_model("resnet50").value();
  const Model resnet101 = find_model("resnet101").value();
  EXPECT_NEAR(resnet101.samples_per_second * resnet101.macs(), resnet50.samples_per_second * resnet50.macs(),
              0.01 * resnet50.samples_per_second * resnet50.macs());
  const Model hepcnn = find_model("hepcnn").value();
  const Model cosmogan = find_model("cosmogan").value();
  EXPECT_NEAR(cosmogan.samples_per_second * cosmogan.macs(), hepcnn.samples_per_second * hepcnn.macs(),
              0.01 * hepcnn.samples_per_second * hepcnn.macs());
}

TEST(Models, AnUnknownNameIsToldTheOthers) {
  EXPECT_THAT(find_model("alexnet").status().message(),
              testing::HasSubstr("no model 'alexnet'; expected one of resnet50, inception3, "));
}

}  // namespace
}  // namespace ronde::plan
