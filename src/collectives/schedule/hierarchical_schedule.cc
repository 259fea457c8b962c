#include "collectives/schedule/hierarchical_schedule.h"

#include <algorithm>
#include <array>

#include "collectives/slices.h"

namespace ronde::collectives {

namespace {

constexpr int kFromInputs = 0;
constexpr int kFromOutputs = 1;
constexpr std::size_t kPhases = 4;
/// By how many steps each phase of a chunk comes after its first: what hosts have sent each other of so many chunks may
/// be on its way before the first of them must be there.
constexpr std::array<std::size_t, kPhases> kLag = {0, 1, 5, 6};
/// Chunks whose partial sums are in scratch memory: the first phase of a chunk needs the place of one whose third is
/// over.
constexpr std::size_t kWindow = kLag[2] + 1;

class HierarchicalSchedule final : public Schedule {
 public:
  HierarchicalSchedule(int rank, const RankLayout& layout, std::size_t bytes, std::size_t slice, std::size_t rails)
      : host_(layout.host_of(rank)),
        hosts_(layout.hosts()),
        local_(layout.local(rank)),
        rails_(static_cast<int>(rails)),
        bytes_(bytes),
        chunks_(bytes, slice * rails),
        locals_(layout.ranks_of(host_)) {
    if (is_on_rail()) {
      for (int host = 0; host < hosts_; ++host) {
        rail_.push_back(layout.ranks_of(host)[static_cast<std::size_t>(local_)]);
      }
    }
    for (auto& of_phase : stage_of_) {
      of_phase.resize(chunks_.count);
    }
    for (std::size_t step = 0; step < chunks_.count + kLag.back(); ++step) {
      for (std::size_t phase = 0; phase < kPhases; ++phase) {
        if (step >= kLag[phase] && step - kLag[phase] < chunks_.count) {
          stage_of_[phase][step - kLag[phase]] = order_.size();
          order_.push_back({phase, step - kLag[phase]});
        }
      }
    }
  }

  std::size_t stages() const override { return order_.size(); }
  bool keeps_what_it_sends() const override { return true; }
  std::size_t scratch_bytes() const override {
    return is_on_rail() ? std::min(kWindow, chunks_.count) * slice_room() : 0;
  }
  std::size_t hears_all_by() const override { return stage_of_[is_on_rail() ? 1 : 3][0] + 1; }
  std::size_t telling_stage() const override { return stage_of_[3][0]; }
  std::vector<int> told() const override {
    return is_on_rail() ? std::vector<int>(locals_.begin() + rails_, locals_.end()) : std::vector<int>();
  }
  std::size_t combinations() const override { return 2; }
  const std::vector<int>& inputs(std::size_t combination) const override {
    return !is_on_rail() ? none_ : combination == 0 ? locals_ : rail_;
  }

  void describe(std::size_t index, Stage& stage) const override {
    const auto [phase, chunk] = order_[index];
    switch (phase) {
      case 0: gather_in_host(chunk, stage); break;
      case 1: reduce_between_hosts(chunk, stage); break;
      case 2: share_between_hosts(chunk, stage); break;
      default: share_in_host(chunk, stage); break;
    }
    if (phase > 0) {
      stage.after = stage_of_[phase - 1][chunk] + 1;
    } else if (chunk >= kWindow) {
      stage.after = stage_of_[2][chunk - kWindow] + 1;
    }
  }

 private:
  struct At {
    std::size_t phase;
    std::size_t chunk;
  };

  bool is_on_rail() const { return local_ < rails_; }
  std::size_t slice_room() const {
    return slice_of({0, chunks_.bytes_each}, 0, rails_).bytes();  // the first is the largest
  }
  Range slice(std::size_t chunk, int rail) const {
    const Range whole{std::min(chunk * chunks_.bytes_each, bytes_), std::min((chunk + 1) * chunks_.bytes_each, bytes_)};
    return slice_of(whole, rail, rails_);
  }
  Range part(std::size_t chunk, int host) const { return slice_of(slice(chunk, local_), host, hosts_); }
  std::size_t in_scratch(std::size_t chunk, std::size_t at) const {
    return chunk % kWindow * slice_room() + (at - slice(chunk, local_).begin);
  }
  /// Messages of the first chunk say that this rank is there.
  static bool is_sent(const Range& range, std::size_t chunk) { return range.bytes() > 0 || chunk == 0; }
  static Piece piece(int list, const Range& range) { return {list, range.begin, range.end}; }

  /// In an order of its own for each rank, so that not all send to one at a time.
  template <typename Visit>
  void for_each_other_local(Visit&& visit) const {
    const auto count = static_cast<int>(locals_.size());
    for (int distance = 1; distance < count; ++distance) {
      const int other = (local_ + distance) % count;
      visit(other, locals_[static_cast<std::size_t>(other)]);
    }
  }
  template <typename Visit>
  void for_each_other_host(Visit&& visit) const {
    for (int distance = 1; distance < hosts_ && is_on_rail(); ++distance) {
      const int other = (host_ + distance) % hosts_;
      visit(other, rail_[static_cast<std::size_t>(other)]);
    }
  }

  void gather_in_host(std::size_t chunk, Stage& stage) const {
    const Range own = slice(chunk, local_);
    for_each_other_local([&](int other, int rank) {
      if (other < rails_ && is_sent(slice(chunk, other), chunk)) {
        stage.outgoing.push_back({rank, piece(kFromInputs, slice(chunk, other))});
      }
      if (is_on_rail() && is_sent(own, chunk)) {
        stage.incoming.push_back({rank, piece(kKept, own)});
      }
    });
    if (is_on_rail() && own.bytes() > 0) {
      stage.work = Work::reduce_to_scratch;
      stage.own = piece(kFromInputs, own);
      stage.scratch = in_scratch(chunk, own.begin);
    }
  }

  void reduce_between_hosts(std::size_t chunk, Stage& stage) const {
    if (!is_on_rail()) {
      return;
    }
    const Range own = part(chunk, host_);
    for_each_other_host([&](int host, int rank) {
      if (const Range theirs = part(chunk, host); is_sent(theirs, chunk)) {
        const std::size_t at = in_scratch(chunk, theirs.begin);
        stage.outgoing.push_back({rank, {kScratch, at, at + theirs.bytes()}});
      }
      if (is_sent(own, chunk)) {
        stage.incoming.push_back({rank, piece(kKept, own)});
      }
    });
    if (own.bytes() > 0) {
      stage.work = Work::reduce_from_scratch;
      stage.combination = 1;
      stage.own = piece(kFromInputs, own);
      stage.scratch = in_scratch(chunk, own.begin);
    }
  }

  void share_between_hosts(std::size_t chunk, Stage& stage) const {
    for_each_other_host([&](int host, int rank) {
      if (const Range own = part(chunk, host_); own.bytes() > 0) {
        stage.outgoing.push_back({rank, piece(kFromOutputs, own)});
      }
      if (const Range theirs = part(chunk, host); theirs.bytes() > 0) {
        stage.incoming.push_back({rank, piece(kFromOutputs, theirs)});
      }
    });
  }

  void share_in_host(std::size_t chunk, Stage& stage) const {
    for_each_other_local([&](int other, int rank) {
      // Rails' ranks know without it that all are there.
      const auto is_told = [&](const Range& range, bool is_rail) {
        return range.bytes() > 0 || (chunk == 0 && !is_rail);
      };
      if (is_on_rail() && is_told(slice(chunk, local_), other < rails_)) {
        stage.outgoing.push_back({rank, piece(kFromOutputs, slice(chunk, local_))});
      }
      if (other < rails_ && is_told(slice(chunk, other), is_on_rail())) {
        stage.incoming.push_back({rank, piece(kFromOutputs, slice(chunk, other))});
      }
    });
  }

  const int host_;
  const int hosts_;
  const int local_;
  const int rails_;
  const std::size_t bytes_;
  const Chunks chunks_;
  const std::vector<int> locals_;  ///< of this host, in order
  std::vector<int> rail_;          ///< of this rank, by host; empty if it is on none
  const std::vector<int> none_;
  std::vector<At> order_;                                   ///< by stage
  std::array<std::vector<std::size_t>, kPhases> stage_of_;  ///< by phase and chunk
};

}  // namespace

std::unique_ptr<Schedule> hierarchical_allreduce_schedule(int rank, const RankLayout& layout, std::size_t bytes,
                                                          std::size_t slice, std::size_t rails) {
  return std::make_unique<HierarchicalSchedule>(rank, layout, bytes, slice, rails);
}

}  // namespace ronde::collectives
