// The last rank exits in order without shutdown, while the others still need it.
#include "ranks/leave_first.h"

namespace ronde::test {
namespace {

TEST(LeaveFirst, TheOthersCallsSayWhoHasLeft) { leave_first(size() - 1); }

TEST(LeaveFirst, ThenInitSaysWhoIsMissing) { expect_missing(size() - 1); }

}  // namespace
}  // namespace ronde::test
