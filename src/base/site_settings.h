// What a site says for every job on its machines: settings in /etc/ronde.conf, as NCCL has them in /etc/nccl.conf.
//
//     # Data moves through the MPI of this cluster.
//     RONDE_BACKEND=mpi
//     RONDE_PORT_RANGE=29600-29699
//
// A line is NAME=VALUE; white space around both is no part of them, and a line that begins with '#' says nothing. A
// value counts where the environment has neither the variable nor Horovod's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ronde {

class SiteSettings {
 public:
  /// The settings of a file's text. INVALID_ARGUMENT, with file and line, where a line has another form, says a name
  /// a second time, or a name that a site cannot set.
  static Result<SiteSettings> parse(const std::string& path, std::string_view text);

  std::optional<std::string> find(std::string_view name) const;
  /// Where they are from; empty: there are none.
  const std::string& path() const { return path_; }
  /// Names and values in the file's order.
  const std::vector<std::pair<std::string, std::string>>& values() const { return values_; }

 private:
  std::string path_;
  std::vector<std::pair<std::string, std::string>> values_;
};

/// The settings of a file. `may_be_absent`: no file means no settings. AUTH_FAILED if others than its
/// owner may write to it; SYSTEM_ERROR if it cannot be read; INVALID_ARGUMENT as parse() says, and for a file of
/// more than 64 KiB.
Result<SiteSettings> read_site_settings(const std::string& path, bool may_be_absent);

/// Those of this host, read at the first call: of the file that RONDE_SITE_FILE names, else of /etc/ronde.conf if it is
/// there. Any thread.
const Result<SiteSettings>& site_settings();

}  // namespace ronde
