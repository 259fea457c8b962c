// StagedReduction: what a library is to do of a reduction, and what is left to the ranks: scales before and behind it,
// the division of an average, and types that libraries do not have. Floats of 16 and 8 bits are added as float32, and
// rounded once when all are in, as everywhere in Ronde: an operation on the small type would round at each of the
// library's steps, and a sum overflow whose average does not. Complex numbers are added as their parts.
//
// In the order of ranks. Libraries add in an order of their own. So of three and four ranks all-reduces that round are
// gathered: the library brings all ranks' values to each, which reduces them here. A program that is tried on few ranks
// then gives what it gives by Ronde's own transports (MessageLimits::rank_order_to), bit for bit. For p ranks that is
// p/2 times the bytes of the library's own. Of two ranks either order has the same bits.
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
  static std::optional<StagedReduction> of(const reduce::Reduction& reduction, const CollectiveLibrary& library,
                                           OpKind kind);

  /// The library's part is an all-gather of bytes.
  bool is_gathered() const { return in_order_.has_value(); }

  /// The library's part.
  DType type() const { return staged_; }
  ReduceOp op() const { return op_; }
  /// How many tensor bytes an element of type() is in tensors.
  std::size_t element_bytes() const { return element_bytes_; }
  std::size_t staged_element_bytes() const { return staged_element_bytes_; }
  /// How many bytes in front of the library so many bytes of tensors are.
  std::size_t staged(std::size_t bytes) const { return bytes / element_bytes_ * staged_element_bytes_; }
  /// And how many those are that come back.
  std::size_t received(std::size_t bytes) const { return staged(bytes) * (in_order_ ? ranks_ : 1); }
  /// Brings what the list reads at [begin, end) to `to`, scaled and as the library gets it.
  void copy_in(const collectives::GatherList& list, std::size_t begin, std::size_t end, std::byte* to) const;
  /// Brings the result, at `from`, to where the list writes [begin, end). `stride`: what is gathered of the next rank
  /// lies so many bytes behind.
  void copy_out(const collectives::GatherList& list, std::size_t begin, std::size_t end, const std::byte* from,
                std::size_t stride) const;

 private:
  StagedReduction(const reduce::Reduction& reduction, DType staged, ReduceOp op, std::size_t ranks);
  /// Of what is gathered.
  StagedReduction(const reduce::Reduction& reduction, std::size_t ranks);
  void reduce_out(const collectives::GatherList& list, std::size_t begin, std::size_t end, const std::byte* from,
                  std::size_t stride) const;
  void narrow_out(const std::byte* from, std::size_t elements, std::byte* to) const;

  DType dtype_;
  DType staged_;
  ReduceOp op_;
  std::size_t element_bytes_;
  std::size_t staged_element_bytes_;
  std::size_t ranks_;
  bool is_widened_;
  std::optional<reduce::Reducer> before_;  ///< none: a copy does
  std::optional<reduce::Reducer> behind_;
  std::optional<reduce::Reducer> in_order_;  ///< of all ranks' values; none: the library reduces them
};

}  // namespace ronde::backend
