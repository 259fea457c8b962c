// What Ronde uses of oneCCL, between processes of one host, for machines without oneCCL. Each rank copies a
// piece of what it sends into a file that all map, all wait for each other, and each takes what is for it. A rank that
// is killed leaves the others waiting for good, as oneCCL does.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr std::size_t kMostRanks = 16;
constexpr std::size_t kPiece = std::size_t{1} << 18;

struct Shared {
  std::atomic<std::uint32_t> arrived, round;
  alignas(64) std::array<std::array<std::byte, kPiece>, kMostRanks> pieces;
};

struct Id {
  char path[4096];
};

struct Comm {
  Shared* shared;
  std::size_t ranks;
  std::size_t rank;

  void meet() const {
    const std::uint32_t round = shared->round.load();
    if (shared->arrived.fetch_add(1) + 1 == ranks) {
      shared->arrived.store(0);
      shared->round.fetch_add(1);
    }
    while (shared->round.load() == round) {
      ::sched_yield();
    }
  }
};

std::size_t bytes_of(int type) {
  switch (type) {
    case 0:
    case 1: return 1;
    case 2:
    case 3:
    case 7: return 4;
    default: return 8;
  }
}

template <typename T>
void fold(const std::byte* from, std::byte* to, std::size_t count, int op) {
  for (std::size_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, to + i * sizeof a, sizeof a);
    std::memcpy(&b, from + i * sizeof b, sizeof b);
    const T result = op == 0   ? static_cast<T>(a + b)
                     : op == 1 ? static_cast<T>(a * b)
                     : op == 2 ? std::max(a, b)
                               : std::min(a, b);
    std::memcpy(to + i * sizeof a, &result, sizeof a);
  }
}

void fold(const std::byte* from, std::byte* to, std::size_t bytes, int type, int op) {
  switch (type) {
    case 0: return fold<std::int8_t>(from, to, bytes, op);
    case 1: return fold<std::uint8_t>(from, to, bytes, op);
    case 2: return fold<std::int32_t>(from, to, bytes / 4, op);
    case 3: return fold<std::uint32_t>(from, to, bytes / 4, op);
    case 4: return fold<std::int64_t>(from, to, bytes / 8, op);
    case 5: return fold<std::uint64_t>(from, to, bytes / 8, op);
    case 7: return fold<float>(from, to, bytes / 4, op);
    default: return fold<double>(from, to, bytes / 8, op);
  }
}

/// Shows all ranks so many bytes of each; take(sender, its bytes from `begin` on, begin, end).
template <typename Take>
int show(const Comm& comm, const void* from, std::size_t bytes, const Take& take) {
  for (std::size_t begin = 0; begin < bytes; begin += kPiece) {
    const std::size_t end = std::min(begin + kPiece, bytes);
    std::memcpy(comm.shared->pieces[comm.rank].data(), static_cast<const std::byte*>(from) + begin, end - begin);
    comm.meet();
    for (std::size_t sender = 0; sender < comm.ranks; ++sender) {
      take(sender, comm.shared->pieces[sender].data(), begin, end);
    }
    comm.meet();
  }
  return 0;
}

/// The sum, say, of what all show of [first, first + bytes of the result).
int reduce_part(const Comm& comm, const void* from, std::size_t shown, void* to, std::size_t first, std::size_t bytes,
                int type, int op) {
  auto* const result = static_cast<std::byte*>(to);
  return show(comm, from, shown, [&](std::size_t sender, const std::byte* piece, std::size_t begin, std::size_t end) {
    const std::size_t low = std::max(begin, first);
    const std::size_t high = std::min(end, first + bytes);
    if (low >= high) {
      return;
    }
    if (sender == 0) {
      std::memcpy(result + (low - first), piece + (low - begin), high - low);
    } else {
      fold(piece + (low - begin), result + (low - first), high - low, type, op);
    }
  });
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int onecclGetVersion(int* version) {
  *version = 20220100;
  return 0;
}

int onecclGetUniqueId(Id* id) {
  const char* const folder = std::getenv("TMPDIR");
  const std::string name = std::string(folder != nullptr ? folder : "/tmp") + "/ronde-oneccl-XXXXXX";
  std::memcpy(id->path, name.c_str(), name.size() + 1);
  const int file = ::mkstemp(id->path);
  const bool is_made = file >= 0 && ::ftruncate(file, sizeof(Shared)) == 0;
  ::close(file);
  return is_made ? 0 : 2;
}

int onecclCommInitRank(Comm** comm, std::size_t ranks, Id id, int rank) {
  const int file = ::open(id.path, O_RDWR | O_CLOEXEC);
  void* const place = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (place == MAP_FAILED || ranks > kMostRanks) {
    return 2;
  }
  *comm = new Comm{static_cast<Shared*>(place), ranks, static_cast<std::size_t>(rank)};
  (*comm)->meet();
  if (rank == 0) {
    ::unlink(id.path);
  }
  return 0;
}

int onecclCommDestroy(Comm* comm) {
  ::munmap(comm->shared, sizeof(Shared));
  delete comm;
  return 0;
}

const char* onecclGetLastError(Comm*) { return "the stand-in says no more"; }

int onecclAllReduce(void* from, void* to, std::size_t count, int type, int op, Comm* comm, void*) {
  const std::size_t bytes = count * bytes_of(type);
  return reduce_part(*comm, from, bytes, to, 0, bytes, type, op);
}

int onecclReduce(const void* from, void* to, std::size_t count, int type, int op, int root, Comm* comm, void*) {
  const std::size_t bytes = count * bytes_of(type);
  return reduce_part(*comm, from, bytes, to, 0, comm->rank == static_cast<std::size_t>(root) ? bytes : 0, type, op);
}

int onecclReduceScatter(const void* from, void* to, std::size_t count, int type, int op, Comm* comm, void*) {
  const std::size_t bytes = count * bytes_of(type);
  return reduce_part(*comm, from, bytes * comm->ranks, to, comm->rank * bytes, bytes, type, op);
}

int onecclBroadcast(const void* from, void* to, std::size_t count, int type, int root, Comm* comm, void*) {
  return show(*comm, from, count * bytes_of(type),
              [&](std::size_t sender, const std::byte* piece, std::size_t begin, std::size_t end) {
                if (sender == static_cast<std::size_t>(root)) {
                  std::memcpy(static_cast<std::byte*>(to) + begin, piece, end - begin);
                }
              });
}

int onecclAllGather(const void* from, void* to, std::size_t count, int type, Comm* comm, void*) {
  const std::size_t bytes = count * bytes_of(type);
  return show(*comm, from, bytes, [&](std::size_t sender, const std::byte* piece, std::size_t begin, std::size_t end) {
    std::memcpy(static_cast<std::byte*>(to) + sender * bytes + begin, piece, end - begin);
  });
}

int onecclAllToAll(const void* from, void* to, std::size_t count, int type, Comm* comm, void*) {
  const std::size_t bytes = count * bytes_of(type);
  const std::size_t first = comm->rank * bytes;
  return show(*comm, from, bytes * comm->ranks,
              [&](std::size_t sender, const std::byte* piece, std::size_t begin, std::size_t end) {
                const std::size_t low = std::max(begin, first);
                const std::size_t high = std::min(end, first + bytes);
                if (low < high) {
                  std::memcpy(static_cast<std::byte*>(to) + sender * bytes + (low - first), piece + (low - begin),
                              high - low);
                }
              });
}

}  // extern "C"
#pragma GCC visibility pop
