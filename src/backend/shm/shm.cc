#include "backend/shm/shm.h"

#include "backend/host_memory.h"
#include "backend/shm/shm_buckets.h"
#include "collectives/shm/channel.h"
#include "collectives/shm/select.h"
#include "collectives/tuning/host_thresholds.h"

namespace ronde::backend {

namespace {

class ShmBackend final : public Backend {
 public:
  ShmBackend(transport::HostArena& arena, const collectives::Table& table)
      : arena_(arena), channel_(arena), thresholds_(arena.control(0).rules), buckets_(arena) {
    if (arena.rank() == 0) {
      collectives::store(table.of(arena.size()), arena.control(0).rules);
    }
  }

  std::string_view name() const override { return "shm"; }

  Status supports(const Plan& plan) const override {
    return host_memory_supports(plan, name(), collectives::has_algorithm(plan.kind));
  }

  Result<std::unique_ptr<Operation>> launch(const Plan& plan) override {
    RONDE_RETURN_IF_ERROR(channel_.arena().need_slots(collectives::slot_bytes_of(plan)));
    return collectives::start(channel_, plan, thresholds_.in_force());
  }
  Thresholds first_thresholds() const override { return collectives::load_thresholds(arena_.control(0).rules); }
  void set_thresholds(const Thresholds& thresholds) override { thresholds_.set(thresholds); }
  std::string table_row(const Thresholds& thresholds) const override {
    return collectives::Table::row_text(arena_.size(), thresholds);
  }

  BucketLayout* layout() override { return buckets_.layout(); }
  Result<std::unique_ptr<PersistentCollective>> prepare(const Bucket& bucket, const Thresholds& thresholds) override {
    return buckets_.prepare(bucket, thresholds);
  }
  void begin_epoch(const Thresholds& thresholds) override { buckets_.begin_epoch(thresholds); }
  MemoryPlace place_of(const Request& request) const override { return place_in_heap(arena_, request); }
  bool may_reduce_at(const MemoryPlaces& places) const override { return lie_alike(places); }
  bool is_withdrawn(const MemoryPlace& place, std::uint64_t bytes) const override {
    return arena_.own_heap().is_withdrawn(static_cast<std::size_t>(place.input), bytes) ||
           arena_.own_heap().is_withdrawn(static_cast<std::size_t>(place.output), bytes);
  }

 private:
  const transport::HostArena& arena_;
  collectives::HostChannel channel_;
  collectives::HostThresholds thresholds_;  ///< of plans
  ShmBuckets buckets_;
};

}  // namespace

std::unique_ptr<Backend> make_shm_backend(transport::HostArena& arena, const collectives::Table& table) {
  return std::make_unique<ShmBackend>(arena, table);
}

}  // namespace ronde::backend
