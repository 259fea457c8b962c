// Which ranks are on one host with which.
#pragma once

#include <string>
#include <vector>

namespace ronde::site {

/// A rank's place on its host, and among the ranks of other hosts with the same local rank; hosts count in order of
/// their lowest ranks.
struct Layout {
  int local_rank = 0, local_size = 1;
  int cross_rank = 0, cross_size = 1;
};

/// `hosts`: by rank, something that tells its host from others.
Layout layout_of(const std::vector<std::string>& hosts, int rank);

}  // namespace ronde::site
