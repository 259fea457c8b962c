#include "engine/process/world_connections.h"

#include <sys/epoll.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <string>
#include <utility>

#include "backend/messages/messages.h"
#include "backend/shm/shm.h"
#include "backend/staged/staged_backend.h"
#include "base/log.h"
#include "transport/arena/arena_memory.h"
#include "transport/arena/group_arena.h"
#include "transport/arena/group_parts.h"
#include "transport/arena/host_peers.h"
#include "transport/arena/ring_link.h"
#include "transport/group_calls.h"
#include "transport/messages/message_peers.h"

namespace ronde::engine {

namespace {

using Words = std::vector<std::vector<std::int64_t>>;
using Holds = transport::ArenaMemory::Holds;

/// What lies in `arena`, and is woken as the job's ranks are, whose arena is `job`.
Connections woken_in(const transport::HostArena& job, std::shared_ptr<const void> arena) {
  transport::ControlBlock& own = job.control(job.rank());
  Connections made;
  made.keeps = std::move(arena);
  made.bell = {&own.bell, job.bells().own_fd()};
  made.calls = &own.calls;
  return made;
}

/// All members are in the arena. `job`: it, or that of the job whose group these are.
Connections in_memory(const transport::HostArena& job, const std::shared_ptr<transport::HostArena>& arena,
                      std::unique_ptr<backend::Backend> backend, std::unique_ptr<transport::ArenaMemory> memory) {
  Connections made = woken_in(job, arena);
  for (int rank = 0; rank < arena->size(); ++rank) {
    made.who.push_back(arena->process(rank).info);
    made.processes.push_back(rank == arena->rank() ? -1 : arena->process(rank).end_fd);
  }
  made.memory = std::move(memory);
  if (arena->size() > 1) {
    made.agreement = transport::make_ring_transport(*arena);
  }
  made.peers = std::make_unique<transport::HostPeers>(*arena);
  made.backend = std::move(backend);
  return made;
}

/// `first_of`: as connect_by_messages() has it, for each member.
Connections by_links(const std::shared_ptr<transport::HostArena>& own, std::vector<transport::PeerInfo> who, int rank,
                     transport::GroupLinks links, std::function<void()> wake, std::vector<int> first_of,
                     std::unique_ptr<transport::ArenaMemory> memory, const collectives::HostTable& table) {
  Connections made = woken_in(*own, own);
  made.processes.assign(who.size(), -1);  // links tell of their ends
  made.memory = std::move(memory);
  made.links = std::move(links.data);
  made.mailbox = std::make_unique<transport::Mailbox>(made.links.get(), rank, static_cast<int>(who.size()));
  made.who = std::move(who);
  made.agreement = std::move(links.agreement);
  auto peers = std::make_unique<transport::MessagePeers>(*made.mailbox, std::move(wake));
  auto backend = backend::make_message_backend(*made.mailbox, collectives::RankLayout(std::move(first_of)), table);
  peers->before_frozen([&published = *backend] { published.announce(); });
  made.peers = std::move(peers);
  made.backend = std::move(backend);
  return made;
}

// ---- Groups

/// What both kinds do alike.
class PlacedGroups : public GroupConnector {
 public:
  PlacedGroups(std::shared_ptr<transport::HostArena> arena, int rank, bool shares_memory,
               std::shared_ptr<transport::SharedHeap> heap)
      : arena_(std::move(arena)), heap_(std::move(heap)), parts_(arena_->own_heap(), rank, shares_memory) {}

  Result<GroupPart> reserve(const std::vector<int>& ranks, const HasEnded& has_ended) override {
    RONDE_ASSIGN_OR_RETURN(transport::GroupPart part, parts_.reserve(ranks, has_ended));
    return GroupPart{part.call, part.own, std::move(part.ranks), word_of(part)};
  }
  void give_back(const GroupPart& part) override { parts_.give_back(part.call); }
  void leave(const GroupPart& part, const HasEnded& has_ended) override { parts_.leave(part.call, has_ended); }
  std::size_t taken() const override { return parts_.taken(); }

 protected:
  virtual std::vector<std::int64_t> word_of(const transport::GroupPart& part) const = 0;
  static Status is_impossible(int rank, const char* what) {
    return Status::error(Code::internal, "rank " + std::to_string(rank) + " has told no " + what +
                                             " of a process set, or an impossible one");
  }

  const std::shared_ptr<transport::HostArena> arena_;
  const std::shared_ptr<transport::SharedHeap> heap_;
  transport::GroupParts parts_;
};

/// Over parts of the members' heaps. The word of a part is where it begins, and its call.
class GroupsInMemory final : public PlacedGroups {
 public:
  GroupsInMemory(std::shared_ptr<transport::HostArena> arena, std::shared_ptr<transport::SharedHeap> heap,
                 const collectives::Table& table)
      : PlacedGroups(arena, arena->rank(), true, std::move(heap)), table_(table) {}

  Result<Connections> connect(const GroupPart& part, const Words& words) override {
    const transport::HeapParts parts = transport::HeapParts::of(arena_->layout().heap_bytes);
    std::vector<transport::GroupMember> members;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::vector<std::int64_t>& word = words[i];
      if (word.size() != 2 || word[0] < static_cast<std::int64_t>(parts.groups) ||
          word[0] >= static_cast<std::int64_t>(parts.callers) ||
          word[0] % static_cast<std::int64_t>(transport::kHugePageBytes) != 0 || word[1] < 0 ||
          word[1] >= transport::kCallBits) {
        return is_impossible(part.ranks[i], "place of its part");
      }
      members.push_back({part.ranks[i], static_cast<std::size_t>(word[0]), static_cast<int>(word[1])});
    }
    const auto arena = std::make_shared<transport::GroupArena>(*arena_, members, parts_.part(part.call).place);
    return in_memory(*arena_, arena, backend::make_shm_backend(*arena, table_),
                     std::make_unique<transport::ArenaMemory>(*arena, Holds::all_members, heap_));
  }

 private:
  std::vector<std::int64_t> word_of(const transport::GroupPart& part) const override {
    return {static_cast<std::int64_t>(part.place.offset), part.call};
  }

  const collectives::Table table_;
};

/// Over the job's links. The word of a part is a number; the group goes by the first member's.
class GroupsByLinks final : public PlacedGroups {
 public:
  GroupsByLinks(std::shared_ptr<transport::HostArena> own, int rank, std::shared_ptr<transport::SharedHeap> heap,
                std::vector<transport::PeerInfo> who, std::vector<int> first_of,
                std::shared_ptr<transport::LinksForGroups> links, collectives::HostTable table)
      : PlacedGroups(std::move(own), rank, false, std::move(heap)),
        who_(std::move(who)),
        first_of_(std::move(first_of)),
        links_(std::move(links)),
        table_(std::move(table)) {}

  Result<Connections> connect(const GroupPart& part, const Words& words) override {
    const std::vector<std::int64_t>& number = words.front();
    if (number.size() != 1 || number[0] >> 32 != part.ranks.front()) {
      return is_impossible(part.ranks.front(), "number");
    }
    std::vector<transport::PeerInfo> who;
    std::vector<int> hosts;  // by member of the group, in numbers of the job
    std::vector<int> first_of;
    for (const int member : part.ranks) {
      who.push_back(who_[static_cast<std::size_t>(member)]);
      hosts.push_back(first_of_[static_cast<std::size_t>(member)]);
      first_of.push_back(static_cast<int>(std::find(hosts.begin(), hosts.end(), hosts.back()) - hosts.begin()));
    }
    const auto call_it = [arena = arena_, call = part.call] {
      std::atomic_thread_fence(std::memory_order_seq_cst);
      transport::call_group_after_fence(arena->control(arena->rank()).calls, call);
    };
    const auto wake = [call_it, arena = arena_] {
      call_it();
      arena->bells().ring(arena->rank());
    };
    return by_links(arena_, std::move(who), part.own,
                    links_->open(static_cast<std::uint64_t>(number[0]), part.ranks, call_it), wake, std::move(first_of),
                    std::make_unique<transport::ArenaMemory>(*arena_, Holds::own_rank, heap_), table_);
  }

 private:
  std::vector<std::int64_t> word_of(const transport::GroupPart& part) const override {
    return {static_cast<std::int64_t>(part.number)};
  }

  const std::vector<transport::PeerInfo> who_;
  const std::vector<int> first_of_;
  const std::shared_ptr<transport::LinksForGroups> links_;
  const collectives::HostTable table_;
};

}  // namespace

JobConnections connect_on_host(std::shared_ptr<transport::HostArena> arena, std::unique_ptr<backend::Backend> backend,
                               const collectives::Table& table) {
  auto memory = std::make_unique<transport::ArenaMemory>(*arena, Holds::all_members);
  auto groups = std::make_unique<GroupsInMemory>(arena, memory->heap(), table);
  return {in_memory(*arena, arena, std::move(backend), std::move(memory)), std::move(groups)};
}

Status go_by_library(Connections& connections, std::shared_ptr<backend::CollectiveLibrary> library) {
  log(LogLevel::info, library->rank(), "backend " + std::string(library->backend()) + ": " + library->name());
  const int links = connections.news_fd();
  UniqueFd both(::epoll_create1(EPOLL_CLOEXEC));
  bool is_made = both.is_open();
  for (const int fd : {library->news_fd(), links}) {
    epoll_event readable{.events = EPOLLIN, .data = {}};
    is_made = is_made && (fd < 0 || ::epoll_ctl(both.get(), EPOLL_CTL_ADD, fd, &readable) == 0);
  }
  connections.other_news = std::move(both);
  connections.backend = backend::make_staged_backend(std::move(connections.backend), std::move(library));
  return is_made ? Status() : Status::error(Code::system_error, "no descriptor can be made for the news of a library");
}

JobConnections connect_by_messages(std::shared_ptr<transport::HostArena> own, std::vector<transport::PeerInfo> who,
                                   int rank, transport::GroupLinks links, std::function<void()> wake,
                                   std::vector<int> first_of, std::shared_ptr<transport::LinksForGroups> groups,
                                   const collectives::HostTable& table) {
  if (first_of.empty()) {
    first_of.resize(who.size());
    std::iota(first_of.begin(), first_of.end(), 0);
  }
  auto memory = std::make_unique<transport::ArenaMemory>(*own, Holds::own_rank);
  std::unique_ptr<GroupConnector> connector;
  if (groups) {
    connector = std::make_unique<GroupsByLinks>(own, rank, memory->heap(), who, first_of, std::move(groups), table);
  }
  return {
      by_links(own, std::move(who), rank, std::move(links), std::move(wake), std::move(first_of), std::move(memory),
               table),
      std::move(connector)};
}

}  // namespace ronde::engine
