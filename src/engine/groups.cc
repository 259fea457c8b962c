#include "engine/groups.h"

#include <algorithm>
#include <utility>

#include "backend/native/native.h"
#include "base/bytes.h"
#include "engine/runner.h"
#include "transport/group_arena.h"

namespace ronde::engine {

namespace {

std::string list_of(const std::vector<std::int64_t>& ranks) {
  std::string text;
  for (std::int64_t rank : ranks) {
    text += (text.empty() ? "[" : ", ") + std::to_string(rank);
  }
  return text.empty() ? "[]" : text + "]";
}

agreement::HeapRange groups_range(const transport::HostArena& host) {
  const transport::HeapParts parts = transport::HeapParts::of(host.layout());
  return {static_cast<std::int64_t>(parts.groups), static_cast<std::int64_t>(parts.callers)};
}

}  // namespace

Groups::Groups(Runner& runner, const collectives::Table& table)
    : runner_(runner), table_(table), places_(groups_range(runner.engine().arena())) {}

Status Groups::check_ranks(const std::vector<int>& ranks) const {
  const int size = runner_.engine().topology().size;
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

/// All ranks' words, by rank; the first problem of any is everyone's error.
Result<std::vector<Groups::Word>> Groups::exchange(const std::string& name, const Word& own) {
  ByteWriter writer;
  write_numbers(writer, own.numbers);
  writer.put_string(own.problem);
  std::vector<std::byte> bytes = writer.take();
  Request request;
  request.kind = OpKind::allgather;
  request.name = name;
  request.timeout = runner_.engine().settings().timeout;
  request.tensors.resize(1);
  Tensor& input = request.tensors[0].input;
  input.data = bytes.data();
  input.dtype = DType::uint8;
  input.shape = {static_cast<std::int64_t>(bytes.size())};
  const auto ticket = std::make_shared<Ticket>(std::move(request));
  RONDE_RETURN_IF_ERROR(runner_.submit_to_wait(ticket));
  RONDE_RETURN_IF_ERROR(runner_.release(*ticket));  // signals or not: the ranks would be out of step
  RONDE_RETURN_IF_ERROR(ticket->status());
  const OwnedOutput& all = ticket->owned_outputs().front();
  ByteReader reader({all.data.get(), static_cast<std::size_t>(all.shape.front())});
  std::vector<Word> words(static_cast<std::size_t>(runner_.engine().topology().size));
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    words[rank].numbers = read_numbers<std::int64_t>(reader);
    words[rank].problem = reader.get_string();
  }
  if (!reader.at_end()) {
    return Status::error(Code::internal, "what the ranks told each other about a process set cannot be read");
  }
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    if (!words[rank].problem.empty()) {
      return Status::error(Code::invalid_argument, "rank " + std::to_string(rank) + ": " + words[rank].problem)
          .with_rank(static_cast<int>(rank));
    }
  }
  return words;
}

Result<std::int32_t> Groups::make(std::vector<int> ranks) {
  if (Runner::in_callback()) {
    return Status::error(Code::would_deadlock,
                         "a process set cannot be made in a completion callback, which it waits for");
  }
  std::lock_guard lock(mutex_);
  std::sort(ranks.begin(), ranks.end());
  Word own{{ranks.begin(), ranks.end()}, check_ranks(ranks).message()};
  RONDE_ASSIGN_OR_RETURN(const std::vector<Word> wanted, exchange("ronde.process_set.add", own));
  for (std::size_t rank = 1; rank < wanted.size(); ++rank) {
    if (wanted[rank].numbers != wanted[0].numbers) {
      return Status::error(Code::mismatch, "the ranks ask for different process sets: rank 0 for " +
                                               list_of(wanted[0].numbers) + ", rank " + std::to_string(rank) + " for " +
                                               list_of(wanted[rank].numbers) +
                                               "; every rank must add the same ones in the same order")
          .with_rank(static_cast<int>(rank));
    }
  }
  const transport::HostArena& host = runner_.engine().arena();
  Known group{ranks, 0, transport::GroupArena::usual_bytes(host.layout(), static_cast<int>(ranks.size()))};
  const std::optional<std::int64_t> offset =
      host.layout().heap_bytes == 0 ? std::nullopt : places_.allocate(group.bytes, transport::kHugePageBytes);
  if (!offset) {
    return Status::error(Code::out_of_memory, "no room for another process set: this job has " +
                                                  std::to_string(known_.size()) + " and may share " +
                                                  std::to_string(host.layout().heap_bytes) +
                                                  " bytes of address space (ulimit -v); remove one that is not needed");
  }
  group.offset = *offset;
  const std::int32_t id = next_id_;
  const bool is_member = std::binary_search(ranks.begin(), ranks.end(), runner_.engine().topology().rank);
  std::shared_ptr<Engine> engine;
  Word result;
  if (is_member) {
    Result<std::shared_ptr<Engine>> made = open(group, id);
    result.problem = made.status().message();
    engine = made ? std::move(made).value() : nullptr;
  }
  const Result<std::vector<Word>> all = exchange("ronde.process_set.added", result);
  if (!all) {
    engine.reset();
    give_back(group);
    return all.status();
  }
  if (engine) {
    runner_.add_group(std::move(engine));
  }
  known_.emplace(id, std::move(group));
  return next_id_++;
}

/// This rank's part of the arena, and its engine on it.
Result<std::shared_ptr<Engine>> Groups::open(const Known& group, std::int32_t id) {
  Engine& job = runner_.engine();
  auto arena = std::make_unique<transport::GroupArena>(
      job.arena(), group.ranks, transport::GroupPlace{static_cast<std::size_t>(group.offset), group.bytes});
  RONDE_RETURN_IF_ERROR(arena->open());
  Topology topology;
  topology.rank = topology.local_rank = arena->rank();
  topology.size = topology.local_size = arena->size();
  topology.epoch = job.topology().epoch;
  std::unique_ptr<backend::Backend> backend = backend::make_native_backend(*arena, table_);
  return std::make_shared<Engine>(topology, std::move(arena), std::move(backend), job.settings(), job.clock(),
                                  Group{id, group.ranks}, job.shared_heap());
}

void Groups::give_back(const Known& group) {
  const auto& ranks = group.ranks;
  if (std::binary_search(ranks.begin(), ranks.end(), runner_.engine().topology().rank)) {
    runner_.engine().arena().discard(static_cast<std::size_t>(group.offset), group.bytes);
  }
  places_.free(group.offset);
}

Status Groups::destroy(std::int32_t id) {
  if (Runner::in_callback()) {
    return Status::error(Code::would_deadlock, "a process set cannot be removed in a completion callback");
  }
  std::lock_guard lock(mutex_);
  const auto found = known_.find(id);
  Word own{{id}, ""};
  if (id == 0) {
    own.problem = "the set of all ranks cannot be removed; it ends with shutdown";
  } else if (found == known_.end()) {
    own.problem = "there is no process set with the id " + std::to_string(id);
  }
  RONDE_ASSIGN_OR_RETURN(const std::vector<Word> wanted, exchange("ronde.process_set.remove", own));
  for (std::size_t rank = 1; rank < wanted.size(); ++rank) {
    if (wanted[rank].numbers != wanted[0].numbers) {
      return Status::error(Code::mismatch, "the ranks remove different process sets: rank 0 the one with the id " +
                                               std::to_string(wanted[0].numbers.front()) + ", rank " +
                                               std::to_string(rank) + " the one with " +
                                               std::to_string(wanted[rank].numbers.front()))
          .with_rank(static_cast<int>(rank));
    }
  }
  const Known group = found->second;
  known_.erase(found);
  const Status left = runner_.leave_group(id);
  const Result<std::vector<Word>> all = exchange("ronde.process_set.removed", {{}, left.message()});
  if (all) {
    give_back(group);
  }  // else a member may still be at work there: the place stays taken
  return all.status();
}

}  // namespace ronde::engine
