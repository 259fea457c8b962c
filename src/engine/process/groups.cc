#include "engine/process/groups.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "engine/core/engine.h"
#include "engine/requests/callback_queue.h"

namespace ronde::engine {

namespace {

std::string list_of(const std::vector<std::int64_t>& ranks) {
  std::string text;
  for (std::int64_t rank : ranks) {
    text += (text.empty() ? "[" : ", ") + std::to_string(rank);
  }
  return text.empty() ? "[]" : text + "]";
}

Status only_outside_of_callbacks(const char* what) {
  return CallbackQueue::runs_in_this_thread()
             ? Status::error(Code::would_deadlock, std::string("a process set cannot be ") + what +
                                                       " in a completion callback, which it waits for")
             : Status();
}

}  // namespace

int Groups::own_rank() const { return job_.engine().topology().rank; }

GroupConnector& Groups::connector() const { return *job_.engine().connections().groups; }

GroupConnector::HasEnded Groups::has_ended() const {
  return [&job = job_](int rank) { return job.engine().has_ended(rank); };
}

Status Groups::check_ranks(std::vector<int> ranks) const {
  std::sort(ranks.begin(), ranks.end());
  const int size = job_.engine().topology().size;
  if (ranks.empty()) {
    return Status::error(Code::invalid_argument, "a process set needs at least one rank");
  }
  if (ranks.front() < 0 || ranks.back() >= size) {
    return Status::error(Code::invalid_argument, "a process set has the rank " +
                                                     std::to_string(ranks.front() < 0 ? ranks.front() : ranks.back()) +
                                                     "; the ranks of this job are 0 to " + std::to_string(size - 1));
  }
  const auto twice = std::adjacent_find(ranks.begin(), ranks.end());
  return twice == ranks.end()
             ? Status()
             : Status::error(Code::invalid_argument, "a process set has the rank " + std::to_string(*twice) + " twice");
}

// ---- What the ranks tell each other

std::vector<std::byte> Groups::encode(const Word& word) {
  ByteWriter writer;
  write_numbers(writer, word.numbers);
  write_numbers(writer, word.part);
  writer.put(static_cast<std::int32_t>(word.problem.code()));
  writer.put_string(word.problem.message());
  return writer.take();
}

Result<std::vector<Groups::Word>> Groups::decode(std::span<const std::byte> bytes, std::size_t count) {
  ByteReader reader(bytes);
  std::vector<Word> words(count);
  for (Word& word : words) {
    word.numbers = read_numbers<std::int64_t>(reader);
    word.part = read_numbers<std::int64_t>(reader);
    const auto code = reader.get<std::int32_t>();
    const std::string problem = reader.get_string();
    word.problem = code == 0 ? Status() : Status::error(static_cast<Code>(code), problem);
  }
  if (!reader.at_end()) {
    return Status::error(Code::internal, "what the ranks told each other about a process set cannot be read");
  }
  return words;
}

/// The first problem of any is everyone's error. `ranks`: who has said the words.
Status Groups::first_problem(const std::vector<Word>& words, const std::vector<int>& ranks) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].problem) {
      return words[i].problem.with_context("rank " + std::to_string(ranks[i])).with_rank(ranks[i]);
    }
  }
  return {};
}

/// All words of the job, by rank.
Result<std::vector<Groups::Word>> Groups::exchange(const std::string& name, const Word& own) {
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
  return decode({all.data.get(), static_cast<std::size_t>(all.shape.front())},
                static_cast<std::size_t>(job_.engine().topology().size));
}

/// The same among members who meet elsewhere, in the order of the group.
Result<std::vector<Groups::Word>> Groups::meet(const Meeting& meeting, const std::string& what, int own,
                                               const Word& word) {
  if (meeting.store == nullptr) {
    return std::vector<Word>{word};
  }
  store::Value value;
  value.bytes = encode(word);
  RONDE_ASSIGN_OR_RETURN(const std::vector<store::Value> values,
                         meeting.store->exchange(meeting.name + what, own, meeting.size, std::move(value),
                                                 time_left(RealClock(), meeting.deadline)));
  std::vector<Word> words;
  for (const store::Value& each : values) {
    RONDE_ASSIGN_OR_RETURN(std::vector<Word> one, decode(each.bytes, 1));
    words.push_back(std::move(one.front()));
  }
  return words;
}

// ---- Process sets

Result<std::int32_t> Groups::make(std::vector<int> ranks) {
  RONDE_RETURN_IF_ERROR(only_outside_of_callbacks("made"));
  std::lock_guard collective(collective_mutex_);
  std::sort(ranks.begin(), ranks.end());
  std::optional<GroupPart> part;
  Word own = reserve(ranks, part);
  RONDE_ASSIGN_OR_RETURN(const std::vector<Word> wanted, exchange("ronde.process_set.add", own));
  if (Status agreed = compare(wanted); !agreed) {
    if (part) {
      connector().give_back(*part);
    }
    return agreed;
  }
  const std::int32_t id = next_id_;
  std::vector<Word> members;
  for (int rank : ranks) {
    members.push_back(wanted[static_cast<std::size_t>(rank)]);
  }
  std::shared_ptr<Engine> engine;
  Word result;
  if (part) {
    Result<std::shared_ptr<Engine>> made = open(*part, id, members, job_.engine().settings().timeout);
    result.problem = made.status();
    engine = made ? std::move(made).value() : nullptr;
  }
  const Result<std::vector<Word>> all = exchange("ronde.process_set.added", result);
  const Status opened = all ? first_problem(all.value(), job_.engine().group().ranks) : all.status();
  if (!opened) {
    engine.reset();
    if (part) {
      connector().leave(*part, has_ended());
    }
    return opened;
  }
  add(id, ranks, std::move(part), std::move(engine));
  return next_id_++;
}

/// What this rank says at first, with its part of the group if it is a member.
Groups::Word Groups::reserve(const std::vector<int>& ranks, std::optional<GroupPart>& part) {
  Word own{{ranks.begin(), ranks.end()}, {}, check_ranks(ranks)};
  if (own.problem && std::find(ranks.begin(), ranks.end(), own_rank()) != ranks.end()) {
    Result<GroupPart> reserved = connector().reserve(ranks, has_ended());
    own.problem = reserved.status();
    if (reserved) {
      part = std::move(reserved).value();
      own.part = part->word;
    }
  }
  return own;
}

/// Whether all of the job want the same group and can have it.
Status Groups::compare(const std::vector<Word>& wanted) const {
  RONDE_RETURN_IF_ERROR(first_problem(wanted, job_.engine().group().ranks));
  for (std::size_t rank = 1; rank < wanted.size(); ++rank) {
    if (wanted[rank].numbers != wanted[0].numbers) {
      return Status::error(Code::mismatch, "the ranks ask for different process sets: rank 0 for " +
                                               list_of(wanted[0].numbers) + ", rank " + std::to_string(rank) + " for " +
                                               list_of(wanted[rank].numbers) +
                                               "; every rank must add the same ones in the same order")
          .with_rank(static_cast<int>(rank));
    }
  }
  return {};
}

/// This rank's engine of the group.
Result<std::shared_ptr<Engine>> Groups::open(const GroupPart& part, std::int32_t id, const std::vector<Word>& members,
                                             Nanoseconds timeout) {
  Engine& job = job_.engine();
  std::vector<std::vector<std::int64_t>> words;
  for (const Word& member : members) {
    words.push_back(member.part);
  }
  RONDE_ASSIGN_OR_RETURN(Connections connections, connector().connect(part, words));
  Topology topology;
  topology.rank = topology.local_rank = part.own;
  topology.size = topology.local_size = static_cast<int>(part.ranks.size());
  topology.epoch = job.topology().epoch;
  Settings settings = job.settings();
  settings.timeout = timeout;
  return std::make_shared<Engine>(topology, std::move(connections), settings, job.clock(), Group{id, part.ranks});
}

void Groups::add(std::int32_t id, const std::vector<int>& ranks, std::optional<GroupPart> part,
                 std::shared_ptr<Engine> engine) {
  if (engine) {
    job_.add_group(std::move(engine), part->call);
  }
  std::lock_guard lock(mutex_);
  known_.emplace(id, Known{ranks, std::move(part)});
}

// ---- Groups that their members make

Result<std::int32_t> Groups::make_with_members(const std::vector<int>& ranks, const Meeting& meeting,
                                               Nanoseconds timeout) {
  RONDE_RETURN_IF_ERROR(only_outside_of_callbacks("made"));
  RONDE_RETURN_IF_ERROR(check_ranks(ranks));
  const auto found = std::find(ranks.begin(), ranks.end(), own_rank());
  if (found == ranks.end()) {
    return Status::error(Code::invalid_argument,
                         "rank " + std::to_string(own_rank()) + " makes a group to which it does not belong");
  }
  const int own = static_cast<int>(found - ranks.begin());
  std::optional<GroupPart> part;
  const Word word = reserve(ranks, part);
  RONDE_ASSIGN_OR_RETURN(const std::vector<Word> members, meet(meeting, "/wanted", own, word));
  if (Status all = first_problem(members, ranks); !all) {
    if (part) {
      connector().give_back(*part);
    }
    return all;
  }
  std::int32_t id = 0;
  {
    std::lock_guard lock(mutex_);
    id = next_own_id_++;
  }
  Result<std::shared_ptr<Engine>> made = open(*part, id, members, timeout);
  const Result<std::vector<Word>> all = meet(meeting, "/made", own, {{}, {}, made.status()});
  const Status opened = all ? first_problem(all.value(), ranks) : all.status();
  if (!opened) {
    made = opened;
    connector().leave(*part, has_ended());
    return opened;
  }
  add(id, ranks, std::move(part), std::move(made).value());
  return id;
}

// ---- The end

Status Groups::destroy(std::int32_t id) {
  RONDE_RETURN_IF_ERROR(only_outside_of_callbacks("removed"));
  if (id >= kFirstOwnGroup) {
    return leave(id);
  }
  std::lock_guard collective(collective_mutex_);
  Word own{{id}};
  if (id == 0) {
    own.problem =
        Status::error(Code::invalid_argument, "the set of all ranks cannot be removed; it ends with shutdown");
  } else if (!knows(id)) {
    own.problem = Status::error(Code::invalid_argument, "there is no process set with the id " + std::to_string(id));
  }
  RONDE_ASSIGN_OR_RETURN(const std::vector<Word> wanted, exchange("ronde.process_set.remove", own));
  RONDE_RETURN_IF_ERROR(first_problem(wanted, job_.engine().group().ranks));
  for (std::size_t rank = 1; rank < wanted.size(); ++rank) {
    if (wanted[rank].numbers != wanted[0].numbers) {
      return Status::error(Code::mismatch, "the ranks remove different process sets: rank 0 the one with the id " +
                                               std::to_string(wanted[0].numbers.front()) + ", rank " +
                                               std::to_string(rank) + " the one with " +
                                               std::to_string(wanted[rank].numbers.front()))
          .with_rank(static_cast<int>(rank));
    }
  }
  const Result<std::vector<Word>> all = exchange("ronde.process_set.removed", {{}, {}, leave(id)});
  return all ? first_problem(all.value(), job_.engine().group().ranks) : all.status();
}

bool Groups::knows(std::int32_t id) {
  std::lock_guard lock(mutex_);
  return known_.contains(id);
}

/// Its memory is given out again once all members have done so.
Status Groups::leave(std::int32_t id) {
  std::optional<GroupPart> part;
  {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(id);
    if (found == known_.end()) {
      return Status::error(Code::invalid_argument, "there is no process set with the id " + std::to_string(id));
    }
    part = std::move(found->second.part);
    known_.erase(found);
  }
  const Status left = job_.leave_group(id);
  if (part) {
    connector().leave(*part, has_ended());
  }
  return left;
}

}  // namespace ronde::engine
