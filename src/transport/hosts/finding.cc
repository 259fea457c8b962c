// How ranks find those with whom they share memory. Every rank opens a socket under a random name in its kernel's name
// space and tells the name in the job's store; each looks for the lowest rank whose socket it reaches. Who reaches none
// below itself is the first of its host and serves a store there, on that socket, in which the host's ranks meet as
// they do where a launcher serves it (shm.h). To reach one another so is the same for all of a host, so all find the
// same first.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/boot_id.h"
#include "base/bytes.h"
#include "base/host_name.h"
#include "base/log.h"
#include "base/random.h"
#include "store/store_client.h"
#include "store/store_server.h"
#include "store/unix_address.h"
#include "transport/hosts/hosts.h"
#include "transport/shm/shm.h"

namespace ronde::transport {

namespace {

/// What each rank tells all in the first exchange.
struct Told {
  std::string id;
  std::string boot_id;
  std::string host;
  std::string socket;  ///< empty: it has none
  int local_size = 1;
};

std::vector<std::byte> encode(const Told& told) {
  ByteWriter writer;
  writer.put_string(told.id);
  writer.put_string(told.boot_id);
  writer.put_string(told.host);
  writer.put_string(told.socket);
  writer.put(static_cast<std::int32_t>(told.local_size));
  return writer.take();
}

Result<Told> decode_told(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Told told;
  told.id = reader.get_string();
  told.boot_id = reader.get_string();
  told.host = reader.get_string();
  told.socket = reader.get_string();
  told.local_size = reader.get<std::int32_t>();
  return reader.at_end() ? Result<Told>(told)
                         : Status::error(Code::version_mismatch,
                                         "what it has told of its host cannot be read; all "
                                         "ranks need one version of Ronde");
}

/// What each tells in the second and third exchange: a rank, and why it is alone, if that needs a word.
struct Choice {
  int first = 0;
  std::string why_alone;
};

Result<std::vector<Choice>> exchange_choices(store::Store& store, const std::string& scope, int rank, int size,
                                             const Choice& mine, Nanoseconds limit) {
  ByteWriter writer;
  writer.put(static_cast<std::int32_t>(mine.first));
  writer.put_string(mine.why_alone);
  RONDE_ASSIGN_OR_RETURN(const auto values, store.exchange(scope, rank, size, {writer.take(), {}}, limit));
  std::vector<Choice> all;
  for (const store::Value& value : values) {
    ByteReader reader(value.bytes);
    Choice choice;
    choice.first = reader.get<std::int32_t>();
    choice.why_alone = reader.get_string();
    if (!reader.at_end() || choice.first < 0 || choice.first >= size) {
      return Status::error(Code::internal, "what a rank has told of its host cannot be read");
    }
    all.push_back(std::move(choice));
  }
  return all;
}

/// An abstract name, which begins with a zero byte.
Result<std::string> random_name() {
  std::array<std::byte, 16> bytes;
  RONDE_RETURN_IF_ERROR(fill_random(bytes));
  std::string name(1, '\0');
  name += "ronde-";
  for (const std::byte each : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(each));
    name += digits;
  }
  return name;
}

/// Whether a socket of this name listens in this kernel and network namespace.
bool is_reachable(const std::string& name) {
  const Result<sockaddr_un> found = store::unix_address(name);
  if (!found) {
    return false;
  }
  const sockaddr_un& address = found.value();
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // One whose queue is full is there.
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN;
}

/// What a rank has of the store in which its host meets.
struct LocalStore {
  std::unique_ptr<store::StoreServer> server;  ///< of the first rank
  std::unique_ptr<store::Store> store;
};

/// Chooses the first rank of this rank's host, and connects to its store, or serves it.
Choice choose(const std::vector<Told>& all, int rank, const JobKey& key, UniqueFd listener, Nanoseconds deadline,
              LocalStore& local) {
  const Told& mine = all[static_cast<std::size_t>(rank)];
  const RealClock clock;
  for (int peer = 0; peer < rank && !mine.socket.empty(); ++peer) {
    const Told& told = all[static_cast<std::size_t>(peer)];
    if (told.id != mine.id || told.socket.empty() || !is_reachable(told.socket)) {
      continue;
    }
    Result<std::unique_ptr<store::Store>> connected =
        store::connect_store("unix:" + told.socket, key, time_left(clock, deadline));
    if (!connected) {
      return {rank, connected.status().message()};
    }
    local.store = std::move(*connected);
    return {peer, ""};
  }
  if (listener.is_open()) {
    Result<std::unique_ptr<store::StoreServer>> server = store::StoreServer::start(std::move(listener), key);
    if (!server) {
      return {rank, server.status().message()};
    }
    local.server = std::move(*server);
  }
  return {rank, ""};
}

/// The log of the lowest rank of a host says what keeps its others from sharing its memory.
void tell_who_is_apart(const std::vector<Told>& all, const std::vector<Choice>& choices, int rank) {
  const Told& mine = all[static_cast<std::size_t>(rank)];
  std::string apart;
  std::string why;
  for (std::size_t peer = 0; peer < all.size(); ++peer) {
    const Told& told = all[peer];
    const bool is_one_host = told.id == mine.id && told.boot_id == mine.boot_id && !mine.boot_id.empty();
    if (!is_one_host || choices[peer].first == choices[static_cast<std::size_t>(rank)].first) {
      continue;
    }
    if (peer < static_cast<std::size_t>(rank)) {
      return;  // that one says it
    }
    apart += (apart.empty() ? "" : ", ") + std::to_string(peer);
    why = why.empty() ? choices[peer].why_alone : why;
  }
  if (choices[static_cast<std::size_t>(rank)].first != rank || apart.empty()) {
    return;
  }
  const auto together =
      std::count_if(choices.begin(), choices.end(), [&](const Choice& each) { return each.first == rank; });
  // Namespaces of one machine may well be meant as hosts: then nobody has said that they are one.
  const bool was_promised = !mine.id.empty() || mine.local_size > together || !why.empty();
  log(was_promised ? LogLevel::warning : LogLevel::info, rank,
      "the ranks " + apart + " run on this rank's machine (" + mine.host + ") but can share no memory with it" +
          (why.empty() ? ", as in containers with network namespaces of their own" : ": " + why) +
          "; they reach each other over TCP, which is slower. 'ronde doctor' says there what the machine allows");
}

/// Where ranks of several hosts reach each other by messages: rings that hold a chunk of a collective, so that who
/// shares a core with the reader need not wait for it in the middle of one, and no slots, which nobody uses.
RegionLayout layout_for_messages(int size) {
  constexpr std::size_t kMostRingBytes = std::size_t{512} << 10;
  constexpr std::size_t kAllRings = std::size_t{1} << 20;
  RegionLayout layout = RegionLayout::for_size(size);
  layout.ring_bytes =
      std::max(layout.ring_bytes, std::min(kMostRingBytes, std::bit_floor(kAllRings / static_cast<std::size_t>(size))));
  layout.slots = 2;
  layout.slot_bytes = kLineBytes;
  return layout;
}

/// Has the ranks of a host meet; the arena is null if they can share no memory, and `choice` says why.
Result<std::shared_ptr<HostArena>> share_memory(store::Store& store, const std::string& scope, const Hosts& hosts,
                                                int rank, Nanoseconds limit, Choice& choice) {
  const std::vector<int> members = hosts.members(rank);
  const auto local = std::find(members.begin(), members.end(), rank) - members.begin();
  const int size = static_cast<int>(members.size());
  const int possible = std::min(size, kMaxHostRanks);
  RegionLayout layout = hosts.count() == 1 ? RegionLayout::for_size(possible) : layout_for_messages(possible);
  layout.size = size;  // too many: nobody shares
  Result<std::unique_ptr<HostArena>> arena =
      meet_on_host(store, scope, static_cast<int>(local), size, layout, limit, members);
  if (arena) {
    return std::shared_ptr<HostArena>(std::move(*arena));
  }
  if (arena.status().code() != Code::system_error) {
    return arena.status();  // they did not come, or have another version
  }
  choice = {rank, arena.status().message()};
  return std::shared_ptr<HostArena>();
}

}  // namespace

Result<Hosts> find_hosts(store::Store& store, const JobKey& key, const std::string& scope, int rank, int size,
                         const HostClaim& claim, Nanoseconds limit) {
  const RealClock clock;
  const Nanoseconds deadline = later(clock.now(), limit);
  Told mine{claim.id, boot_id(), host_name(), "", claim.local_size};
  UniqueFd listener;
  RONDE_ASSIGN_OR_RETURN(std::string name, random_name());
  if (Result<UniqueFd> listening = store::listen_unix(name)) {
    listener = std::move(*listening);
    mine.socket = std::move(name);
  }
  RONDE_ASSIGN_OR_RETURN(const auto values, store.exchange(scope + "/sockets", rank, size, {encode(mine), {}}, limit));
  std::vector<Told> all;
  for (std::size_t peer = 0; peer < values.size(); ++peer) {
    Result<Told> told = decode_told(values[peer].bytes);
    if (!told) {
      return told.status().with_context("rank " + std::to_string(peer)).with_rank(static_cast<int>(peer));
    }
    all.push_back(std::move(*told));
  }

  LocalStore local;
  Choice choice = choose(all, rank, key, std::move(listener), deadline, local);
  RONDE_ASSIGN_OR_RETURN(const std::vector<Choice> chosen,
                         exchange_choices(store, scope + "/first", rank, size, choice, time_left(clock, deadline)));
  Hosts hosts;
  for (const Choice& each : chosen) {
    hosts.first_of.push_back(each.first);
  }
  if (hosts.members(rank).size() > 1) {
    if (!local.store) {
      Result<std::unique_ptr<store::Store>> own =
          store::connect_store("unix:" + all[static_cast<std::size_t>(rank)].socket, key, time_left(clock, deadline));
      RONDE_RETURN_IF_ERROR(own.status());
      local.store = std::move(*own);
    }
    RONDE_ASSIGN_OR_RETURN(
        hosts.arena, share_memory(*local.store, scope + "/memory", hosts, rank, time_left(clock, deadline), choice));
  }
  RONDE_ASSIGN_OR_RETURN(std::vector<Choice> shared,
                         exchange_choices(store, scope + "/shared", rank, size, choice, time_left(clock, deadline)));
  for (std::size_t peer = 0; peer < shared.size(); ++peer) {
    hosts.first_of[peer] = shared[peer].first;
    shared[peer].why_alone += chosen[peer].why_alone;
  }
  tell_who_is_apart(all, shared, rank);
  return hosts;
}

}  // namespace ronde::transport
