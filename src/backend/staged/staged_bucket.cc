#include "backend/staged/staged_bucket.h"

#include <algorithm>
#include <utility>

#include "collectives/budget.h"

namespace ronde::backend {

using collectives::kBudgetBytes;

StagedBucket::StagedBucket(CollectiveLibrary& library, const Bucket& bucket, StagedReduction reduction)
    : library_(library), bucket_(bucket), reduction_(std::move(reduction)) {
  for (const BucketMember& member : bucket.members) {
    first_segments_.push_back(list_.segment_count());
    for (const Descriptor::Spec& spec : member.descriptor.tensors) {
      list_.append(nullptr, nullptr, static_cast<std::size_t>(element_count(spec.shape)) * dtype_bytes(spec.dtype));
    }
  }
  first_segments_.push_back(list_.segment_count());
  memory_ = staging_.sent.take(reduction_.staged(list_.bytes()));
  result_ = staging_.received.take(reduction_.received(list_.bytes()));
  if (reduction_.is_gathered()) {
    parts_ = equal_parts(library_.size(), list_.bytes());
  }
}

StagedBucket::~StagedBucket() {
  if (stage_ == Stage::under_way) {
    staging_.sent.abandon();
    staging_.received.abandon();
    library_.give_up();
  }
}

void StagedBucket::enter(std::uint32_t) {}

void StagedBucket::bind(std::size_t member, std::span<const RequestTensor> tensors) {
  std::size_t segment = first_segments_[member];
  for (const RequestTensor& tensor : tensors) {
    if (tensor.input.bytes() > 0) {
      list_.rebind(segment, tensor.input.data, tensor.output.data);
      ++segment;
    }
  }
}

void StagedBucket::copy_in(std::size_t member) {
  const auto end_of = [this](std::size_t segment) { return segment == 0 ? 0 : list_.segment(segment - 1).end; };
  const std::size_t begin = end_of(first_segments_[member]);
  reduction_.copy_in(list_, begin, end_of(first_segments_[member + 1]), memory_ + reduction_.staged(begin));
}

void StagedBucket::publish(std::uint64_t) {}

bool StagedBucket::begin() {
  if (reduction_.is_gathered()) {
    return library_.begin(gathering_call(memory_, result_, parts_, parts_), &request_);
  }
  return library_.begin({.kind = OpKind::allreduce,
                         .from = memory_,
                         .to = result_,
                         .count = list_.bytes() / reduction_.element_bytes(),
                         .type = reduction_.type(),
                         .op = reduction_.op(),
                         .root = 0,
                         .sent = nullptr,
                         .received = nullptr},
                        &request_);
}

Progress StagedBucket::advance() {
  if (stage_ == Stage::at_rest) {
    stage_ = begin() ? Stage::under_way : Stage::failed;
  }
  if (stage_ == Stage::failed || (stage_ == Stage::under_way && !library_.test(&request_))) {
    return Progress::idle;
  }
  stage_ = Stage::copy_out;
  const std::size_t end = std::min(at_ + kBudgetBytes, list_.bytes());
  reduction_.copy_out(list_, at_, end, result_ + reduction_.staged(at_), reduction_.staged(list_.bytes()));
  at_ = end;
  if (at_ < list_.bytes()) {
    return Progress::again;
  }
  at_ = 0;
  stage_ = Stage::at_rest;
  return Progress::done;
}

void StagedBucket::cancel() {}

}  // namespace ronde::backend
