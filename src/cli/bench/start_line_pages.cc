#include "cli/bench/start_line_pages.h"

#include <ronde/ronde.h>
#include <unistd.h>

#include <cstdint>

#include "cli/bench/job_call.h"
#include "cli/measuring/timing/own_core.h"

namespace ronde::cli {

std::string StartLinePages::share(int rank, int ranks) {
  const std::size_t bytes = sizeof(StartLineEntry) * static_cast<std::size_t>(ranks);
  std::int64_t where[2] = {-1, -1};
  if (rank == 0) {
    pages_ = std::make_unique<SharedPages>(SharedPages::create(bytes));
    where[0] = getpid();
    where[1] = pages_->descriptor();
  }
  const std::int64_t count = 2;
  const ronde_tensor tensor = {sizeof tensor, where, &count, 1, RONDE_INT64, RONDE_HOST, 0};
  if (call_in_job(RONDE_BROADCAST, "bench.start_line", &tensor) != RONDE_OK) {
    return std::string("sharing the start line: ") + ronde_last_error();
  }
  if (rank != 0) {
    pages_ = std::make_unique<SharedPages>(SharedPages::open(where[0], where[1], bytes));
  }
  // Rank 0 has the descriptor open until all have mapped it.
  if (call_in_job(RONDE_BARRIER, "bench.start_line.mapped", nullptr) != RONDE_OK) {
    return std::string("sharing the start line: ") + ronde_last_error();
  }
  return pages_->is_mapped() ? "" : "the start line's shared memory cannot be mapped";
}

StartLine StartLinePages::line(int rank, int ranks) const {
  return StartLine(static_cast<StartLineEntry*>(pages_->data()), rank, ranks, ranks <= usable_cores());
}

}  // namespace ronde::cli
