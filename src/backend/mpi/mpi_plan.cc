#include "backend/mpi/mpi_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "collectives/budget.h"
#include "collectives/parts.h"
#include "reduce/neutral.h"

namespace ronde::backend::mpi {

namespace {

using collectives::GatherList;
using collectives::kBudgetBytes;
using collectives::Parts;

/// MPI counts by int. Whole elements: their sizes are powers of two.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

/// What is begun when the data is in place, for the bytes from `at` on.
struct Piece {
  std::size_t at = 0;
  std::size_t bytes = 0;
};

/// MPI's counts and places by rank, in units of `unit` bytes.
struct Counts {
  std::vector<int> counts, places;
  std::size_t total = 0;  ///< bytes

  void add(std::size_t bytes, std::size_t unit) {
    places.push_back(static_cast<int>(total / unit));
    counts.push_back(static_cast<int>(bytes / unit));
    total += bytes;
  }
};

bool is_whole(OpKind kind) {
  return kind == OpKind::allreduce || kind == OpKind::broadcast || kind == OpKind::scan || kind == OpKind::exscan;
}

void append(GatherList& list, const GatherList& more) {
  for (std::size_t i = 0; i < more.segment_count(); ++i) {
    const GatherList::Segment& segment = more.segment(i);
    list.append(segment.from, segment.to, segment.end - (i == 0 ? 0 : more.segment(i - 1).end));
  }
}

class MpiPlan final : public Operation {
 public:
  MpiPlan(MpiWorld& world, const Plan& plan, std::optional<MpiReduction> reduction, StagingPair& staging)
      : world_(world), plan_(plan), reduction_(std::move(reduction)), staging_(staging) {
    const std::size_t unit = reduction_ ? reduction_->element_bytes() : 1;
    if (plan.kind == OpKind::barrier) {
      return;
    }
    if (is_whole(plan.kind)) {
      sent_ = received_ = GatherList(plan);
    } else {
      list_parts(unit);
    }
    from_ = staging.sent.take(staged(sent_.bytes()));
    to_ = is_in_place() ? from_ : staging.received.take(staged(received_.bytes()));
  }
  ~MpiPlan() override {
    if (stage_ == Stage::under_way) {
      staging_.sent.abandon();
      staging_.received.abandon();
      world_.give_up();
    }
  }

  Progress advance() override {
    switch (stage_) {
      case Stage::copy_in: return copy_in();
      case Stage::under_way: return world_.test(&request_) ? next_piece() : Progress::idle;
      case Stage::copy_out: return copy_out();
      case Stage::failed: return Progress::idle;  // until the limit
    }
    return Progress::idle;
  }
  std::vector<int> waiting_for() const override { return {}; }

 private:
  enum class Stage { copy_in, under_way, copy_out, failed };

  std::size_t staged(std::size_t bytes) const { return reduction_ ? reduction_->staged(bytes) : bytes; }
  bool is_in_place() const { return plan_.kind == OpKind::allreduce || plan_.kind == OpKind::broadcast; }
  bool is_root() const { return world_.rank() == plan_.root; }
  /// A broadcast is read on its root only.
  std::size_t bytes_in() const { return plan_.kind == OpKind::broadcast && !is_root() ? 0 : sent_.bytes(); }

  void list_parts(std::size_t unit) {
    const auto ranks = static_cast<std::size_t>(world_.size());
    const auto own = static_cast<std::size_t>(world_.rank());
    const Parts parts(plan_, world_.size());
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      const bool is_sent_once = plan_.kind == OpKind::allgather && peer > 0;
      sent_counts_.add(is_sent_once ? 0 : parts.bytes(own, peer), unit);
      received_counts_.add(reduction_ ? (peer == own ? parts.bytes(own, own) : 0) : parts.bytes(peer, own), unit);
      if (!is_sent_once) {
        append(sent_, parts.outgoing(own, peer));
      }
      if (!reduction_ || peer == own) {
        append(received_, parts.incoming(own, peer));
      }
    }
  }

  Progress copy_in() {
    const std::size_t end = std::min(at_ + kBudgetBytes, bytes_in());
    if (reduction_) {
      reduction_->copy_in(sent_, at_, end, from_ + staged(at_));
    } else {
      sent_.gather(at_, end, from_ + at_);
    }
    at_ = end;
    if (at_ < bytes_in()) {
      return Progress::again;
    }
    at_ = 0;
    return next_piece();
  }

  /// Begins the next, or the copy out if there is none.
  Progress next_piece() {
    const std::size_t all = is_whole(plan_.kind) ? sent_.bytes() : 0;
    const bool is_first = stage_ == Stage::copy_in;
    if (is_first ? is_whole(plan_.kind) && all == 0 : at_ >= all) {
      stage_ = Stage::copy_out;
      at_ = 0;
      return copy_out();
    }
    const Piece piece{at_, std::min(kMostBytes, all - at_)};
    at_ += piece.bytes;
    const bool is_begun = world_.launch([&](const Functions& mpi, const Constants& constants, Handle comm,
                                            Handle* request) { return begin(mpi, constants, comm, request, piece); },
                                        &request_);
    stage_ = is_begun ? Stage::under_way : Stage::failed;
    return is_begun && world_.test(&request_) ? next_piece() : Progress::idle;
  }

  int begin(const Functions& mpi, const Constants& constants, Handle comm, Handle* request, const Piece& piece) {
    const Handle type = reduction_ ? reduction_->type() : constants.byte;
    const Handle op = reduction_ ? reduction_->op() : nullptr;
    const auto count = static_cast<int>(piece.bytes / (reduction_ ? reduction_->element_bytes() : 1));
    std::byte* const from = from_ + staged(piece.at);
    std::byte* const to = to_ + staged(piece.at);
    const int root = plan_.root;
    const Counts& sent = sent_counts_;
    const Counts& received = received_counts_;
    const auto sum = static_cast<int>(sent.total / (reduction_ ? reduction_->element_bytes() : 1));
    switch (plan_.kind) {
      case OpKind::allreduce: return mpi.iallreduce(constants.in_place, to, count, type, op, comm, request);
      case OpKind::broadcast: return mpi.ibcast(to, count, type, root, comm, request);
      case OpKind::scan: return mpi.iscan(from, to, count, type, op, comm, request);
      case OpKind::exscan: return mpi.iexscan(from, to, count, type, op, comm, request);
      case OpKind::reduce: return mpi.ireduce(from, to, sum, type, op, root, comm, request);
      case OpKind::reducescatter: return mpi.ireduce_scatter(from, to, sent.counts.data(), type, op, comm, request);
      case OpKind::allgather:
        return mpi.iallgatherv(from, sent.counts[0], type, to, received.counts.data(), received.places.data(), type,
                               comm, request);
      case OpKind::gather:
        return mpi.igatherv(from, sum, type, to, received.counts.data(), received.places.data(), type, root, comm,
                            request);
      case OpKind::scatter:
        return mpi.iscatterv(from, sent.counts.data(), sent.places.data(), type, to, static_cast<int>(received.total),
                             type, root, comm, request);
      case OpKind::alltoall:
        return mpi.ialltoallv(from, sent.counts.data(), sent.places.data(), type, to, received.counts.data(),
                              received.places.data(), type, comm, request);
      default: return mpi.ibarrier(comm, request);
    }
  }

  Progress copy_out() {
    if (plan_.kind == OpKind::exscan && world_.rank() == 0) {
      return fill_neutral();  // MPI leaves the first rank's as it is
    }
    const bool is_there = plan_.kind != OpKind::broadcast || !is_root() || !is_done_where_it_is();
    const std::size_t end = is_there ? std::min(at_ + kBudgetBytes, received_.bytes()) : received_.bytes();
    if (!is_there) {
      return Progress::done;
    }
    if (reduction_) {
      reduction_->copy_out(received_, at_, end, to_ + staged(at_));
    } else {
      received_.scatter(at_, end, to_ + at_);
    }
    at_ = end;
    return at_ == received_.bytes() ? Progress::done : Progress::again;
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

  MpiWorld& world_;
  const Plan& plan_;
  const std::optional<MpiReduction> reduction_;
  StagingPair& staging_;
  GatherList sent_, received_;
  Counts sent_counts_, received_counts_;  ///< of operations whose ranks have parts for each other
  std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
  Handle request_ = nullptr;
  Stage stage_ = Stage::copy_in;
  std::size_t at_ = 0;  ///< bytes copied in, or begun, or copied out
};

}  // namespace

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

bool takes(const Plan& plan, const std::optional<MpiReduction>& reduction, int ranks) {
  if (plan.kind == OpKind::barrier) {
    return true;
  }
  if (reduces(plan.kind) && !reduction) {
    return false;
  }
  if (is_whole(plan.kind)) {
    return true;
  }
  // What one rank sends or receives is counted by int.
  const Parts parts(plan, ranks);
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    std::size_t sent = 0;
    std::size_t received = 0;
    for (std::size_t peer = 0; peer < static_cast<std::size_t>(ranks); ++peer) {
      sent += parts.bytes(rank, peer);
      received += parts.bytes(peer, rank);
    }
    if (std::max(sent, received) > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      return false;
    }
  }
  return true;
}

std::unique_ptr<Operation> start_plan(MpiWorld& world, const Plan& plan, std::optional<MpiReduction> reduction,
                                      StagingPair& staging) {
  return std::make_unique<MpiPlan>(world, plan, std::move(reduction), staging);
}

}  // namespace ronde::backend::mpi
