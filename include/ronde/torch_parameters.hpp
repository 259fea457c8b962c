// Part of <ronde/torch.hpp>: which parameters the optimizers of this process have.
#pragma once

#include <mutex>
#include <unordered_map>
#include <vector>

#include <torch/torch.h>

namespace ronde {
inline namespace v0 {
namespace torch {
namespace detail {

/// The parameters of one optimizer, until release(). Gradients are reduced where they lie, so two optimizers that
/// reduced one would write to each other's. Any thread.
class OwnParameters {
 public:
  OwnParameters() = default;
  ~OwnParameters() { release(); }
  OwnParameters(const OwnParameters&) = delete;
  OwnParameters& operator=(const OwnParameters&) = delete;

  /// The parameter must outlive this object.
  void add(const at::Tensor& parameter) {
    const std::lock_guard lock(mutex());
    own_.push_back(parameter.unsafeGetTensorImpl());
    ++owners()[own_.back()];
  }

  /// Whether another optimizer has this one, too.
  static bool is_shared(const at::Tensor& parameter) {
    const std::lock_guard lock(mutex());
    const auto found = owners().find(parameter.unsafeGetTensorImpl());
    return found != owners().end() && found->second > 1;
  }

  void release() {
    const std::lock_guard lock(mutex());
    for (const void* const each : own_) {
      if (--owners()[each] == 0) {
        owners().erase(each);
      }
    }
    own_.clear();
  }

 private:
  // Never destroyed: optimizers of static duration may end later.
  static std::unordered_map<const void*, int>& owners() {
    static auto* const all = new std::unordered_map<const void*, int>;
    return *all;
  }
  static std::mutex& mutex() {
    static auto* const guard = new std::mutex;
    return *guard;
  }

  std::vector<const void*> own_;
};

}  // namespace detail
}  // namespace torch
}  // namespace v0
}  // namespace ronde
