#include "launch/binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace ronde::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Two nodes of two physical cores with two threads each; threads 0 to 3 are the cores' first ones.
class BindingTest : public testing::Test {
 protected:
  BindingTest()
      : root_(testing::TempDir() + "/binding_test." + testing::UnitTest::GetInstance()->current_test_info()->name()) {
    write("node/node0/cpulist", "0-1,4-5");
    write("node/node1/cpulist", "2-3,6-7");
    for (int thread = 0; thread < 8; ++thread) {
      const std::string topology = "cpu/cpu" + std::to_string(thread) + "/topology/";
      write(topology + "core_id", std::to_string(thread % 4));
      write(topology + "physical_package_id", std::to_string(thread % 4 / 2));
    }
  }
  ~BindingTest() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path whole = root_ + "/sys/devices/system/" + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text << "\n";
  }

  const std::string root_;
};

TEST_F(BindingTest, ThreadsOfACoreStandSideBySide) {
  EXPECT_THAT(cores_by_node({0, 1, 2, 3, 4, 5, 6, 7}, root_),
              ElementsAre(ElementsAre(0, 4, 1, 5), ElementsAre(2, 6, 3, 7)));
  EXPECT_THAT(cores_by_node({1, 6, 7}, root_), ElementsAre(ElementsAre(1), ElementsAre(6, 7)))
      << "what the mask leaves";
  EXPECT_THAT(cores_by_node({1, 6, 7}, root_ + "/nowhere"), ElementsAre(ElementsAre(1, 6, 7)));
}

TEST_F(BindingTest, RanksGetEqualShares) {
  const CoresByNode nodes = cores_by_node({0, 1, 2, 3, 4, 5, 6, 7}, root_);
  const auto shares = [&](Binding binding, int ranks) {
    std::vector<std::vector<int>> all;
    for (int rank = 0; rank < ranks; ++rank) {
      all.push_back(cores_of_rank(binding, nodes, rank, ranks));
    }
    return all;
  };
  EXPECT_THAT(shares(Binding::core, 2), ElementsAre(ElementsAre(0, 4, 1, 5), ElementsAre(2, 6, 3, 7)));
  EXPECT_THAT(shares(Binding::core, 3), ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2, 6)));
  EXPECT_THAT(shares(Binding::core, 10).at(8), ElementsAre(0)) << "more ranks than cores: they share";
  EXPECT_THAT(shares(Binding::core, 10).at(9), ElementsAre(4));
  EXPECT_THAT(shares(Binding::numa, 3), ElementsAre(nodes[0], nodes[0], nodes[1]));
  EXPECT_THAT(shares(Binding::numa, 1), ElementsAre(nodes[0]));
  EXPECT_THAT(shares(Binding::none, 2), ElementsAre(IsEmpty(), IsEmpty()));
}

TEST_F(BindingTest, NamesAreChecked) {
  EXPECT_EQ(parse_binding("numa").value(), Binding::numa);
  EXPECT_EQ(parse_binding("socket").status().message(),
            "'socket' is no way to bind ranks; expected none, core or numa");
}

}  // namespace
}  // namespace ronde::launch
