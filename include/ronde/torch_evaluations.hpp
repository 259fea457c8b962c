// Part of <ronde/torch.hpp>: of the evaluations of a closure that an optimizer steps by, which leave gradients that are
// to be reduced. No hook tells of gradients that a closure sets by itself, and one that only computes the loss leaves
// those of before, which were reduced already: to add them up once more would make others of them.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <ronde/error.hpp>

namespace ronde {
inline namespace v0 {
namespace torch {
namespace detail {

/// Gradients as they were: another tensor or other values are others. Keeps copies.
class SeenGradients {
 public:
  explicit SeenGradients(const std::vector<at::Tensor>& gradients) {
    for (const at::Tensor& each : gradients) {
      seen_.push_back(each.defined() ? Seen{each.unsafeGetTensorImpl(), Weak(each.getIntrusivePtr()), version_of(each),
                                            each.detach().clone()}
                                     : Seen{nullptr, Weak(at::Tensor().getIntrusivePtr()), 0, {}});
    }
  }

  /// Whether one of them, in the order of then, was replaced or written to since.
  bool have_changed(const std::vector<at::Tensor>& now) const {
    for (std::size_t index = 0; index < now.size(); ++index) {
      const Seen& seen = seen_[index];
      if (!now[index].defined() ? seen.identity != nullptr : is_another(seen, now[index])) {
        return true;
      }
    }
    return false;
  }

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  struct Seen {
    const void* identity;
    Weak holder;  ///< while it is there nothing else lies at the same address
    std::int64_t version;
    at::Tensor values;
  };

  static std::int64_t version_of(const at::Tensor& gradient) {
    return gradient.is_inference() ? -1 : static_cast<std::int64_t>(gradient._version());
  }
  static bool is_another(const Seen& seen, const at::Tensor& gradient) {
    // What is written to its data() has no version.
    return seen.identity != gradient.unsafeGetTensorImpl() || seen.version != version_of(gradient) ||
           (gradient.layout() == at::kStrided && !at::equal(seen.values, gradient));
  }

  std::vector<Seen> seen_;
};

/// Of one optimizer. `gradients`: those of its parameters, in one order. One thread.
class Evaluations {
 public:
  using Gradients = std::vector<at::Tensor>;

  /// `is_idempotent`: to reduce what was reduced changes nothing.
  explicit Evaluations(bool is_idempotent) : is_idempotent_(is_idempotent) {}

  /// A step with a closure begins. `are_reduced`: those that are there.
  void begin_step(bool are_reduced) { are_older_reduced_ = are_reduced; }
  /// An evaluation begins.
  void begin(const Gradients& gradients) {
    if (!is_idempotent_) {
      seen_.emplace(gradients);  // the optimizer may have changed them since the last one, by clipping say
    }
  }
  /// It has ended: whether there are gradients to be reduced. Throws Code::invalid_argument if nobody can say.
  bool has_new(const Gradients& gradients) {
    const bool are_older_reduced = are_older_reduced_;
    are_older_reduced_ = true;
    return is_idempotent_ || seen_->have_changed(gradients) || (!are_older_reduced && are_older_new(gradients));
  }
  /// The step has ended.
  void end_step(const Gradients& gradients) {
    if (!is_idempotent_) {
      left_reduced_.emplace(gradients);
    }
  }
  /// Gradients were reduced and stepped with otherwise.
  void note_reduced() {
    has_reduced_ = true;
    left_reduced_.reset();
  }
  /// All gradients are zero, or not there.
  void note_zeroed() {
    has_reduced_ = false;
    left_reduced_.reset();
  }

 private:
  bool are_older_new(const Gradients& gradients) const {
    bool any = false;
    for (const at::Tensor& each : gradients) {
      any = any || each.defined();
    }
    if (any && !left_reduced_ && has_reduced_) {
      throw Error(Code::invalid_argument,
                  "step(closure): the closure has computed no gradients, and whether those that are there were reduced "
                  "already cannot be told; with this operation or scale that matters. Call zero_grad() before");
    }
    return any && (!left_reduced_ || left_reduced_->have_changed(gradients));
  }

  const bool is_idempotent_;
  bool are_older_reduced_ = false;
  bool has_reduced_ = false;
  std::optional<SeenGradients> seen_;          ///< when the evaluation under way began
  std::optional<SeenGradients> left_reduced_;  ///< by the last step, if that had a closure
};

}  // namespace detail
}  // namespace torch
}  // namespace v0
}  // namespace ronde
