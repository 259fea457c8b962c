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
    from_ = staging.sent.take(staged(is_whole(plan.kind) ? std::min(piece_bytes(), sent_.bytes()) : sent_.bytes()));
    to_ = is_in_place() ? from_
                        : staging.received.take(
                              staged(is_whole(plan.kind) ? std::min(piece_bytes(), sent_.bytes()) : received_.bytes()));
  }
  ~MpiPlan() override {
    if (stage_ == Stage::under_way) {
      staging_.sent.abandon();
      staging_.received.abandon();
    }
    if (stage_ == Stage::under_way || owes_pieces()) {
      world_.give_up();
    }
  }

  Progress advance() override {
    switch (stage_) {
      case Stage::copy_in: return copy_in();
      case Stage::under_way: return world_.test(&request_) ? copy_out() : Progress::idle;
      case Stage::copy_out: return copy_out();
      case Stage::failed: return Progress::idle;  // until the limit
    }
    return Progress::idle;
  }
  std::vector<int> waiting_for() const override { return {}; }

 private:
  enum class Stage { copy_in, under_way, copy_out, failed };

  std::size_t staged(std::size_t bytes) const { return reduction_ ? reduction_->staged(bytes) : bytes; }
  bool is_in_place() const { return plan_.kind == OpKind::broadcast; }
  bool is_root() const { return world_.rank() == plan_.root; }
  std::size_t piece_bytes() const { return bytes_of_piece(reduction_ ? &*reduction_ : nullptr, world_.size()); }
  /// Of the piece, in the list of what is sent. A broadcast is read on its root only.
  std::size_t end_in() const {
    if (!is_whole(plan_.kind)) {
      return sent_.bytes();
    }
    return plan_.kind == OpKind::broadcast && !is_root() ? piece_ : end_of_piece();
  }
  std::size_t end_out() const { return is_whole(plan_.kind) ? end_of_piece() : received_.bytes(); }
  /// Other ranks wait in MPI for the rest.
  bool owes_pieces() const {
    return is_whole(plan_.kind) && (piece_ > 0 || stage_ == Stage::copy_out) && end_of_piece() < sent_.bytes();
  }
  std::size_t end_of_piece() const { return std::min(piece_ + piece_bytes(), sent_.bytes()); }

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
    const bool is_begun = world_.launch([&](const Functions& mpi, const Constants& constants, Handle comm,
                                            Handle* request) { return begin(mpi, constants, comm, request); },
                                        &request_);
    stage_ = is_begun ? Stage::under_way : Stage::failed;
    return is_begun && world_.test(&request_) ? copy_out() : Progress::idle;
  }

  int begin(const Functions& mpi, const Constants& constants, Handle comm, Handle* request) {
    const Handle type = reduction_ ? reduction_->type() : constants.byte;
    const Handle op = reduction_ ? reduction_->op() : nullptr;
    const std::size_t piece_end = is_whole(plan_.kind) ? end_of_piece() : piece_;
    const auto count = static_cast<int>((piece_end - piece_) / (reduction_ ? reduction_->element_bytes() : 1));
    std::byte* const from = from_;
    std::byte* const to = to_;
    const int root = plan_.root;
    const Counts& sent = sent_counts_;
    const Counts& received = received_counts_;
    const auto sum = static_cast<int>(sent.total / (reduction_ ? reduction_->element_bytes() : 1));
    switch (plan_.kind) {
      case OpKind::allreduce: return mpi.iallreduce(from, to, count, type, op, comm, request);
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
    stage_ = Stage::copy_out;
    const bool is_there = plan_.kind == OpKind::broadcast && is_root() && is_done_where_it_is();
    const bool is_left = plan_.kind == OpKind::exscan && world_.rank() == 0;  // MPI leaves the first rank's as it is
    const std::size_t end = is_there || is_left ? end_out() : std::min(at_ + kBudgetBytes, end_out());
    if (!is_there && !is_left && reduction_) {
      reduction_->copy_out(received_, at_, end, to_ + staged(at_ - piece_));
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
  std::size_t piece_ = 0;  ///< where it begins; 0 where all is one
  std::size_t at_ = 0;     ///< to where the piece was copied in, or out
};

}  // namespace

std::size_t bytes_of_piece(const MpiReduction* reduction, int ranks) {
  constexpr std::size_t kForEachRank = std::size_t{512} << 10;  // in front of MPI
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
