#include "launch/job_outcome.h"

#include <algorithm>
#include <utility>

namespace ronde::launch {

JobOutcome::JobOutcome(std::string program, int ranks, std::vector<std::string> hosts, bool starts_ranks)
    : program_(std::move(program)), ranks_(ranks), hosts_(std::move(hosts)), starts_ranks_(starts_ranks) {}

void JobOutcome::note_failed_start(int rank, bool of_exec, int error_number) {
  start_failure_ = start_failure(rank, program_, of_exec, error_number);
}

bool JobOutcome::note_end(const RankEnd& end, bool is_stopping) {
  ends_.push_back(end);
  const bool is_first_failure = end.failed() && !has_failed_ && !is_stopping;
  has_failed_ |= is_first_failure;
  return is_first_failure;
}

void JobOutcome::note_loss(const std::string& why) {
  if (lost_.empty()) {
    lost_ = why;
    failed_before_loss_ = has_failed_ && std::any_of(ends_.begin(), ends_.end(),
                                                     [](const RankEnd& end) { return end.failed() && !end.let_down; });
  }
}

JobEnd JobOutcome::verdict(int stopped_by, Nanoseconds stopped_at) const {
  JobEnd end;
  if (!start_failure_.sentence.empty()) {
    end = {start_failure_.exit_code, start_failure_.sentence};
  } else if (has_failed_) {
    std::vector<RankEnd> ends = ends_;
    const std::size_t first = put_first_failure_first(ends);
    const auto found = started_.find(ends[first].rank);
    const Started started = found == started_.end() ? Started{began_, 0} : found->second;
    end = {ends[first].exit_code(), starts_ranks_
                                        ? launcher_sentence(program_, ends[first], started.moment)
                                        : failure_sentence(ends, first, hosts_[started.host], started.moment)};
  } else if (stopped_by != 0 && ends_before_stop_ < static_cast<std::size_t>(ranks_)) {
    const std::size_t told = starts_ranks_ ? ends_.size() : ends_before_stop_;  // how a launcher then ends says little
    end = {128 + stopped_by, stop_sentence(stopped_by, ends_, told, began_, stopped_at)};
  }
  if (failed_before_loss_ && !lost_.empty()) {
    end.sentence += "; then " + lost_;
  } else if (!lost_.empty()) {
    end = {kLauncherExit, lost_};
  }
  if (unkillable_ > 0) {
    end.exit_code = end.exit_code == 0 ? kLauncherExit : end.exit_code;
    end.sentence += (end.sentence.empty() ? "" : "; ") + std::to_string(unkillable_) + " processes could not be killed";
  }
  return end;
}

}  // namespace ronde::launch
