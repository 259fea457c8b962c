// MpiReduction: what MPI is to do of a reduction, and what is left to the ranks: scales before and behind it, and the
// division of an average.
#pragma once

#include <cstddef>
#include <optional>

#include "backend/mpi/mpi_library.h"
#include "collectives/gather_list.h"
#include "reduce/reduce.h"

namespace ronde::backend::mpi {

class MpiReduction {
 public:
  /// None for what MPI has no type or operation for, and for integers that are averaged or scaled, which MPI would
  /// round otherwise than Ronde does. The same on every rank.
  static std::optional<MpiReduction> of(const reduce::Reduction& reduction, const Constants& constants, int ranks);

  Handle type() const { return type_; }
  Handle op() const { return op_; }
  std::size_t element_bytes() const { return element_bytes_; }
  /// Brings what the list reads at [begin, end) to `to`, scaled.
  void copy_in(const collectives::GatherList& list, std::size_t begin, std::size_t end, std::byte* to) const;
  /// Brings the result, at `from`, to where the list writes [begin, end).
  void copy_out(const collectives::GatherList& list, std::size_t begin, std::size_t end, const std::byte* from) const;

 private:
  MpiReduction(const reduce::Reduction& reduction, Handle type, Handle op, int ranks);

  Handle type_;
  Handle op_;
  std::size_t element_bytes_;
  std::optional<reduce::Reducer> before_;  ///< none: a copy does
  std::optional<reduce::Reducer> behind_;
};

}  // namespace ronde::backend::mpi
