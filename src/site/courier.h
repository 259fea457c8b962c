// Couriers: how a job's ranks hear from rank 0 where they meet and what the job's key is, through something that the
// site authenticates.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "site/seal.h"
#include "site/started.h"

namespace ronde::site {

/// One rank's end. One thread at a time; what it holds it lets go of at its end, when all ranks must have met.
class Courier {
 public:
  virtual ~Courier() = default;

  /// Of rank 0: makes `text` (not empty, of at most kMostTextBytes) known and gives it back. Of others: `text` is
  /// empty; gives rank 0's. Blocks up to `limit`, then TIMED_OUT with a sentence. May be called again.
  virtual Result<std::string> carry(const std::string& text, Nanoseconds limit) = 0;
  /// Whether what it brings may be an earlier job's, which nobody serves any more: then it is asked again.
  virtual bool may_be_stale() const { return false; }
  /// Whether it is to be kept until the process ends.
  virtual bool lasts() const { return false; }
};
inline constexpr std::size_t kMostTextBytes = 480;

/// The PMI-1 server at the descriptor that PMI_FD names: Hydra's, or srun's with --mpi=pmi2. The job's ranks call it
/// together. `fd` is not closed: an MPI library of this process may speak there too, before and afterwards. At its end
/// it says farewell, without which Hydra takes the end of a process for a failure.
std::unique_ptr<Courier> pmi_courier(int fd, int rank, int size);

/// The PMIx server of Open MPI or of srun --mpi=pmix, by libpmix, which is opened now and stays open. SYSTEM_ERROR if
/// it is not there or finds no server. The job's ranks call it together.
Result<std::unique_ptr<Courier>> pmix_courier(int rank, const Variables& variables);

/// A file in a folder that only this user can enter, on one host: named after the job.
std::unique_ptr<Courier> file_courier(const std::string& job, int rank, std::vector<std::string> parents);

/// A desk that rank 0 opens at `own_address`, at the first free one of `ports`, and at which the others ask, by
/// `first_host`, until it answers.
struct DeskPlace {
  std::string own_address;  ///< of rank 0
  std::string first_host;   ///< of the others
  std::vector<std::uint16_t> ports;
};
std::unique_ptr<Courier> desk_courier(DeskPlace place, int rank, std::unique_ptr<Seal> seal);

/// The ports at which the job's desk may be: of RONDE_PORT_RANGE ("29600-29699"), else 8 between 20000 and 28000 that
/// the job's name determines. INVALID_ARGUMENT if the range cannot be read.
Result<std::vector<std::uint16_t>> desk_ports(const std::string& job, const Variables& variables);

}  // namespace ronde::site
