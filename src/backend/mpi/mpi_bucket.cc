#include "backend/mpi/mpi_bucket.h"

#include <algorithm>
#include <utility>

#include "collectives/budget.h"

namespace ronde::backend::mpi {

using collectives::kBudgetBytes;

MpiBucket::MpiBucket(MpiWorld& world, const Bucket& bucket, MpiReduction reduction)
    : world_(world), bucket_(bucket), reduction_(std::move(reduction)) {
  for (const BucketMember& member : bucket.members) {
    first_segments_.push_back(list_.segment_count());
    for (const Descriptor::Spec& spec : member.descriptor.tensors) {
      list_.append(nullptr, nullptr, static_cast<std::size_t>(element_count(spec.shape)) * dtype_bytes(spec.dtype));
    }
  }
  first_segments_.push_back(list_.segment_count());
  memory_ = staging_.sent.take(reduction_.staged(list_.bytes()));
  result_ = staging_.received.take(reduction_.staged(list_.bytes()));
}

MpiBucket::~MpiBucket() {
  if (stage_ == Stage::under_way) {
    staging_.sent.abandon();
    staging_.received.abandon();
    world_.give_up();
  }
}

void MpiBucket::enter(std::uint32_t) {}

void MpiBucket::bind(std::size_t member, std::span<const RequestTensor> tensors) {
  std::size_t segment = first_segments_[member];
  for (const RequestTensor& tensor : tensors) {
    if (tensor.input.bytes() > 0) {
      list_.rebind(segment, tensor.input.data, tensor.output.data);
      ++segment;
    }
  }
}

void MpiBucket::copy_in(std::size_t member) {
  const auto end_of = [this](std::size_t segment) { return segment == 0 ? 0 : list_.segment(segment - 1).end; };
  const std::size_t begin = end_of(first_segments_[member]);
  reduction_.copy_in(list_, begin, end_of(first_segments_[member + 1]), memory_ + reduction_.staged(begin));
}

void MpiBucket::publish(std::uint64_t) {}

bool MpiBucket::begin() {
  const std::size_t elements = list_.bytes() / reduction_.element_bytes();
  return world_.launch(
      [&](const Functions& mpi, const Constants&, Handle comm, Handle* request) {
        return mpi.iallreduce(memory_, result_, static_cast<int>(elements), reduction_.type(), reduction_.op(), comm,
                              request);
      },
      &request_);
}

Progress MpiBucket::advance() {
  if (stage_ == Stage::at_rest) {
    stage_ = begin() ? Stage::under_way : Stage::failed;
  }
  if (stage_ == Stage::failed || (stage_ == Stage::under_way && !world_.test(&request_))) {
    return Progress::idle;
  }
  stage_ = Stage::copy_out;
  const std::size_t end = std::min(at_ + kBudgetBytes, list_.bytes());
  reduction_.copy_out(list_, at_, end, result_ + reduction_.staged(at_));
  at_ = end;
  if (at_ < list_.bytes()) {
    return Progress::again;
  }
  at_ = 0;
  stage_ = Stage::at_rest;
  return Progress::done;
}

void MpiBucket::cancel() {}

}  // namespace ronde::backend::mpi
