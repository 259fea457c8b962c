// What the peers' programs have in common: `ronde bench`'s own loop, checks and output around another engine.
//
//   PROGRAM allreduce --peer NAME --bytes 8,1K --json ...      the options of `ronde bench`, less --shared
//
// PEER_BENCH_LINE    a file in memory, zeroed, where the ranks meet (StartLine); made by who starts them
// PEER_BENCH_CORES   how many cores the ranks have together: a launcher's binding hides it from the rank
// PEER_BENCH_RANK, PEER_BENCH_SIZE
//                    the rank's place, where the engine has no launcher of its own (else what the launcher says by
//                    PMI_RANK and PMI_SIZE)
#pragma once

#include <functional>
#include <memory>

#include "cli/measuring/timing/contestant.h"
#include "cli/measuring/timing/shared_pages.h"
#include "cli/measuring/timing/start_line.h"

namespace ronde::peers {

/// The rank's place by the environment.
struct Place {
  int rank = 0;
  int size = 1;
};
Place place_from_environment();

/// How many ranks the pages of PEER_BENCH_LINE have lines for, twice: the measuring loop's and, if one is wanted, a
/// second set of the contestant's own.
inline constexpr int kMostRanks = 64;
enum class Lines { of_loop, of_contestant };
cli::StartLine start_line(int rank, int size, Lines which = Lines::of_loop);

/// Joins the job; nullptr where it cannot, after saying why on standard error.
using Join = std::function<std::unique_ptr<cli::Contestant>(const cli::BenchOptions& options)>;

/// A program's main(): its exit code.
int peer_main(int argc, char** argv, const Join& join);

/// A contestant whose results lie in the outputs that it was given.
class PeerContestant : public cli::Contestant {
 public:
  int rank() const final { return place_.rank; }
  int size() const final { return place_.size; }
  std::string failure() const final { return failure_; }
  const void* result(std::size_t i) const final { return tensors_[i].output; }
  void close() override {
    tensors_.clear();
    Contestant::close();
  }

 protected:
  Place place_;
  std::string failure_;
  std::vector<cli::TensorPlace> tensors_;
};

}  // namespace ronde::peers
