#include "collectives/schedule/schedule_run.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/copy_bytes.h"
#include "reduce/neutral.h"

namespace ronde::collectives {

namespace {

/// What is smaller, or lies in many small parts, is copied into one message: that costs less.
constexpr std::size_t kLeastLent = 256;
constexpr std::size_t kFewParts = 16;
constexpr std::size_t kLeastOfManyParts = 4096;
/// What is smaller is copied sooner than it is said where it belongs.
constexpr std::size_t kLeastPlaced = std::size_t{16} << 10;

}  // namespace

ScheduleRun::ScheduleRun(transport::Mailbox& mailbox, std::unique_ptr<Schedule> schedule, std::vector<GatherList> lists,
                         const std::vector<Combination>& combinations)
    : mailbox_(mailbox),
      schedule_(std::move(schedule)),
      lists_(std::move(lists)),
      reduction_(combinations.front().reduction),
      reducers_(schedule_->combinations()),
      scratch_(schedule_->scratch_bytes()),
      kept_(static_cast<std::size_t>(mailbox.size())) {
  for (std::size_t i = 0; i < reducers_.size(); ++i) {
    if (const std::size_t inputs = schedule_->inputs(i).size(); inputs > 0) {
      reducers_[i].emplace(combinations[i].reduction, inputs, combinations[i].divisor, combinations[i].first);
      pointers_.resize(std::max(pointers_.size(), inputs));
    }
  }
}

ScheduleRun::~ScheduleRun() { give_up(); }

void ScheduleRun::give_up() {
  if (std::exchange(is_under_way_, false)) {
    mailbox_.keep_lent();
  }
}

void ScheduleRun::begin(std::uint32_t collective, std::uint64_t instance) {
  reset(collective, instance);
  expect_more();
}

void ScheduleRun::reset(std::uint32_t collective, std::uint64_t instance) {
  is_under_way_ = schedule_->keeps_what_it_sends();
  key_ = {collective, 0, instance};
  compares_ = any_differs_ = is_void_ = false;
  mark_ = 0;
  sending_ = finished_ = expected_ = 0;
  describe(0, outgoing_);
  describe(0, incoming_);
}

void ScheduleRun::begin_if_alike(std::uint32_t collective, std::uint64_t instance, std::uint64_t mark) {
  reset(collective, instance);
  compares_ = true;
  mark_ = mark;
}

Progress ScheduleRun::advance() {
  Budget budget;
  mailbox_.flush();
  while (!is_over()) {
    const bool sent = send_some(budget);
    const bool received = receive_some(budget);
    if (!sent && !received) {
      return budget.anything_spent() ? Progress::again : Progress::idle;
    }
    if (!budget.allows(1)) {
      break;
    }
  }
  if (!is_over()) {
    return Progress::again;
  }
  if (!mailbox_.flush()) {
    return Progress::idle;
  }
  is_under_way_ = false;
  return Progress::done;
}

std::vector<int> ScheduleRun::waiting_for() const {
  std::vector<int> ranks;
  if (is_over()) {
    for (int peer = 0; peer < mailbox_.size(); ++peer) {
      if (peer != mailbox_.rank() && !mailbox_.has_room(peer)) {
        ranks.push_back(peer);
      }
    }
    return ranks;
  }
  for (const Incoming& each : incoming_.incoming) {
    ranks.push_back(each.from);
  }
  if (ranks.empty()) {
    for (const Outgoing& each : outgoing_.outgoing) {
      ranks.push_back(each.to);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

void ScheduleRun::announce() {
  if (sending_ > 0 || schedule_->stages() == 0) {
    return;
  }
  for (const Outgoing& each : outgoing_.outgoing) {
    send(each);
  }
  ++sending_;
  describe(sending_, outgoing_);
}

bool ScheduleRun::has_first_of(int from) const {
  return finished_ > 0 || std::none_of(incoming_.incoming.begin(), incoming_.incoming.end(),
                                       [&](const Incoming& each) { return each.from == from; });
}

bool ScheduleRun::send_some(Budget& budget) {
  if (sending_ == schedule_->stages() || outgoing_.after > finished_) {
    return false;
  }
  bool moved = false;
  auto& waiting = outgoing_.outgoing;
  for (std::size_t i = 0; i < waiting.size();) {
    if (!budget.allows(waiting[i].bytes()) || !mailbox_.has_room(waiting[i].to)) {
      ++i;
      continue;
    }
    send(waiting[i]);
    budget.spend(waiting[i].bytes());
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
    moved = true;
  }
  if (waiting.empty()) {
    ++sending_;
    describe(sending_, outgoing_);
    budget.spend(0);
    moved = true;
  }
  return moved;
}

void ScheduleRun::send(const Outgoing& outgoing) {
  key_.stage = static_cast<std::uint32_t>(sending_);
  const std::uint64_t mark = any_differs_ ? ~mark_ : mark_;
  parts_.clear();
  add_parts(outgoing.from);
  add_parts(outgoing.rest);
  const std::size_t bytes = outgoing.bytes();
  if (schedule_->keeps_what_it_sends() && bytes >= kLeastLent &&
      (parts_.size() <= kFewParts || bytes >= kLeastOfManyParts * parts_.size())) {
    mailbox_.send_lent(outgoing.to, key_, mark, parts_);
    return;
  }
  std::byte* payload = mailbox_.compose(bytes).data();
  for (const std::span<const std::byte> part : parts_) {
    copy_bytes(payload, part.data(), part.size());
    payload += part.size();
  }
  mailbox_.send(outgoing.to, key_, mark);
}

/// What is read of a piece, to parts_.
void ScheduleRun::add_parts(const Piece& piece) {
  if (piece.bytes() == 0) {
    return;
  }
  if (piece.list == kScratch) {
    parts_.push_back(std::span<const std::byte>(scratch_).subspan(piece.begin, piece.bytes()));
  } else {
    lists_[static_cast<std::size_t>(piece.list)].for_each(
        piece.begin, piece.end,
        [&](const std::byte* from, std::byte*, std::size_t bytes, std::size_t) { parts_.emplace_back(from, bytes); });
  }
}

bool ScheduleRun::receive_some(Budget& budget) {
  if (finished_ == schedule_->stages()) {
    return false;
  }
  bool moved = false;
  auto& waiting = incoming_.incoming;
  for (std::size_t i = 0; i < waiting.size();) {
    const std::size_t bytes = waiting[i].bytes();
    if (!budget.allows(bytes) || !take(waiting[i])) {
      ++i;
      continue;
    }
    budget.spend(bytes);
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
    moved = true;
  }
  if (waiting.empty() && sending_ > finished_) {
    finish_stage(budget);
    moved = true;
  }
  return moved;
}

bool ScheduleRun::take(const Incoming& incoming) {
  key_.stage = static_cast<std::uint32_t>(finished_);
  transport::Received message;
  if (!mailbox_.take(incoming.from, key_, message)) {
    return false;
  }
  const Piece& into = incoming.into;
  if (message.is_placed) {
    return true;
  }
  if (finished_ < expected_ && !place_of(incoming).empty()) {
    mailbox_.forget_place(incoming.from, key_, mark_, into.bytes());
  }
  if (compares_ && message.mark != mark_ && finished_ < schedule_->hears_all_by()) {
    any_differs_ = true;  // then nothing comes of what it brings
    return true;
  }
  if (message.payload.size() != incoming.bytes()) {
    mailbox_.break_off(Status::error(Code::internal, "rank " + std::to_string(incoming.from) + " has sent " +
                                                         std::to_string(message.payload.size()) + " bytes where " +
                                                         std::to_string(incoming.bytes()) + " were agreed"));
    return false;
  }
  const auto from = static_cast<std::size_t>(incoming.from);
  if (into.list == kKept) {
    std::swap(kept_[from], message);  // what was kept before has been reduced
  } else {
    put(into, message.payload.data());
    put(incoming.rest, message.payload.data() + into.bytes());
  }
  mailbox_.recycle(incoming.from, std::move(message.memory));
  return true;
}

void ScheduleRun::put(const Piece& into, const std::byte* payload) {
  if (into.list == kScratch) {
    std::copy_n(payload, into.bytes(), scratch_.data() + into.begin);
  } else {
    lists_[static_cast<std::size_t>(into.list)].scatter(into.begin, into.end, payload);
  }
}

/// Where a message's bytes belong, if they may be written to there as they come; else empty.
std::span<std::byte> ScheduleRun::place_of(const Incoming& incoming) const {
  const Piece& into = incoming.into;
  if (into.list < 0 || into.bytes() < kLeastPlaced || incoming.rest.bytes() > 0) {
    return {};
  }
  std::span<std::byte> place;
  lists_[static_cast<std::size_t>(into.list)].for_each(
      into.begin, into.end,
      [&](const std::byte*, std::byte* to, std::size_t bytes, std::size_t) { place = {to, bytes}; });
  return place.size() == into.bytes() ? place : std::span<std::byte>();
}

/// Says where messages of this stage and the next ones belong. Not before it is known that the run will not be void:
/// then no peer sends them, and the places are not this run's.
void ScheduleRun::expect_more() {
  if (!is_under_way_ || (compares_ && (any_differs_ || finished_ < schedule_->hears_all_by()))) {
    return;
  }
  const std::size_t end = std::min(schedule_->stages(), finished_ + 1 + schedule_->written_ahead());
  for (expected_ = std::max(expected_, finished_); expected_ < end; ++expected_) {
    describe(expected_, expected_next_);
    key_.stage = static_cast<std::uint32_t>(expected_);
    for (const Incoming& each : expected_next_.incoming) {
      if (const std::span<std::byte> place = place_of(each); !place.empty()) {
        mailbox_.expect_at(each.from, key_, mark_, place);
      }
    }
  }
}

void ScheduleRun::finish_stage(Budget& budget) {
  if (any_differs_ && finished_ + 1 == schedule_->hears_all_by()) {
    end_void();
    return;
  }
  const Piece& own = incoming_.own;
  switch (incoming_.work) {
    case Work::none: break;
    case Work::carry_over: lists_[static_cast<std::size_t>(own.list)].carry_over(own.begin, own.end); break;
    case Work::reduce:
    case Work::reduce_to_scratch:
    case Work::reduce_from_scratch:
      if (!any_differs_) {  // else something was left out
        reduce_own();
      }
      break;
    case Work::copy_to_scratch:
      for (const Piece& piece : {own, incoming_.rest}) {
        std::byte* const to = scratch_.data() + (incoming_.scratch + piece.begin - own.begin);
        lists_[static_cast<std::size_t>(piece.list)].gather(piece.begin, piece.end, to);
      }
      break;
    case Work::add_to_scratch:
      if (!any_differs_) {
        add_to_scratch();
      }
      break;
    case Work::reduce_gathered:
      if (!any_differs_) {
        reduce_gathered();
      }
      break;
    case Work::put_gathered: put_gathered(); break;
    case Work::empty: fill_own(); break;
  }
  budget.spend(incoming_.work == Work::none ? 0 : own.bytes());
  ++finished_;
  describe(finished_, incoming_);
  expect_more();
}

void ScheduleRun::reduce_own() {
  const Piece& own = incoming_.own;
  const std::vector<int>& inputs = schedule_->inputs(incoming_.combination);
  const reduce::Reducer& reducer = *reducers_[incoming_.combination];
  const reduce::DefaultArithmetic arithmetic;
  lists_[static_cast<std::size_t>(own.list)].for_each(
      own.begin, own.end, [&](const std::byte* from, std::byte* to, std::size_t bytes, std::size_t at) {
        std::byte* const scratch = scratch_.data() + incoming_.scratch + (at - own.begin);
        from = incoming_.work == Work::reduce_from_scratch ? scratch : from;
        to = incoming_.work == Work::reduce_to_scratch ? scratch : to;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          pointers_[i] = inputs[i] == mailbox_.rank()
                             ? from
                             : kept_[static_cast<std::size_t>(inputs[i])].payload.data() + (at - own.begin);
        }
        reducer(arithmetic, pointers_.data(), reducer.elements(bytes), to);
      });
}

void ScheduleRun::add_to_scratch() {
  const reduce::Reducer& reducer = *reducers_[incoming_.combination];
  const reduce::DefaultArithmetic arithmetic;
  for (const Incoming& each : incoming_.added) {
    const std::byte* from = kept_[static_cast<std::size_t>(each.from)].payload.data();
    for (const Piece& piece : {each.into, each.rest}) {
      std::byte* const to = scratch_.data() + piece.begin;
      pointers_[0] = to;
      pointers_[1] = from;
      reducer(arithmetic, pointers_.data(), reducer.elements(piece.bytes()), to);
      from += piece.bytes();
    }
  }
}

void ScheduleRun::reduce_gathered() {
  const Piece& own = incoming_.own;
  const std::size_t inputs = schedule_->inputs(incoming_.combination).size();
  const reduce::Reducer& reducer = *reducers_[incoming_.combination];
  const reduce::DefaultArithmetic arithmetic;
  lists_[static_cast<std::size_t>(own.list)].for_each(
      own.begin, own.end, [&](const std::byte*, std::byte* to, std::size_t bytes, std::size_t at) {
        for (std::size_t input = 0; input < inputs; ++input) {
          pointers_[input] = scratch_.data() + schedule_->gathered(input) + (at - own.begin);
        }
        reducer(arithmetic, pointers_.data(), reducer.elements(bytes), to);
      });
}

void ScheduleRun::put_gathered() {
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(mailbox_.size()); ++rank) {
    if (rank == static_cast<std::size_t>(mailbox_.rank())) {
      lists_[rank].carry_over(0, lists_[rank].bytes());
    } else {
      lists_[rank].scatter(0, lists_[rank].bytes(), scratch_.data() + schedule_->gathered(rank));
    }
  }
}

/// All have heard that ranks differ, or hear it of this one.
void ScheduleRun::end_void() {
  is_void_ = true;
  key_.stage = static_cast<std::uint32_t>(schedule_->telling_stage());
  for (const int rank : schedule_->told()) {
    mailbox_.compose(0);
    mailbox_.send(rank, key_, ~mark_);
  }
  mailbox_.forget_before(key_.collective, key_.instance + 1);
}

void ScheduleRun::fill_own() {
  const Piece& own = incoming_.own;
  lists_[static_cast<std::size_t>(own.list)].for_each(
      own.begin, own.end, [&](const std::byte*, std::byte* to, std::size_t bytes, std::size_t) {
        reduce::fill_empty(reduction_.dtype, reduction_.op, {to, bytes});
      });
}

void ScheduleRun::describe(std::size_t index, Stage& stage) const {
  stage.clear();
  if (index < schedule_->stages()) {
    schedule_->describe(index, stage);
  }
}

namespace {

class ScheduledOperation final : public Operation {
 public:
  template <typename... Arguments>
  ScheduledOperation(std::uint32_t collective, std::uint64_t instance, Arguments&&... arguments)
      : run_(std::forward<Arguments>(arguments)...) {
    run_.begin(collective, instance);
  }
  Progress advance() override { return run_.advance(); }
  std::vector<int> waiting_for() const override { return run_.waiting_for(); }

 private:
  ScheduleRun run_;
};

}  // namespace

std::unique_ptr<Operation> scheduled_operation(transport::Mailbox& mailbox, std::unique_ptr<Schedule> schedule,
                                               std::vector<GatherList> lists,
                                               const std::vector<Combination>& combinations, std::uint32_t collective,
                                               std::uint64_t instance) {
  return std::make_unique<ScheduledOperation>(collective, instance, mailbox, std::move(schedule), std::move(lists),
                                              combinations);
}

}  // namespace ronde::collectives
