#include "collectives/shm/barrier.h"

namespace ronde::collectives {

namespace {

class Barrier final : public Operation {
 public:
  explicit Barrier(HostChannel& channel) : channel_(channel), tick_(channel.begin(1)) {
    channel_.publish_for_all(tick_);
  }

  Progress advance() override { return channel_.all_published(tick_) ? Progress::done : Progress::idle; }
  std::vector<int> waiting_for() const override { return channel_.not_published(tick_); }

 private:
  HostChannel& channel_;
  const std::uint64_t tick_;
};

}  // namespace

std::unique_ptr<Operation> flag_barrier(HostChannel& channel) { return std::make_unique<Barrier>(channel); }

}  // namespace ronde::collectives
