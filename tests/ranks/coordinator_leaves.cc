// Rank 0, which coordinates, exits in order without shutdown, while the others still need it.
#include "ranks/leave_first.h"

namespace ronde::test {
namespace {

TEST(CoordinatorLeaves, TheOthersCallsSayWhoHasLeft) { leave_first(0); }

TEST(CoordinatorLeaves, ThenInitSaysWhoIsMissing) { expect_missing(0); }

}  // namespace
}  // namespace ronde::test
