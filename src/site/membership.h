// Membership: this process as a rank of a job that something else than `ronde run` has started. It finds out who it is,
// where the ranks meet (rank 0 serves the store) and what the job's key is.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/job_key.h"
#include "base/status.h"
#include "site/courier.h"
#include "site/layout.h"
#include "site/started.h"
#include "store/private_folder.h"
#include "store/store_server.h"

namespace ronde::site {

/// What is to be known of a job before its ranks meet.
struct Joined {
  int rank = 0;
  int size = 1;
  Layout layout;
  std::string store;    ///< its address
  std::string key;      ///< 64 hexadecimal digits
  std::string address;  ///< of this host, as the others of the job reach it
};

class Membership {
 public:
  /// Collective over the job's ranks; blocks up to `limit`. Null if nobody has started more than this process. Each
  /// error is one sentence that says what to do.
  static Result<std::unique_ptr<Membership>> join(const Variables& variables, Nanoseconds limit);

  const Joined& joined() const { return joined_; }
  /// Says farewell to the launcher: the process is about to end.
  void leave() { courier_.reset(); }

 private:
  Membership() = default;

  Result<std::string> serve(const Started& started, const std::string& own_address);

  Joined joined_;
  std::optional<store::PrivateFolder> folder_;  ///< of rank 0 on one host; the server's socket is in it
  std::unique_ptr<Courier> courier_;            ///< if it lasts
  std::unique_ptr<store::StoreServer> server_;  ///< of rank 0, until the process ends
};

/// How this job's ranks hear from rank 0; `name` says it in a word, for the log. INVALID_ARGUMENT, in a sentence with
/// the ways out, if nothing that can be trusted connects them.
Result<std::unique_ptr<Courier>> courier_for(const Started& started, const std::string& own_address,
                                             const Variables& variables, std::string& name);

/// This host's address for the others of the job: RONDE_ADDRESS, else by RONDE_SOCKET_IFNAME, else from where it
/// reaches `towards` (a name or numbers), unless that is empty or a name that it takes for a loopback, else
/// address_for_others().
/// INVALID_ARGUMENT if RONDE_SOCKET_IFNAME fits none.
Result<std::string> choose_own_address(const std::string& towards, const Variables& variables);

}  // namespace ronde::site
