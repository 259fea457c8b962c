#include "engine/plans/executor.h"

#include <iterator>
#include <utility>

namespace ronde::engine {

void Executor::enqueue(PlanRun run) {
  run.table = std::exchange(table_of_next_, std::nullopt);
  queue_.push_back(std::move(run));
}

void Executor::enqueue_launch(std::uint32_t bucket) {
  PlanRun run;
  run.bucket = bucket;
  enqueue(std::move(run));
}

Progress Executor::advance(Nanoseconds now) {
  if (queue_.empty() || !failure_) {
    return Progress::idle;
  }
  if (!operation_) {
    PlanRun& run = queue_.front();
    if (run.table) {
      backend_.set_thresholds(*run.table);
    }
    if (run.bucket) {
      const std::uint32_t bucket = *run.bucket;
      queue_.pop_front();
      launch_(bucket);
      return Progress::again;
    }
    if (Status supported = backend_.supports(run.plan); !supported) {
      const PlanRun refused = std::move(run);
      queue_.pop_front();
      finished_(refused, supported);
      return Progress::again;
    }
    started_(run);
    Result<std::unique_ptr<Operation>> launched = backend_.launch(run.plan);
    if (!launched) {
      failure_ = launched.status();
      return Progress::again;
    }
    operation_ = std::move(launched).value();
    deadline_ = later(now, run.timeout);
  }
  const Progress progress = operation_->advance();
  if (progress == Progress::again) {
    deadline_ = later(now, queue_.front().timeout);  // while bytes move nobody is late
  }
  if (progress != Progress::done) {
    return progress;
  }
  operation_.reset();
  const PlanRun run = std::move(queue_.front());
  queue_.pop_front();
  finished_(run, {});
  return Progress::again;
}

std::vector<int> Executor::waiting_for() const { return operation_ ? operation_->waiting_for() : std::vector<int>{}; }

std::vector<PlanRun> Executor::abandon() {
  operation_.reset();
  std::vector<PlanRun> runs(std::make_move_iterator(queue_.begin()), std::make_move_iterator(queue_.end()));
  queue_.clear();
  return runs;
}

}  // namespace ronde::engine
