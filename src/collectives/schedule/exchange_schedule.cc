#include "collectives/schedule/exchange_schedule.h"

#include <algorithm>
#include <utility>

namespace ronde::collectives {

namespace {

class ExchangeSchedule final : public Schedule {
 public:
  explicit ExchangeSchedule(Exchange exchange)
      : exchange_(std::move(exchange)),
        ranks_(exchange_.outgoing.size()),
        own_(static_cast<std::size_t>(exchange_.rank)),
        stages_(std::max((exchange_.longest + exchange_.chunk - 1) / exchange_.chunk,
                         exchange_.tells_all ? std::size_t{1} : std::size_t{0})) {}

  std::size_t stages() const override { return stages_; }
  bool keeps_what_it_sends() const override { return exchange_.keeps; }
  /// Nothing is sent of what is written. A peer that has finished as many stages as it can sends the third from here.
  std::size_t written_ahead() const override { return exchange_.keeps ? 3 : 0; }
  const std::vector<int>& inputs(std::size_t) const override { return exchange_.inputs; }

  void describe(std::size_t index, Stage& stage) const override {
    // The next stage but one may be on its way while this one is worked on; what is further ahead stays where it is.
    stage.after = index < 2 ? 0 : index - 1;
    const bool tells = exchange_.tells_all && index == 0;
    for (std::size_t distance = 1; distance < ranks_; ++distance) {
      const std::size_t to = (own_ + distance) % ranks_;
      const std::size_t from = (own_ + ranks_ - distance) % ranks_;
      if (const Piece piece = chunk(exchange_.outgoing[to], list_to(to), index); piece.bytes() > 0 || tells) {
        stage.outgoing.push_back({static_cast<int>(to), piece});
      }
      if (const Piece piece = chunk(exchange_.incoming[from], list_from(from), index); piece.bytes() > 0 || tells) {
        stage.incoming.push_back({static_cast<int>(from), piece});
      }
    }
    stage.own = chunk(exchange_.outgoing[own_], list_to(own_), index);
    if (stage.own.bytes() > 0) {
      stage.work = !exchange_.reduces ? Work::carry_over : exchange_.inputs.empty() ? Work::empty : Work::reduce;
    }
  }

 private:
  int list_to(std::size_t to) const { return exchange_.one_list ? 0 : static_cast<int>(to); }
  int list_from(std::size_t from) const {
    return exchange_.reduces ? kKept : exchange_.one_list ? 0 : static_cast<int>(ranks_ + from);
  }
  Piece chunk(std::size_t bytes, int list, std::size_t index) const {
    const std::size_t begin = std::min(index * exchange_.chunk, bytes);
    return {list, begin, std::min(begin + exchange_.chunk, bytes)};
  }

  const Exchange exchange_;
  const std::size_t ranks_;
  const std::size_t own_;
  const std::size_t stages_;
};

}  // namespace

std::unique_ptr<Schedule> exchange_schedule(Exchange exchange) {
  return std::make_unique<ExchangeSchedule>(std::move(exchange));
}

}  // namespace ronde::collectives
