// A backend that writes down what is asked of it, and whose buckets move when the test says so.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace ronde::engine {

/// One line for each thing that was asked for.
using Recording = std::vector<std::string>;

class RecordingCollective final : public PersistentCollective {
 public:
  RecordingCollective(Bucket bucket, Recording& recording) : bucket_(std::move(bucket)), recording_(recording) {}

  const Bucket& description() const override { return bucket_; }
  void enter(std::uint32_t epoch) override { add("enter " + std::to_string(epoch)); }
  void bind(std::size_t, std::span<const RequestTensor>) override {}
  void copy_in(std::size_t member) override { add("copy_in " + std::to_string(member)); }
  void publish(std::uint64_t calls) override { add(calls == 0 ? "publish" : "publish calls"); }
  Progress advance() override { return Progress::idle; }
  void cancel() override { add("cancel"); }
  bool was_void() const override { return false; }
  std::uint64_t published_by(int) const override { return 0; }
  std::vector<int> waiting_for() const override { return {}; }

 private:
  void add(const std::string& what) { recording_.push_back(std::to_string(bucket_.id) + ": " + what); }

  const Bucket bucket_;
  Recording& recording_;
};

class RecordingBackend : public backend::Backend {
 public:
  std::string_view name() const override { return "recording"; }
  Status supports(const Plan&) const override { return {}; }
  Result<std::unique_ptr<Operation>> launch(const Plan&) override { return std::unique_ptr<Operation>(); }
  Thresholds first_thresholds() const override { return first; }
  BucketLayout* layout() override { return nullptr; }
  Result<std::unique_ptr<PersistentCollective>> prepare(const Bucket& bucket, const Thresholds& thresholds) override {
    prepared_under.push_back(thresholds);
    if (refuses) {
      return Status::error(Code::out_of_memory, "no room");
    }
    return std::unique_ptr<PersistentCollective>(std::make_unique<RecordingCollective>(bucket, recording));
  }
  void begin_epoch(const Thresholds&) override { recording.push_back("begin_epoch"); }
  MemoryPlace place_of(const Request&) const override { return {}; }
  bool may_reduce_at(const MemoryPlaces&) const override { return false; }
  bool is_withdrawn(const MemoryPlace&, std::uint64_t) const override { return withdraws; }

  Recording take() { return std::exchange(recording, {}); }

  Recording recording = {};
  Thresholds first = {};
  std::vector<Thresholds> prepared_under = {};
  bool refuses = false;
  bool withdraws = false;
};

/// A bucket of requests that are called "a", "b" and so on.
inline Bucket bucket_of(std::size_t members, std::uint32_t id = 0) {
  Bucket bucket;
  bucket.id = id;
  for (std::size_t i = 0; i < members; ++i) {
    Descriptor descriptor;
    descriptor.tensors = {{DType::float32, {2}}};
    bucket.members.push_back({std::string(1, static_cast<char>('a' + i)), descriptor});
  }
  return bucket;
}

}  // namespace ronde::engine
