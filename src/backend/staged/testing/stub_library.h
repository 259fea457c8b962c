// A library of which only the questions are asked: one that has all, or few.
#pragma once

#include <string>

#include "backend/staged/collective_library.h"

namespace ronde::backend {

class StubLibrary final : public CollectiveLibrary {
 public:
  explicit StubLibrary(int size, bool needs_equal_parts = false) : size_(size), needs_equal_parts_(needs_equal_parts) {}

  std::string_view backend() const override { return "stub"; }
  const std::string& name() const override { return name_; }
  int rank() const override { return 0; }
  int size() const override { return size_; }
  int news_fd() const override { return -1; }
  /// But for what no library has: floats of 16 and 8 bits, averages, Adasum.
  bool reduces(DType type, ReduceOp op) const override {
    return (is_integer(type) || type == DType::float32 || type == DType::float64) && op != ReduceOp::average &&
           op != ReduceOp::adasum;
  }
  bool has(OpKind kind, bool are_equal) const override {
    return !needs_equal_parts_ || (kind != OpKind::scan && kind != OpKind::barrier && are_equal);
  }
  bool begin(const CollectiveCall&, Underway*) override { return false; }
  bool test(Underway*) override { return false; }
  void give_up() override {}

 private:
  const std::string name_ = "a stub";
  const int size_;
  const bool needs_equal_parts_;
};

}  // namespace ronde::backend
