// Seals: how rank 0's desk knows that who asks is of this job's user, and who asks that it is rank 0 that answers, on a
// network where anybody may do either.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/job_key.h"
#include "base/status.h"
#include "site/variables.h"

namespace ronde::site {

using Bytes = std::vector<std::byte>;
Bytes joined(std::span<const std::byte> first, std::span<const std::byte> second);

class Seal {
 public:
  virtual ~Seal() = default;
  /// Of who asks: what to send; another each time.
  virtual Result<Bytes> ask() = 0;
  /// Of rank 0: `text`, sealed for who has sent this. AUTH_FAILED if it may not have it.
  virtual Result<Bytes> answer(std::span<const std::byte> asked, const std::string& text) = 0;
  /// Of who asked last: the text. AUTH_FAILED if that is no answer of rank 0's to it.
  virtual Result<std::string> open(std::span<const std::byte> answered) = 0;
};

/// By a key that both have, for the job of this name.
std::unique_ptr<Seal> key_seal(const JobKey& key, const std::string& job);

/// By munge: credentials that only this user can read, on the cluster's hosts. Opens libmunge now. SYSTEM_ERROR if that
/// or its daemon is not there.
Result<std::unique_ptr<Seal>> munge_seal(const std::string& job);

/// By nothing: whoever asks is answered, and whoever answers is believed. Who only listens on the network does not
/// learn the text (X25519).
std::unique_ptr<Seal> open_seal(const std::string& job);

/// The key of RONDE_KEY, else of the file that RONDE_KEY_FILE names, which must be this user's own, of mode 0600 or
/// stricter, and hold 64 hexadecimal digits; nothing if neither is set. INVALID_ARGUMENT or AUTH_FAILED with a
/// sentence.
Result<std::optional<JobKey>> key_of_user(const Variables& variables);

}  // namespace ronde::site
