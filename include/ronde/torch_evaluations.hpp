// Part of <ronde/torch.hpp>: of the evaluations of a closure that an optimizer steps by, which leave gradients that are
// to be reduced. No hook tells of gradients that a closure sets by itself, and one that only computes the loss leaves
// those of before, which were reduced already: to add them up once more would make others of them.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <ronde/error.hpp>

namespace ronde {
inline namespace v0 {
namespace torch {
namespace detail {

/// Gradients as they were. Keeps copies. Tensors are dense, in host memory.
class SeenGradients {
 public:
  explicit SeenGradients(const std::vector<at::Tensor>& gradients) {
    for (const at::Tensor& each : gradients) {
      seen_.push_back({each.defined() ? each.unsafeGetTensorImpl() : nullptr, Weak(each.getIntrusivePtr()),
                       each.defined() ? bits_of(each).clone() : at::Tensor()});
    }
  }

  /// Whether there was one.
  bool was_there(std::size_t index) const { return seen_[index].identity != nullptr; }
  /// Whether it is the tensor that was there.
  bool is_of(std::size_t index, const at::Tensor& gradient) const {
    return gradient.defined() && seen_[index].identity == gradient.unsafeGetTensorImpl();
  }
  /// The same with the same values, by their bits: a NaN is not even itself.
  bool is_as_it_was(std::size_t index, const at::Tensor& gradient) const {
    return is_of(index, gradient) && seen_[index].bits.nbytes() == gradient.nbytes() &&
           at::equal(seen_[index].bits, bits_of(gradient));
  }
  /// Whether it is not zero.
  static bool is_any(const at::Tensor& gradient) { return gradient.defined() && bits_of(gradient).any().item<bool>(); }

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  struct Seen {
    const void* identity;
    Weak holder;  ///< while it is there nothing else lies at the same address
    at::Tensor bits;
  };

  static at::Tensor bits_of(const at::Tensor& gradient) {
    return gradient.detach().resolve_conj().resolve_neg().reshape({-1}).contiguous().view(at::kByte);
  }

  std::vector<Seen> seen_;
};

/// What an evaluation of a closure has made of the gradients.
struct Found {
  bool is_new = false;    ///< some of them are to be reduced
  bool are_left = false;  ///< some were reduced already
  std::string refusal;    ///< why it cannot be told of some; empty: it can be
};

/// Of one optimizer. `gradients`: those of its parameters, in one order; undefined where there is none. One thread, but
/// for note_pass().
///
/// New are gradients where there was none, or only zeros, before a pass came, or before the closure set them. Whether
/// what it has put in the place of reduced ones without a pass is new, or these clipped say, nobody can tell: that is
/// refused. So is a pass that adds to them.
class Evaluations {
 public:
  using Gradients = std::vector<at::Tensor>;

  /// A step with a closure begins. `are_reduced`: the gradients that are there. `is_idempotent`: to reduce what was
  /// reduced changes nothing. Then nothing is looked at, and all is new.
  void begin_step(bool are_reduced, bool is_idempotent) {
    are_reduced_ = are_reduced;
    is_idempotent_ = is_idempotent;
  }
  /// As of the step under way.
  bool is_idempotent() const { return is_idempotent_; }
  /// An evaluation begins.
  void begin(const Gradients& gradients) {
    if (is_idempotent_) {
      return;
    }
    known_.clear();
    for (std::size_t index = 0; index < gradients.size(); ++index) {
      known_.push_back(are_reduced_ ? Known::reduced : known_of(index, gradients[index]));
    }
    seen_.emplace(gradients);  // the optimizer may have changed them since the last evaluation, by clipping say
    refusal_.clear();
  }
  /// A pass is about to add to a gradient, as the first of the evaluation.
  void note_pass(std::size_t index, const at::Tensor& gradient) {
    if (!SeenGradients::is_any(gradient) || !seen_->was_there(index)) {
      known_[index] = Known::not_reduced;
    } else if (known_[index] != Known::not_reduced) {
      refusal_ = "a backward pass of the closure adds to gradients that were reduced already";
    }
  }
  /// The evaluation has ended, in which no synchronize() was called. `reached`: by a pass.
  Found look(const Gradients& gradients, const std::vector<bool>& reached) {
    are_reduced_ = true;
    if (is_idempotent_) {
      return {.is_new = true};
    }
    Found found{.refusal = refusal_};
    for (std::size_t index = 0; index < gradients.size(); ++index) {
      const at::Tensor& gradient = gradients[index];
      if (!SeenGradients::is_any(gradient)) {
        found.is_new = found.is_new || reached[index];
      } else if (known_[index] == Known::not_reduced || !seen_->was_there(index)) {
        found.is_new = true;
      } else if (!seen_->is_of(index, gradient)) {
        found.refusal = "the closure has replaced gradients that were reduced already, without a pass";
      } else if (!seen_->is_as_it_was(index, gradient)) {
        found.refusal = refusal_.empty()
                            ? "the closure has written to gradients that were reduced already, without a pass"
                            : refusal_;
      } else if (known_[index] == Known::nothing) {
        found.refusal = "whether the gradients that are there were reduced already cannot be told";
      } else {
        found.are_left = true;
      }
    }
    return found;
  }
  /// The closure has had the gradients reduced.
  void note_synchronized() { are_reduced_ = true; }
  /// The step has ended.
  void end_step(const Gradients& gradients) {
    note_reduced();
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
    known_.assign(known_.size(), Known::not_reduced);
    refusal_.clear();
  }

  /// The error of all ranks for what an evaluation has done on some.
  static Error refused(const std::string& what) {
    return Error(Code::invalid_argument,
                 "step(closure): " + what +
                     "; with sums, products and scales, and while a rank has joined, they would become others if they "
                     "were reduced once more. Call zero_grad() of the DistributedOptimizer in the closure, before "
                     "gradients are computed");
  }

 private:
  /// Of a gradient that is there before an evaluation.
  enum class Known { not_reduced, reduced, nothing };

  /// Before the first of a step.
  Known known_of(std::size_t index, const at::Tensor& gradient) const {
    if (!has_reduced_ || !gradient.defined()) {
      return Known::not_reduced;
    }
    if (!left_reduced_) {
      return Known::nothing;
    }
    if (!left_reduced_->was_there(index)) {
      return Known::not_reduced;
    }
    return left_reduced_->is_as_it_was(index, gradient) ? Known::reduced : Known::nothing;
  }

  bool is_idempotent_ = true;
  bool are_reduced_ = false;
  bool has_reduced_ = false;  ///< gradients that may be there yet
  std::vector<Known> known_;
  std::string refusal_;                        ///< of a pass of the evaluation under way
  std::optional<SeenGradients> seen_;          ///< when that began
  std::optional<SeenGradients> left_reduced_;  ///< by the last step, if that had a closure
};

}  // namespace detail
}  // namespace torch
}  // namespace v0
}  // namespace ronde
