// RankLayout: which ranks of a group share a host's memory.
#pragma once

#include <cstddef>
#include <vector>

namespace ronde::collectives {

class RankLayout {
 public:
  /// `first_of`: by rank, the lowest rank of its host.
  explicit RankLayout(const std::vector<int>& first_of);
  /// Every rank on a host of its own.
  static RankLayout apart(int ranks);

  int ranks() const { return static_cast<int>(host_of_.size()); }
  int hosts() const { return static_cast<int>(ranks_.size()); }
  int host_of(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  /// In order. Hosts are in the order of their lowest ranks.
  const std::vector<int>& ranks_of(int host) const { return ranks_[static_cast<std::size_t>(host)]; }
  /// Which of its host's ranks it is.
  int local(int rank) const { return local_[static_cast<std::size_t>(rank)]; }
  std::size_t fewest() const { return fewest_; }  ///< ranks that a host has
  std::size_t most() const { return most_; }
  bool is_in_order() const { return is_in_order_; }  ///< all ranks of a host come before those of the next
  /// There is something to be had from it: several hosts, and several ranks on one of them.
  bool is_hierarchy() const { return hosts() > 1 && most_ > 1; }

 private:
  std::vector<std::vector<int>> ranks_;
  std::vector<int> host_of_;
  std::vector<int> local_;
  std::size_t fewest_ = 0;
  std::size_t most_ = 0;
  bool is_in_order_ = true;
};

}  // namespace ronde::collectives
