#include "store/rendezvous_text.h"

namespace ronde::store {

Status missing_ranks(const std::string& scope, const std::vector<bool>& come, Nanoseconds limit) {
  std::string missing;
  std::size_t count = 0;
  for (std::size_t rank = 0; rank < come.size(); ++rank) {
    if (!come[rank]) {
      missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
      ++count;
    }
  }
  const double seconds = static_cast<double>(limit) / static_cast<double>(kSecond);
  std::string text = std::to_string(seconds);
  text.erase(text.find('.') + 2);
  return Status::error(Code::timed_out, "Timed out after " + text + " s: " + std::to_string(come.size() - count) +
                                            " of " + std::to_string(come.size()) + " ranks have come to '" + scope +
                                            "'; missing: rank " + missing +
                                            ". Has every rank of the job been started, and does each call init?");
}

Status claim_refused(const std::string& scope, int rank, int size) {
  return Status::error(Code::invalid_argument,
                       "rank " + std::to_string(rank) + " of " + std::to_string(size) + " cannot join '" + scope +
                           "': another process has claimed this rank, or the ranks disagree about how many they are");
}

Status met_without(const Status& missing, int rank) {
  return Status::error(missing.code(), missing.message() +
                                           " All ranks had met there before this process came: another " +
                                           "one is, or was, rank " + std::to_string(rank) + " of the job");
}

}  // namespace ronde::store
