#include "transport/arena/page_ranges.h"

#include <gtest/gtest.h>

namespace ronde::transport {
namespace {

using Ranges = std::vector<PageRanges::Range>;

TEST(PageRanges, TakeWholePagesOfBytes) {
  EXPECT_EQ(PageRanges::whole_pages(0, 1, 4096), (PageRanges::Range{0, 4096}));
  EXPECT_EQ(PageRanges::whole_pages(4095, 2, 4096), (PageRanges::Range{0, 8192}));
  EXPECT_EQ(PageRanges::whole_pages(4096, 4096, 4096), (PageRanges::Range{4096, 8192}));
}

TEST(PageRanges, SayWhatIsInThemAndWhatIsNot) {
  PageRanges ranges;
  EXPECT_EQ(ranges.common_with({0, 100}), Ranges());
  EXPECT_EQ(ranges.missing_from({0, 100}), (Ranges{{0, 100}}));
  ranges.add({40, 50});
  ranges.add({10, 20});
  EXPECT_EQ(ranges.common_with({0, 45}), (Ranges{{10, 20}, {40, 45}}));
  EXPECT_EQ(ranges.missing_from({15, 60}), (Ranges{{20, 40}, {50, 60}}));
  EXPECT_EQ(ranges.missing_from({12, 20}), Ranges());
  EXPECT_EQ(ranges.common_with({20, 40}), Ranges());
}

TEST(PageRanges, GrowTogether) {
  PageRanges ranges;
  ranges.add({10, 20});
  ranges.add({30, 40});
  ranges.add({20, 30});
  EXPECT_EQ(ranges.common_with({0, 100}), (Ranges{{10, 40}}));
  ranges.add({0, 100});
  ranges.add({5, 6});
  EXPECT_EQ(ranges.common_with({0, 200}), (Ranges{{0, 100}}));
}

}  // namespace
}  // namespace ronde::transport
