// The payload lies in the cache line of its own flag, so whoever sees the flag has the data: one line from each peer,
// one wait, no done word. Two lines by parity (bucket.h says why that is enough).
#include <cstring>

#include "collectives/persistent/bucket_kinds.h"

namespace ronde::collectives {

namespace {

constexpr std::size_t kPayloadBytes = 56;

/// The word comes last and within the same 64 bytes, the unit in which processors pass lines on. Which calls are in it,
/// if any are unnamed, is said in the end of the payload, which is shorter then.
struct alignas(transport::kLineBytes) InlineLine {
  std::byte payload[kPayloadBytes];
  BucketWord published;

  std::atomic<std::uint64_t>& calls() {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(payload + kInlineBesideCalls);
  }
};
static_assert(offsetof(InlineLine, published) == 56);
static_assert(kInlineBesideCalls + sizeof(std::uint64_t) == kPayloadBytes);
static_assert(sizeof(InlineLine) == kBucketLineBytes);

class InlineBucket final : public HostBucket {
 public:
  InlineBucket(transport::HostArena& arena, const Bucket& bucket)
      : HostBucket(arena, bucket), reducer_(reduction(), static_cast<std::size_t>(arena.size())) {
    for (int parity = 0; parity < 2; ++parity) {
      for (int each = 0; each < size(); ++each) {
        auto* const at = reinterpret_cast<InlineLine*>(arena.heap(each) + layout().line) + parity;
        if (each == rank()) {
          new (at) InlineLine();
        }
        lines_[parity].push_back(at);
        inputs_[parity].push_back(at->payload);
      }
    }
    elements_ = reducer_.elements(list().bytes());
  }

  void copy_in(std::size_t member) override {
    const Range range = positions(member);
    list().gather(range.begin, range.end, own_line().payload + range.begin);
  }

  Progress advance() override {
    const auto& lines = lines_[parity()];
    if (!all_have_reached(
            [&](int peer) -> const BucketWord& { return lines[static_cast<std::size_t>(peer)]->published; })) {
      return Progress::idle;
    }
    if (is_void()) {
      return complete_void();
    }
    const void* const* const inputs = inputs_[parity()].data();
    const reduce::DefaultArithmetic arithmetic;
    if (list().segment_count() == 1) {
      reducer_(arithmetic, inputs, elements_, list().segment(0).to);
    } else if (elements_ > 0) {
      alignas(8) std::byte result[kPayloadBytes];
      reducer_(arithmetic, inputs, elements_, result);
      list().scatter(0, list().bytes(), result);
    }
    return complete();
  }

  std::uint64_t published_by(int rank) const override {
    const auto of = [&](int parity) {
      return lines_[parity][static_cast<std::size_t>(rank)]->published.instance(epoch());
    };
    return std::max(of(0), of(1));
  }
  std::vector<int> waiting_for() const override {
    return lacking(
        [this](int peer) -> const BucketWord& { return lines_[parity()][static_cast<std::size_t>(peer)]->published; });
  }

 private:
  std::size_t parity() const { return (instance() + 1) % 2; }
  InlineLine& own_line() const { return *lines_[parity()][static_cast<std::size_t>(rank())]; }
  void store_published(std::uint64_t word) override { own_line().published.store(word); }
  const BucketWord& published_word(int rank) const override {
    return lines_[parity()][static_cast<std::size_t>(rank)]->published;
  }
  std::atomic<std::uint64_t>& calls_of(int rank) const override {
    return lines_[parity()][static_cast<std::size_t>(rank)]->calls();
  }

  const reduce::Reducer reducer_;
  std::vector<InlineLine*> lines_[2];  ///< by parity and rank
  std::vector<const void*> inputs_[2];
  std::size_t elements_ = 0;
};

}  // namespace

std::unique_ptr<HostBucket> make_inline_bucket(transport::HostArena& arena, const Bucket& bucket) {
  return std::make_unique<InlineBucket>(arena, bucket);
}

}  // namespace ronde::collectives
