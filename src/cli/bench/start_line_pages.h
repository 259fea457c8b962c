// Where the ranks of a job of Ronde have their start line.
#pragma once

#include <memory>
#include <string>

#include "cli/measuring/timing/shared_pages.h"
#include "cli/measuring/timing/start_line.h"

namespace ronde::cli {

/// Rank 0 makes the pages and tells the others where they are.
class StartLinePages {
 public:
  /// Collective; between ronde_init and ronde_shutdown. Why it failed, as a sentence; empty on success.
  std::string share(int rank, int ranks);
  /// This rank's view. Requires: shared.
  StartLine line(int rank, int ranks) const;

 private:
  std::unique_ptr<SharedPages> pages_;
};

}  // namespace ronde::cli
