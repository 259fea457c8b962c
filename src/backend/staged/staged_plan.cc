#include "backend/staged/staged_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "collectives/budget.h"
#include "collectives/parts.h"
#include "reduce/neutral.h"

namespace ronde::backend {

namespace {

using collectives::GatherList;
using collectives::kBudgetBytes;
using collectives::Parts;

bool is_whole(OpKind kind) {
  return kind == OpKind::allreduce || kind == OpKind::broadcast || kind == OpKind::scan || kind == OpKind::exscan;
}

void append(GatherList& list, const GatherList& more) {
  for (std::size_t i = 0; i < more.segment_count(); ++i) {
    const GatherList::Segment& segment = more.segment(i);
    list.append(segment.from, segment.to, segment.end - (i == 0 ? 0 : more.segment(i - 1).end));
  }
}

class StagedPlan final : public Operation {
 public:
  StagedPlan(CollectiveLibrary& library, const Plan& plan, std::optional<StagedReduction> reduction,
             StagingPair& staging)
      : library_(library), plan_(plan), reduction_(std::move(reduction)), staging_(staging) {
    const std::size_t unit = reduction_ ? reduction_->element_bytes() : 1;
    if (plan.kind == OpKind::barrier) {
      return;
    }
    if (is_whole(plan.kind)) {
      sent_ = received_ = GatherList(plan);
    } else {
      list_parts(unit);
    }
    from_ = staging.sent.take(staged(bytes_in(sent_)));
    // Whether a library writes to the result of a reduce on other ranks than the root is its own affair.
    const bool is_reduce = plan.kind == OpKind::reduce;
    const std::size_t result = bytes_in(is_reduce ? sent_ : received_);
    to_ = is_in_place() ? from_ : staging.received.take(reduction_ ? reduction_->received(result) : result);
  }
  ~StagedPlan() override {
    if (stage_ == Stage::under_way) {
      staging_.sent.abandon();
      staging_.received.abandon();
    }
    if (stage_ == Stage::under_way || owes_pieces()) {
      library_.give_up();
    }
  }

  Progress advance() override {
    switch (stage_) {
      case Stage::copy_in: return copy_in();
      case Stage::under_way: return library_.test(&request_) ? copy_out() : Progress::idle;
      case Stage::copy_out: return copy_out();
      case Stage::failed: return Progress::idle;  // until the limit
    }
    return Progress::idle;
  }
  std::vector<int> waiting_for() const override { return {}; }

 private:
  enum class Stage { copy_in, under_way, copy_out, failed };

  std::size_t staged(std::size_t bytes) const { return reduction_ ? reduction_->staged(bytes) : bytes; }
  /// At a time.
  std::size_t bytes_in(const GatherList& list) const {
    return is_whole(plan_.kind) ? std::min(piece_bytes(), list.bytes()) : list.bytes();
  }
  bool is_in_place() const { return plan_.kind == OpKind::broadcast; }
  bool is_root() const { return library_.rank() == plan_.root; }
  std::size_t piece_bytes() const { return bytes_of_piece(reduction_ ? &*reduction_ : nullptr, library_.size()); }
  /// Of the piece, in the list of what is sent. A broadcast is read on its root only.
  std::size_t end_in() const {
    if (!is_whole(plan_.kind)) {
      return sent_.bytes();
    }
    return plan_.kind == OpKind::broadcast && !is_root() ? piece_ : end_of_piece();
  }
  std::size_t end_out() const { return is_whole(plan_.kind) ? end_of_piece() : received_.bytes(); }
  /// Other ranks wait in the library for the rest.
  bool owes_pieces() const {
    return is_whole(plan_.kind) && (piece_ > 0 || stage_ == Stage::copy_out) && end_of_piece() < sent_.bytes();
  }
  std::size_t end_of_piece() const { return std::min(piece_ + piece_bytes(), sent_.bytes()); }

  void list_parts(std::size_t unit) {
    const auto ranks = static_cast<std::size_t>(library_.size());
    const auto own = static_cast<std::size_t>(library_.rank());
    const Parts parts(plan_, library_.size());
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      const bool is_sent_once = plan_.kind == OpKind::allgather && peer > 0;
      sent_parts_.add(is_sent_once ? 0 : parts.bytes(own, peer), unit);
      received_parts_.add(reduction_ ? (peer == own ? parts.bytes(own, own) : 0) : parts.bytes(peer, own), unit);
      if (!is_sent_once) {
        append(sent_, parts.outgoing(own, peer));
      }
      if (!reduction_ || peer == own) {
        append(received_, parts.incoming(own, peer));
      }
    }
  }

  Progress copy_in() {
    if (is_whole(plan_.kind) && sent_.bytes() == 0) {
      return Progress::done;
    }
    const std::size_t end = std::min(at_ + kBudgetBytes, end_in());
    if (reduction_) {
      reduction_->copy_in(sent_, at_, end, from_ + staged(at_ - piece_));
    } else {
      sent_.gather(at_, end, from_ + (at_ - piece_));
    }
    at_ = end;
    if (at_ < end_in()) {
      return Progress::again;
    }
    return launch();
  }

  Progress launch() {
    at_ = piece_;
    const bool is_begun = library_.begin(call(), &request_);
    stage_ = is_begun ? Stage::under_way : Stage::failed;
    return is_begun && library_.test(&request_) ? copy_out() : Progress::idle;
  }

  CollectiveCall call() {
    if (reduction_ && reduction_->is_gathered()) {
      sent_parts_ = received_parts_ = equal_parts(library_.size(), end_of_piece() - piece_);
      return gathering_call(from_, to_, sent_parts_, received_parts_);
    }
    const std::size_t element_bytes = reduction_ ? reduction_->element_bytes() : 1;
    const std::size_t bytes = is_whole(plan_.kind) ? end_of_piece() - piece_ : sent_parts_.bytes;
    return {.kind = plan_.kind,
            .from = from_,
            .to = to_,
            .count = bytes / element_bytes,
            .type = reduction_ ? reduction_->type() : DType::uint8,
            .op = reduction_ ? std::optional(reduction_->op()) : std::nullopt,
            .root = plan_.root,
            .sent = &sent_parts_,
            .received = &received_parts_};
  }

  Progress copy_out() {
    stage_ = Stage::copy_out;
    const bool is_there = plan_.kind == OpKind::broadcast && is_root() && is_done_where_it_is();
    const bool is_left =
        plan_.kind == OpKind::exscan && library_.rank() == 0;  // libraries leave the first rank's as it is
    const std::size_t end = is_there || is_left ? end_out() : std::min(at_ + kBudgetBytes, end_out());
    if (!is_there && !is_left && reduction_) {
      reduction_->copy_out(received_, at_, end, to_ + staged(at_ - piece_), staged(end_out() - piece_));
    } else if (!is_there && !is_left) {
      received_.scatter(at_, end, to_ + (at_ - piece_));
    }
    at_ = end;
    if (at_ < end_out()) {
      return Progress::again;
    }
    if (is_whole(plan_.kind) && at_ < sent_.bytes()) {
      piece_ = at_;
      stage_ = Stage::copy_in;
      return Progress::again;
    }
    return is_left ? fill_neutral() : Progress::done;
  }

  bool is_done_where_it_is() const {
    for (std::size_t i = 0; i < received_.segment_count(); ++i) {
      if (received_.segment(i).from != received_.segment(i).to) {
        return false;
      }
    }
    return true;
  }

  Progress fill_neutral() {
    for (const PlanMember& member : plan_.members) {
      reduce::fill_empty(plan_.dtype, plan_.reduce_op,
                         {static_cast<std::byte*>(member.output.data), member.input.bytes()});
    }
    return Progress::done;
  }

  CollectiveLibrary& library_;
  const Plan& plan_;
  const std::optional<StagedReduction> reduction_;
  StagingPair& staging_;
  GatherList sent_, received_;
  RankParts sent_parts_, received_parts_;  ///< of operations whose ranks have parts for each other, or are gathered
  std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
  Underway request_ = nullptr;
  Stage stage_ = Stage::copy_in;
  std::size_t piece_ = 0;  ///< where it begins; 0 where all is one
  std::size_t at_ = 0;     ///< to where the piece was copied in, or out
};

}  // namespace

std::size_t bytes_of_piece(const StagedReduction* reduction, int ranks) {
  constexpr std::size_t kForEachRank = std::size_t{512} << 10;  // in front of the library
  const std::size_t staged = kForEachRank * static_cast<std::size_t>(std::clamp(ranks, 2, 1024));
  return reduction == nullptr ? staged : staged / reduction->staged_element_bytes() * reduction->element_bytes();
}

std::byte* Staging::take(std::size_t bytes) {
  if (bytes > bytes_) {
    memory_ = nullptr;
    memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    bytes_ = bytes;
  }
  return memory_.get();
}

void Staging::abandon() {
  static_cast<void>(memory_.release());
  bytes_ = 0;
}

bool takes(const Plan& plan, const std::optional<StagedReduction>& reduction, const CollectiveLibrary& library) {
  if (plan.kind == OpKind::barrier || is_whole(plan.kind)) {
    return library.has(plan.kind, true) && (!reduces(plan.kind) || reduction);
  }
  if (reduces(plan.kind) && !reduction) {
    return false;
  }
  const auto ranks = static_cast<std::size_t>(library.size());
  const Parts parts(plan, library.size());
  bool are_equal = true;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::size_t sent = 0;
    std::size_t received = 0;
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      sent += parts.bytes(rank, peer);
      received += parts.bytes(peer, rank);
      are_equal = are_equal && parts.bytes(rank, peer) == parts.bytes(0, 0);
    }
    // What one rank sends or receives is counted by int.
    if (std::max(sent, received) > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      return false;
    }
  }
  return library.has(plan.kind, are_equal);
}

std::unique_ptr<Operation> start_plan(CollectiveLibrary& library, const Plan& plan,
                                      std::optional<StagedReduction> reduction, StagingPair& staging) {
  return std::make_unique<StagedPlan>(library, plan, std::move(reduction), staging);
}

}  // namespace ronde::backend
