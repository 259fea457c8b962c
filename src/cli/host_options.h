// The options that say on which hosts a command works, and how it gets there.
#pragma once

#include <string>
#include <vector>

#include "launch/host_list.h"
#include "launch/hosts_job.h"

namespace CLI {
class App;
}

namespace ronde::cli {

struct HostOptions {
  std::string hosts;
  std::string hostfile;
  std::string folder;
  std::string remote_python;
  std::string interfaces;
  double start_timeout_s = 60;
  std::string ssh;                                   ///< how to log in; empty: not said
  launch::Login::Way way = launch::Login::Way::ssh;  ///< to hosts that are not this one
  bool verbose = false;
};

/// The reference is kept until the command line has been read.
void add_host_options(CLI::App& command, HostOptions& options);

/// The hosts of the options that `ranks` ranks (0: as many as there are slots) run on; none: not said. Throws
/// CLI::ValidationError.
std::vector<launch::HostSlots> hosts_of(const HostOptions& options, int ranks);

/// The hosts of the batch job that this command is a part of (launch/allocation.h), where the options say none, and how
/// they are reached; none outside of one, and where this host alone is to take `ranks` ranks. Throws
/// CLI::ValidationError.
std::vector<launch::HostSlots> hosts_of_batch_job(HostOptions& options, int ranks);

/// A job on them, without a command yet.
launch::HostsJob job_on(const HostOptions& options, std::vector<launch::HostSlots> hosts);

}  // namespace ronde::cli
