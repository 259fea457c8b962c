#include "engine/groups/process_sets.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "engine/core/engine.h"

namespace ronde::engine {

namespace {

std::string list_of(const std::vector<std::int64_t>& ranks) {
  std::string text;
  for (std::int64_t rank : ranks) {
    text += (text.empty() ? "[" : ", ") + std::to_string(rank);
  }
  return text.empty() ? "[]" : text + "]";
}

/// The first rank that does not want what rank 0 wants; 0 if there is none.
std::size_t first_other(const std::vector<GroupWord>& wanted) {
  for (std::size_t rank = 1; rank < wanted.size(); ++rank) {
    if (wanted[rank].numbers != wanted[0].numbers) {
      return rank;
    }
  }
  return 0;
}

}  // namespace

/// All words of the job, by rank.
Result<std::vector<GroupWord>> ProcessSets::exchange(const std::string& name, const GroupWord& own) {
  std::vector<std::byte> bytes = encode(own);
  Request request;
  request.kind = OpKind::allgather;
  request.name = name;
  request.timeout = job_.engine().settings().timeout;
  request.tensors.resize(1);
  Tensor& input = request.tensors[0].input;
  input.data = bytes.data();
  input.dtype = DType::uint8;
  input.shape = {static_cast<std::int64_t>(bytes.size())};
  const auto ticket = std::make_shared<Ticket>(std::move(request));
  RONDE_RETURN_IF_ERROR(job_.call(ticket));  // signals or not: the ranks would be out of step
  RONDE_RETURN_IF_ERROR(ticket->status());
  const OwnedOutput& all = ticket->results().owned_outputs().front();
  return decode_words({all.data.get(), static_cast<std::size_t>(all.shape.front())},
                      static_cast<std::size_t>(job_.engine().topology().size));
}

/// Whether all of the job want the same group and can have it.
Status ProcessSets::compare(const std::vector<GroupWord>& wanted) const {
  RONDE_RETURN_IF_ERROR(first_problem(wanted, job_.engine().group().ranks));
  const std::size_t rank = first_other(wanted);
  return rank == 0 ? Status()
                   : Status::error(Code::mismatch, "the ranks ask for different process sets: rank 0 for " +
                                                       list_of(wanted[0].numbers) + ", rank " + std::to_string(rank) +
                                                       " for " + list_of(wanted[rank].numbers) +
                                                       "; every rank must add the same ones in the same order")
                         .with_rank(static_cast<int>(rank));
}

Result<std::int32_t> ProcessSets::make(std::vector<int> ranks) {
  RONDE_RETURN_IF_ERROR(only_outside_of_callbacks("made"));
  std::lock_guard collective(mutex_);
  std::sort(ranks.begin(), ranks.end());
  std::optional<GroupPart> part;
  GroupWord own = groups_.reserve(ranks, part);
  own.id = ids_.propose(ranks);
  const Result<std::vector<GroupWord>> wanted = exchange("ronde.process_set.add", own);
  if (!wanted) {
    groups_.abandon(part);
    return wanted.status();
  }
  if (Status agreed = compare(wanted.value()); !agreed) {
    groups_.give_back(part);
    return agreed;
  }
  std::vector<GroupIds::Proposal> proposals;
  for (const GroupWord& each : wanted.value()) {
    proposals.push_back(each.id);
  }
  const std::int32_t id = GroupIds::agreed(proposals);
  std::vector<GroupWord> members;
  for (int rank : ranks) {
    members.push_back(wanted.value()[static_cast<std::size_t>(rank)]);
  }
  std::shared_ptr<Engine> engine;
  GroupWord result;
  if (part) {
    Result<std::shared_ptr<Engine>> made = groups_.open(*part, id, members, job_.engine().settings().timeout);
    result.problem = made.status();
    engine = made ? std::move(made).value() : nullptr;
  }
  const Result<std::vector<GroupWord>> all = exchange("ronde.process_set.added", result);
  const Status opened = all ? first_problem(all.value(), job_.engine().group().ranks) : all.status();
  if (!opened) {
    engine.reset();
    groups_.abandon(part);
    return opened;
  }
  ids_.take(id, ranks);
  groups_.add(id, std::move(part), std::move(engine));
  return id;
}

Status ProcessSets::remove(std::int32_t id) {
  RONDE_RETURN_IF_ERROR(only_outside_of_callbacks("removed"));
  std::lock_guard collective(mutex_);
  GroupWord own{{id}};
  if (id == 0) {
    own.problem =
        Status::error(Code::invalid_argument, "the set of all ranks cannot be removed; it ends with shutdown");
  } else if (!groups_.knows(id)) {
    own.problem = Status::error(Code::invalid_argument, "there is no process set with the id " + std::to_string(id));
  }
  RONDE_ASSIGN_OR_RETURN(const std::vector<GroupWord> wanted, exchange("ronde.process_set.remove", own));
  RONDE_RETURN_IF_ERROR(first_problem(wanted, job_.engine().group().ranks));
  if (const std::size_t rank = first_other(wanted); rank != 0) {
    return Status::error(Code::mismatch, "the ranks remove different process sets: rank 0 the one with the id " +
                                             std::to_string(wanted[0].numbers.front()) + ", rank " +
                                             std::to_string(rank) + " the one with " +
                                             std::to_string(wanted[rank].numbers.front()))
        .with_rank(static_cast<int>(rank));
  }
  const Result<std::vector<GroupWord>> all = exchange("ronde.process_set.removed", {{}, {}, groups_.leave(id)});
  return all ? first_problem(all.value(), job_.engine().group().ranks) : all.status();
}

}  // namespace ronde::engine
