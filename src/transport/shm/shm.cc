#include "transport/shm/shm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "base/host_name.h"
#include "base/version.h"
#include "transport/arena/mapped_arena.h"
#include "transport/bell.h"
#include "transport/shm/hello.h"

namespace ronde::transport {

namespace {

// Without these a peer could shrink its memfd under us, and touching it would kill this process with SIGBUS.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// What one rank brings to the meeting.
struct Own {
  std::shared_ptr<Mapping> mapping;
  UniqueFd memfd;
  UniqueFd bell;
  std::vector<UniqueFd> to_give;  ///< memfd, eventfd and, where the kernel has them, pidfd
};

/// A memfd of exactly these bytes that nobody can resize any more.
Result<UniqueFd> make_memfd(std::size_t bytes) {
  UniqueFd fd(::memfd_create("ronde", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.is_open()) {
    return Status::from_errno("memfd_create", errno);
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return Status::from_errno("ftruncate of a memfd to " + std::to_string(bytes) + " bytes", errno);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return Status::from_errno("fcntl(F_ADD_SEALS)", errno);
  }
  return fd;
}

Result<Own> make_own(const RegionLayout& layout) {
  Own own;
  RONDE_RETURN_IF_ERROR(layout.check());
  const std::size_t bytes = layout.total_bytes();
  RONDE_ASSIGN_OR_RETURN(UniqueFd memfd, make_memfd(bytes));
  RONDE_ASSIGN_OR_RETURN(Mapping mapping, Mapping::of_memfd(memfd.get(), layout, Mapping::Access::own));
  own.mapping = std::make_shared<Mapping>(std::move(mapping));
  RONDE_ASSIGN_OR_RETURN(own.bell, make_bell_fd());
  UniqueFd bell_copy(::fcntl(own.bell.get(), F_DUPFD_CLOEXEC, 0));
  UniqueFd memfd_copy(::fcntl(memfd.get(), F_DUPFD_CLOEXEC, 0));
  if (!bell_copy.is_open() || !memfd_copy.is_open()) {
    return Status::from_errno("fcntl(F_DUPFD_CLOEXEC)", errno);
  }
  own.memfd = std::move(memfd);
  own.to_give.push_back(std::move(memfd_copy));
  own.to_give.push_back(std::move(bell_copy));
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (pidfd.is_open()) {
    own.to_give.push_back(std::move(pidfd));
  }
  return own;
}

/// Checks what a peer handed over and maps as much of it as all agreed on.
Result<MappedArena::Member> map_peer(const Hello& hello, const RegionLayout& agreed,
                                     std::vector<UniqueFd>& descriptors) {
  if (hello.descriptors < 2 || hello.descriptors > 3 || descriptors.size() != hello.descriptors) {
    return Status::error(Code::system_error, std::to_string(descriptors.size()) +
                                                 " descriptors came from it and it "
                                                 "announced " +
                                                 std::to_string(hello.descriptors) +
                                                 "; a memfd, an eventfd and maybe a pidfd were expected. The store "
                                                 "must hand descriptors over");
  }
  MappedArena::Member member;
  const std::size_t bytes = hello.layout.total_bytes();
  struct stat file {};
  if (::fstat(descriptors[0].get(), &file) != 0) {
    return Status::from_errno("fstat of its memory", errno);
  }
  const int seals = ::fcntl(descriptors[0].get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || file.st_size != static_cast<off_t>(bytes)) {
    return Status::error(Code::system_error, "its memory is not a sealed memfd of " + std::to_string(bytes) +
                                                 " bytes: size " + std::to_string(file.st_size) + ", seals " +
                                                 std::to_string(seals));
  }
  const int flags = ::fcntl(descriptors[1].get(), F_GETFL);
  if (flags < 0 || (flags & O_NONBLOCK) == 0) {
    return Status::error(Code::system_error, "its bell is not a non-blocking eventfd");
  }
  RONDE_ASSIGN_OR_RETURN(Mapping mapping, Mapping::of_memfd(descriptors[0].get(), agreed, Mapping::Access::control));
  member.mapping = std::make_shared<const Mapping>(std::move(mapping));
  member.region = member.mapping->base();
  member.bell = std::make_shared<const UniqueFd>(std::move(descriptors[1]));
  if (descriptors.size() == 3) {
    member.pidfd = std::move(descriptors[2]);
  }
  member.info = PeerInfo{hello.host, hello.pid};
  descriptors.clear();
  return member;
}

/// The second exchange: a rank that cannot map somebody's memory must not leave the others in a world without it.
Status agree_that_all_have_mapped(store::Store& store, const std::string& scope, int rank, int size, const Status& mine,
                                  Nanoseconds limit, std::span<const int> job_ranks) {
  store::Value value;
  const auto* text = reinterpret_cast<const std::byte*>(mine.message().data());
  value.bytes.assign(text, text + mine.message().size());
  RONDE_ASSIGN_OR_RETURN(const auto all, store.exchange(scope + "/mapped", rank, size, std::move(value), limit));
  for (std::size_t each = 0; each < all.size(); ++each) {
    if (!all[each].bytes.empty()) {
      const int name = job_rank(job_ranks, each);
      return Status::error(Code::system_error, "rank " + std::to_string(name) + " cannot map the memory of " +
                                                   std::string(reinterpret_cast<const char*>(all[each].bytes.data()),
                                                               all[each].bytes.size()))
          .with_rank(name);
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<HostArena>> meet_on_host(store::Store& store, const std::string& scope, int rank, int size,
                                                const RegionLayout& wanted, Nanoseconds limit,
                                                std::span<const int> job_ranks) {
  const Nanoseconds deadline = later(RealClock().now(), limit);
  RegionLayout layout = wanted;
  layout.heap_bytes = wanted.check() ? possible_heap_bytes(wanted) : 0;
  Result<Own> own = make_own(layout);
  Hello mine;
  mine.library_version = kVersion;
  mine.layout = layout;
  mine.host = host_name();
  mine.pid = ::getpid();
  mine.failure = own.status().message();
  store::Value greeting;
  if (own) {
    mine.descriptors = static_cast<std::uint32_t>(own->to_give.size());
    greeting.descriptors = std::move(own->to_give);
  }
  greeting.bytes = encode(mine);
  // The first exchange: everybody's greeting and descriptors.
  RONDE_ASSIGN_OR_RETURN(auto values, store.exchange(scope, rank, size, std::move(greeting), limit));
  std::vector<Result<Hello>> hellos;
  for (const store::Value& value : values) {
    hellos.push_back(decode(value.bytes));
  }
  RONDE_RETURN_IF_ERROR(judge(hellos, job_ranks));
  layout = agreed_layout(hellos);
  own->mapping->shrink(layout.total_bytes());

  std::vector<MappedArena::Member> members(static_cast<std::size_t>(size));
  Status mapped;
  for (std::size_t peer = 0; peer < members.size() && mapped; ++peer) {
    if (peer == static_cast<std::size_t>(rank)) {
      members[peer].mapping = own->mapping;
      members[peer].region = own->mapping->base();
      members[peer].bell = std::make_shared<const UniqueFd>(std::move(own->bell));
      members[peer].info = PeerInfo{mine.host, mine.pid};
      members[peer].memfd = std::move(own->memfd);
      continue;
    }
    Result<MappedArena::Member> member = map_peer(hellos[peer].value(), layout, values[peer].descriptors);
    if (member) {
      members[peer] = std::move(member).value();
    } else {
      mapped = member.status().with_context("rank " + std::to_string(job_rank(job_ranks, peer)));
    }
  }
  values.clear();
  RONDE_RETURN_IF_ERROR(
      agree_that_all_have_mapped(store, scope, rank, size, mapped, time_left(RealClock(), deadline), job_ranks));
  return std::unique_ptr<HostArena>(std::make_unique<MappedArena>(rank, layout, std::move(members)));
}

}  // namespace ronde::transport
