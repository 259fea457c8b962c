// The memory bound: the least that reducing tensors in shared memory can cost, by plain loops over it.
//
// All ranks map all tensors. Each adds up its part of every rank's tensor and stores the sums to all of them (or to all
// outputs): of N bytes on p ranks it loads p * N/p and stores p * N/p, 2N in all, which no engine can go below. Between
// the start line and the loops each rank waits once for all to have begun, after the loops once for all to have ended;
// a set of tensors shares these two waits, so it is the bound of tensors one by one as well as of a flat buffer.
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "cli/measuring/timing/shared_pages.h"
#include "peer_program.h"

namespace {

using ronde::cli::BenchOp;
using ronde::cli::BenchOptions;
using ronde::cli::SharedPages;
using ronde::cli::StartLine;
using ronde::cli::StartLineEntry;
using ronde::cli::TensorPlace;

constexpr std::chrono::seconds kLimit{60};
constexpr int kMostAdded = 8;
constexpr std::uint64_t kLine = 64;
constexpr std::uint64_t kPage = 4096;

std::uint64_t padded(std::uint64_t bytes, std::uint64_t to) { return (bytes + to - 1) / to * to; }

/// kRanks inputs into kRanks outputs, elements [begin, end). The compiler knows the number and makes one loop of it.
template <int kRanks>
void reduce(float* const* inputs, float* const* outputs, std::size_t begin, std::size_t end) {
  const float* in[kRanks];
  float* out[kRanks];
  std::copy_n(inputs, kRanks, in);
  std::copy_n(outputs, kRanks, out);
#pragma GCC ivdep
  for (std::size_t i = begin; i < end; ++i) {
    float sum = in[0][i];
    for (int rank = 1; rank < kRanks; ++rank) {
      sum += in[rank][i];
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      out[rank][i] = sum;
    }
  }
}

class MemoryBound final : public ronde::peers::PeerContestant {
 public:
  explicit MemoryBound(ronde::peers::Place place)
      : line_(ronde::peers::start_line(place.rank, place.size)),
        flags_(ronde::peers::start_line(place.rank, place.size, ronde::peers::Lines::of_contestant)) {
    place_ = place;
  }

  /// Pages of this rank's that all others map; one block for all tensors, each on a cache line of its own.
  bool allocate(const std::vector<std::uint64_t>& bytes, std::vector<void*>* places) override {
    const std::uint64_t all =
        std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0},
                        [](std::uint64_t sum, std::uint64_t each) { return sum + padded(each, kLine); });
    const std::uint64_t block = padded(std::max(all, kPage), kPage);
    auto own = std::make_shared<SharedPages>(SharedPages::create(block));
    line_.own().offered[0] = getpid();
    line_.own().offered[1] = own->descriptor();
    if (line_.meet(kLimit) >= 0) {
      return failed("a rank did not come to share its memory");
    }
    std::vector<std::shared_ptr<SharedPages>>& all_ranks = blocks_.emplace_back();
    for (int rank = 0; rank < place_.size; ++rank) {
      const std::int64_t* const offered = line_.of(rank).offered;
      all_ranks.push_back(
          rank == place_.rank ? own : std::make_shared<SharedPages>(SharedPages::open(offered[0], offered[1], block)));
      if (!all_ranks.back()->is_mapped()) {
        return failed("a rank's memory cannot be mapped");
      }
    }
    if (line_.meet(kLimit) >= 0) {
      return failed("a rank did not come to share its memory");
    }
    std::uint64_t offset = 0;
    for (const std::uint64_t each : bytes) {
      places->push_back(static_cast<std::byte*>(own->data()) + offset);
      offset += padded(each, kLine);
    }
    return true;
  }

  bool open(const BenchOptions& options, const std::string&, const std::vector<TensorPlace>& tensors) override {
    if (options.op != BenchOp::allreduce || options.dtype != "float32" || place_.size > kMostAdded) {
      return failed("only all-reduce of float32 on up to 8 ranks is bounded");
    }
    tensors_ = tensors;
    inputs_.resize(tensors.size());
    outputs_.resize(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (int rank = 0; rank < place_.size; ++rank) {
        inputs_[i].of[rank] = in_block(blocks_.front(), rank, tensors[i].input);
        outputs_[i].of[rank] = in_block(blocks_.back(), rank, tensors[i].output);
      }
    }
    return true;
  }

  void close() override {
    blocks_.clear();
    PeerContestant::close();
  }

  bool run(std::size_t i) override {
    if (i == 0) {
      flags_.meet(kLimit);
    }
    reduce_part(i);
    if (i + 1 == tensors_.size()) {
      flags_.meet(kLimit);
    }
    return true;
  }
  bool submit(std::size_t i) override { return run(i); }
  bool wait_all() override { return true; }

 private:
  struct Everyones {
    float* of[kMostAdded] = {};
  };

  float* in_block(const std::vector<std::shared_ptr<SharedPages>>& block, int rank, void* own) const {
    const std::ptrdiff_t offset = static_cast<std::byte*>(own) - static_cast<std::byte*>(block[place_.rank]->data());
    return reinterpret_cast<float*>(static_cast<std::byte*>(block[rank]->data()) + offset);
  }

  void reduce_part(std::size_t i) {
    constexpr std::size_t kFloatsOfLine = kLine / sizeof(float);
    const std::size_t count = tensors_[i].bytes / sizeof(float);
    const std::size_t lines = (count + kFloatsOfLine - 1) / kFloatsOfLine;
    const auto ranks = static_cast<std::size_t>(place_.size);
    const auto rank = static_cast<std::size_t>(place_.rank);
    const std::size_t begin = std::min(count, lines * rank / ranks * kFloatsOfLine);
    const std::size_t end = std::min(count, lines * (rank + 1) / ranks * kFloatsOfLine);
    float* const* const in = inputs_[i].of;
    float* const* const out = outputs_[i].of;
    switch (place_.size) {
      case 1: reduce<1>(in, out, begin, end); break;
      case 2: reduce<2>(in, out, begin, end); break;
      case 3: reduce<3>(in, out, begin, end); break;
      case 4: reduce<4>(in, out, begin, end); break;
      case 5: reduce<5>(in, out, begin, end); break;
      case 6: reduce<6>(in, out, begin, end); break;
      case 7: reduce<7>(in, out, begin, end); break;
      default: reduce<8>(in, out, begin, end); break;
    }
  }

  bool failed(const char* why) {
    failure_ = why;
    return false;
  }

  StartLine line_;
  StartLine flags_;
  std::vector<std::vector<std::shared_ptr<SharedPages>>> blocks_;  ///< of each allocate() each rank's
  std::vector<Everyones> inputs_;
  std::vector<Everyones> outputs_;
};

}  // namespace

int main(int argc, char** argv) {
  return ronde::peers::peer_main(argc, argv, [](const BenchOptions&) {
    return std::make_unique<MemoryBound>(ronde::peers::place_from_environment());
  });
}
