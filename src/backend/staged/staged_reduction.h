// StagedReduction: what a library is to do of a reduction, and what is left to the ranks: scales before and behind it,
// the division of an average, and types that libraries do not have. Floats of 16 and 8 bits are added as float32, and
// rounded once when all are in, as everywhere in Ronde: an operation on the small type would round at each of the
// library's steps, and a sum overflow whose average does not. Complex numbers are added as their parts.
#pragma once

#include <cstddef>
#include <optional>

#include "backend/staged/collective_library.h"
#include "collectives/gather_list.h"
#include "reduce/reduce.h"
#include "types/op.h"
#include "types/tensor.h"

namespace ronde::backend {

class StagedReduction {
 public:
  /// None for what a library would do otherwise than Ronde does, by the rules of reduce.h: integers that are averaged
  /// or scaled, sums and products of integers of 8 and 16 bits, minima and maxima of unsigned ones, floats by min and
  /// max (a NaN is kept or not by the order in which the library meets it, which ranks may do differently), products of
  /// complex numbers, Adasum. None for what the library does not reduce. The same on every rank.
  static std::optional<StagedReduction> of(const reduce::Reduction& reduction, const CollectiveLibrary& library);

  /// The library's part.
  DType type() const { return staged_; }
  ReduceOp op() const { return op_; }
  /// How many tensor bytes an element of type() is in tensors.
  std::size_t element_bytes() const { return element_bytes_; }
  std::size_t staged_element_bytes() const { return staged_element_bytes_; }
  /// How many bytes in front of the library so many bytes of tensors are.
  std::size_t staged(std::size_t bytes) const { return bytes / element_bytes_ * staged_element_bytes_; }
  /// Brings what the list reads at [begin, end) to `to`, scaled and as the library gets it.
  void copy_in(const collectives::GatherList& list, std::size_t begin, std::size_t end, std::byte* to) const;
  /// Brings the result, at `from`, to where the list writes [begin, end).
  void copy_out(const collectives::GatherList& list, std::size_t begin, std::size_t end, const std::byte* from) const;

 private:
  StagedReduction(const reduce::Reduction& reduction, DType staged, ReduceOp op, int ranks);
  void narrow_out(const std::byte* from, std::size_t elements, std::byte* to) const;

  DType dtype_;
  DType staged_;
  ReduceOp op_;
  std::size_t element_bytes_;
  std::size_t staged_element_bytes_;
  bool is_widened_;
  std::optional<reduce::Reducer> before_;  ///< none: a copy does
  std::optional<reduce::Reducer> behind_;
};

}  // namespace ronde::backend
