#include "backend/messages/messages.h"

#include <algorithm>
#include <string>
#include <utility>

#include "backend/host_memory.h"
#include "backend/messages/message_bucket.h"
#include "collectives/schedule/select.h"
#include "collectives/slices.h"
#include "reduce/reduce.h"

namespace ronde::backend {

namespace {

using collectives::messages::MessageChannel;
using collectives::messages::MessageLimits;

/// Buckets lie nowhere, and all move alike.
class NoLayout final : public BucketLayout {
 public:
  int fusion_class(const MemoryPlaces&) const override { return 0; }
  std::optional<Placed> place(const Bucket&, const ByteLimits&) override { return Placed(); }
  void take_back(const Bucket&) override {}
};

class BackendOverMailbox final : public MessageBackend {
 public:
  BackendOverMailbox(transport::Mailbox& mailbox, collectives::RankLayout layout, const MessageLimits& first)
      : mailbox_(mailbox), first_(first), channel_(mailbox, std::move(layout), first) {}

  void announce() override {
    for (MessageBucket* const bucket : buckets_) {
      bucket->announce();
    }
  }

  std::string_view name() const override { return "messages"; }
  Status supports(const Plan& plan) const override {
    return host_memory_supports(plan, name(), collectives::messages::has_schedule(plan.kind));
  }
  Result<std::unique_ptr<Operation>> launch(const Plan& plan) override {
    return collectives::messages::start(channel_, plan);
  }
  Thresholds first_thresholds() const override {
    Thresholds thresholds;
    thresholds.one_shot = first_.one_turn;
    thresholds.chunk = first_.chunk;
    return thresholds;
  }
  void set_thresholds(const Thresholds& thresholds) override { channel_.set_limits(limits_of(thresholds)); }
  std::string table_row(const Thresholds& thresholds) const override {
    return collectives::HostTable::row_text(channel_.layout().hosts(), limits_of(thresholds));
  }

  BucketLayout* layout() override { return mailbox_.size() > 1 ? &layout_ : nullptr; }
  Result<std::unique_ptr<PersistentCollective>> prepare(const Bucket& bucket, const Thresholds& thresholds) override {
    const bool has_places = std::any_of(bucket.members.begin(), bucket.members.end(),
                                        [](const BucketMember& member) { return !member.places.empty(); });
    if (has_places) {
      return Status::error(Code::invalid_argument,
                           "bucket " + std::to_string(bucket.id) + " cannot be made: its tensors lie in shared memory");
    }
    const Descriptor& first = bucket.members.front().descriptor;
    RONDE_RETURN_IF_ERROR(
        reduce::supports({first.tensors.front().dtype, first.reduce_op, first.prescale, first.postscale}));
    std::unique_ptr<PersistentCollective> made = std::make_unique<Listed>(*this, bucket, limits_of(thresholds));
    return made;
  }
  void begin_epoch(const Thresholds&) override {}
  MemoryPlace place_of(const Request&) const override { return {}; }
  bool may_reduce_at(const MemoryPlaces&) const override { return false; }
  bool is_withdrawn(const MemoryPlace&, std::uint64_t) const override { return false; }

 private:
  /// The row that all ranks share, as far as it means something here.
  MessageLimits limits_of(const Thresholds& thresholds) const {
    MessageLimits limits = first_;
    limits.one_turn = static_cast<std::size_t>(thresholds.one_shot);
    limits.chunk =
        collectives::round_up_to_line(static_cast<std::size_t>(std::max<std::uint64_t>(thresholds.chunk, 1)));
    return limits;
  }

  /// A bucket that the backend knows as long as it lives.
  class Listed final : public MessageBucket {
   public:
    Listed(BackendOverMailbox& backend, const Bucket& bucket, const MessageLimits& limits)
        : MessageBucket(backend.mailbox_, backend.channel_.layout(), bucket, limits), backend_(backend) {
      backend.buckets_.push_back(this);
    }
    ~Listed() override { std::erase(backend_.buckets_, this); }

   private:
    BackendOverMailbox& backend_;
  };

  transport::Mailbox& mailbox_;
  const MessageLimits first_;  ///< by which all ranks begin
  MessageChannel channel_;
  NoLayout layout_;
  std::vector<MessageBucket*> buckets_;
};

}  // namespace

std::unique_ptr<MessageBackend> make_message_backend(transport::Mailbox& mailbox) {
  return make_message_backend(mailbox, collectives::RankLayout::apart(mailbox.size()));
}

std::unique_ptr<MessageBackend> make_message_backend(transport::Mailbox& mailbox, collectives::RankLayout layout,
                                                     const collectives::HostTable& table) {
  const MessageLimits first = table.of(layout.hosts());
  return std::make_unique<BackendOverMailbox>(mailbox, std::move(layout), first);
}

}  // namespace ronde::backend
