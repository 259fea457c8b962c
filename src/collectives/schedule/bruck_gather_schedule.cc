#include "collectives/schedule/bruck_gather_schedule.h"

#include <utility>

#include "collectives/schedule/turns.h"

namespace ronde::collectives {

namespace {

class BruckGatherSchedule final : public Schedule {
 public:
  BruckGatherSchedule(int rank, std::vector<std::size_t> bytes, std::size_t turn)
      : own_(static_cast<std::size_t>(rank)),
        ranks_(bytes.size()),
        bytes_(std::move(bytes)),
        radices_(best_turns(ranks_, turn)),
        ends_(ranks_),
        places_(ranks_) {
    std::size_t end = 0;
    for (std::size_t block = 0; block < ranks_; ++block) {
      const std::size_t of = (own_ + block) % ranks_;
      places_[of] = end;
      ends_[block] = end += bytes_[of];
    }
  }

  std::size_t stages() const override { return 1 + radices_.size(); }
  bool keeps_what_it_sends() const override { return true; }
  std::size_t scratch_bytes() const override { return ends_.back(); }
  std::size_t hears_all_by() const override { return stages(); }
  const std::vector<int>& inputs(std::size_t) const override { return none_; }
  std::size_t gathered(std::size_t input) const override { return places_[input]; }

  void describe(std::size_t index, Stage& stage) const override {
    stage.after = index;
    if (index == 0) {
      stage.work = Work::copy_to_scratch;
      stage.own = {static_cast<int>(own_), 0, bytes_[own_]};
      return;
    }
    for_each_message(radices_, index - 1, ranks_, [&](std::size_t step, std::size_t count) {
      if (const Piece piece = blocks(0, count); piece.bytes() > 0) {
        stage.outgoing.push_back({static_cast<int>((own_ + ranks_ - step) % ranks_), piece});
      }
      if (const Piece piece = blocks(step, count); piece.bytes() > 0) {
        stage.incoming.push_back({static_cast<int>((own_ + step) % ranks_), piece});
      }
    });
    if (index + 1 == stages()) {
      stage.work = Work::put_gathered;
      stage.own = {kScratch, 0, ends_.back()};
    }
  }

 private:
  Piece blocks(std::size_t begin, std::size_t count) const {
    return {kScratch, begin == 0 ? 0 : ends_[begin - 1], ends_[begin + count - 1]};
  }

  const std::size_t own_;
  const std::size_t ranks_;
  const std::vector<std::size_t> bytes_;  ///< by rank
  const std::vector<std::size_t> radices_;
  std::vector<std::size_t> ends_;    ///< by block, in scratch memory
  std::vector<std::size_t> places_;  ///< by rank, where its block begins there
  const std::vector<int> none_;
};

}  // namespace

std::unique_ptr<Schedule> bruck_allgather_schedule(int rank, std::vector<std::size_t> bytes, std::size_t turn) {
  return std::make_unique<BruckGatherSchedule>(rank, std::move(bytes), turn);
}

}  // namespace ronde::collectives
