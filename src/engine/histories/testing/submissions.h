// Submissions of a history, with their memory and their values, and what must hold of each when it ends: the result is
// that of the submissions which belong together, the n-th of a name on one rank with the n-th on every other since the
// last join; memory that has been given back, or of which nothing came, stays as it was.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/stable_hash.h"
#include "engine/histories/testing/programs.h"
#include "engine/requests/ticket.h"

namespace ronde::engine::histories {

inline constexpr std::size_t kMostRanks = 5;
inline constexpr int kPerGeneration = 16;

/// What all ranks have submitted as the n-th under one name.
struct Meeting {
  struct Part {
    bool is_submitted = false;
    bool is_done = false;
    Code code = Code::ok;
    std::int64_t elements = 0;
  };
  std::array<Part, kMostRanks> parts;
};

struct Buffers {
  std::vector<std::byte> input;
  std::vector<std::byte> output;  ///< empty: in place
  bool is_given_back = false;     ///< the caller has stored something else there
};

inline constexpr std::byte kCallers{0xa5};

struct Submission {
  std::size_t name = 0;
  std::size_t sequence = 0;
  std::int64_t elements = 0;
  TicketPtr ticket;
  std::shared_ptr<Buffers> buffers;
  bool is_done = false;
  int callbacks = 0;
};

/// Small whole numbers: their sums are exact in every type, in any order.
inline double value_of(std::size_t rank, std::size_t name, std::size_t sequence, std::int64_t index) {
  return static_cast<double>(mix(((rank * 1021 + name) * 1021 + sequence) * 4099 + static_cast<std::uint64_t>(index)) %
                             4096);
}

inline void put(std::vector<std::byte>& bytes, DType dtype, std::int64_t index, double value) {
  const auto at = static_cast<std::size_t>(index) * dtype_bytes(dtype);
  const auto store = [&](auto typed) { std::memcpy(bytes.data() + at, &typed, sizeof typed); };
  switch (dtype) {
    case DType::int32: store(static_cast<std::int32_t>(value)); return;
    case DType::float64: store(value); return;
    default: store(static_cast<float>(value)); return;
  }
}

inline std::vector<std::byte> values_of(std::size_t rank, std::size_t name, std::size_t sequence, DType dtype,
                                        std::int64_t elements) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * dtype_bytes(dtype));
  for (std::int64_t i = 0; i < elements; ++i) {
    put(bytes, dtype, i, value_of(rank, name, sequence, i));
  }
  return bytes;
}

/// Of what those have submitted that have; one that has not has joined.
inline std::vector<std::byte> expected(const Meeting& meeting, const Work& work, std::size_t ranks, std::size_t name,
                                       std::size_t sequence, std::int64_t elements) {
  if (work.kind == OpKind::broadcast) {
    return values_of(static_cast<std::size_t>(work.root), name, sequence, work.dtype, elements);
  }
  std::vector<std::byte> all;
  if (work.kind == OpKind::allgather) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::vector<std::byte> own = values_of(rank, name, sequence, work.dtype, elements);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
  all.resize(static_cast<std::size_t>(elements) * dtype_bytes(work.dtype));
  for (std::int64_t i = 0; i < elements; ++i) {
    double sum = 0;
    bool is_first = true;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (meeting.parts[rank].is_submitted) {
        const double value = value_of(rank, name, sequence, i);
        sum = is_first                   ? value
              : work.op == ReduceOp::max ? std::max(sum, value)
              : work.op == ReduceOp::min ? std::min(sum, value)
                                         : sum + value;
        is_first = false;
      }
    }
    put(all, work.dtype, i, sum);
  }
  return all;
}

inline bool is_all(const std::vector<std::byte>& bytes, std::byte value) {
  return std::all_of(bytes.begin(), bytes.end(), [value](std::byte each) { return each == value; });
}

/// What the caller stores there once it has been told the end.
inline void give_back(Buffers& buffers) {
  std::fill(buffers.input.begin(), buffers.input.end(), kCallers);
  std::fill(buffers.output.begin(), buffers.output.end(), kCallers);
  buffers.is_given_back = true;
}

}  // namespace ronde::engine::histories
