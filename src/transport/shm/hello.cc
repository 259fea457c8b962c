#include "transport/shm/hello.h"

#include <algorithm>

#include "base/bytes.h"

namespace ronde::transport {

namespace {

constexpr std::uint32_t kMagic = 0x65646e52;  // "Rnde"

std::string versions(int rank, const Hello& hello) {
  return "rank " + std::to_string(rank) + " on host " + hello.host + " has Ronde " + hello.library_version +
         " (shared memory version " + std::to_string(hello.arena_version) + ")";
}

std::string layouts(int rank, const Hello& hello) {
  return "rank " + std::to_string(rank) + " has " + hello.layout.text();
}

}  // namespace

std::vector<std::byte> encode(const Hello& hello) {
  ByteWriter writer;
  // These come first, in this form, in every version.
  writer.put(kMagic);
  writer.put(hello.arena_version);
  writer.put_string(hello.library_version);
  writer.put_string(hello.host);

  writer.put(static_cast<std::int32_t>(hello.layout.size));
  writer.put(static_cast<std::uint64_t>(hello.layout.ring_bytes));
  writer.put(static_cast<std::uint64_t>(hello.layout.slot_bytes));
  writer.put(static_cast<std::int32_t>(hello.layout.slots));
  writer.put(static_cast<std::uint64_t>(hello.layout.heap_bytes));
  writer.put(hello.pid);
  writer.put(hello.descriptors);
  writer.put_string(hello.failure);
  return writer.take();
}

Result<Hello> decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Hello hello;
  const auto magic = reader.get<std::uint32_t>();
  hello.arena_version = reader.get<std::uint32_t>();
  hello.library_version = reader.get_string();
  hello.host = reader.get_string();
  const Status foreign = Status::error(
      Code::version_mismatch, "what it sent is no greeting of Ronde's (" + std::to_string(bytes.size()) + " bytes)");
  if (!reader.ok() || magic != kMagic) {
    return foreign;
  }
  if (hello.arena_version != kArenaVersion) {
    return hello;
  }
  hello.layout.size = reader.get<std::int32_t>();
  hello.layout.ring_bytes = reader.get<std::uint64_t>();
  hello.layout.slot_bytes = reader.get<std::uint64_t>();
  hello.layout.slots = reader.get<std::int32_t>();
  hello.layout.heap_bytes = reader.get<std::uint64_t>();
  hello.pid = reader.get<std::int32_t>();
  hello.descriptors = reader.get<std::uint32_t>();
  hello.failure = reader.get_string();
  if (!reader.at_end()) {
    return foreign;
  }
  return hello;
}

Status judge(const std::vector<Result<Hello>>& hellos, std::span<const int> job_ranks) {
  const auto judge_each = [&](auto reason) -> Status {
    for (std::size_t at = 0; at < hellos.size(); ++at) {
      const int rank = job_rank(job_ranks, at);
      if (Status status = reason(hellos[at], rank); !status) {
        return status.with_rank(rank);
      }
    }
    return {};
  };
  RONDE_RETURN_IF_ERROR(judge_each([&](const Result<Hello>& hello, int rank) {
    return hello.status().with_context("rank " + std::to_string(rank) + " cannot share memory");
  }));
  const Hello& first = hellos.front().value();
  const int first_rank = job_rank(job_ranks, 0);
  RONDE_RETURN_IF_ERROR(judge_each([&](const Result<Hello>& hello, int rank) -> Status {
    if (hello.value().arena_version == first.arena_version && hello.value().library_version == first.library_version) {
      return {};
    }
    return Status::error(Code::version_mismatch,
                         "the ranks run different versions of Ronde: " + versions(first_rank, first) + ", " +
                             versions(rank, hello.value()) + ". Install the same version for all");
  }));
  RONDE_RETURN_IF_ERROR(judge_each([&](const Result<Hello>& hello, int rank) -> Status {
    return hello.value().failure.empty()
               ? Status()
               : Status::error(Code::system_error, "rank " + std::to_string(rank) + " on host " + hello.value().host +
                                                       " cannot share memory: " + hello.value().failure);
  }));
  return judge_each([&](const Result<Hello>& hello, int rank) -> Status {
    RegionLayout same_but_heap = hello.value().layout;
    same_but_heap.heap_bytes = first.layout.heap_bytes;
    if (same_but_heap == first.layout) {
      return {};
    }
    return Status::error(Code::version_mismatch, "the ranks lay out their shared memory differently: " +
                                                     layouts(first_rank, first) + "; " + layouts(rank, hello.value()));
  });
}

RegionLayout agreed_layout(const std::vector<Result<Hello>>& hellos) {
  RegionLayout layout = hellos.front().value().layout;
  for (const Result<Hello>& hello : hellos) {
    layout.heap_bytes = std::min(layout.heap_bytes, hello.value().layout.heap_bytes);
  }
  return layout;
}

}  // namespace ronde::transport
