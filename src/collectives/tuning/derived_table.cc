#include "collectives/tuning/derived_table.h"

#include <algorithm>
#include <array>
#include <string>

#include "transport/arena/control_block.h"
#include "transport/arena/region_layout.h"

namespace ronde::collectives {

namespace {

constexpr std::uint64_t kMostChange = 4;
constexpr std::uint64_t kPage = 4096;

/// Worlds that have a row of their own; one in between takes that of the next larger.
constexpr std::array kSizes = {2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192};

std::uint64_t clamp(double bytes, std::uint64_t built_in) {
  // From above first: what does not fit 64 bits cannot be converted.
  const double within = std::min(bytes, static_cast<double>(built_in * kMostChange));
  return std::max(static_cast<std::uint64_t>(within), built_in / kMostChange);
}

/// Up to how many bytes one shot is as quick, but for a factor that is the same on all machines.
double one_shot_bytes(const Measurement& machine, int ranks) {
  const auto p = static_cast<double>(ranks);
  return p * machine.hand_over / (1 / machine.copy + (p - 1) * (p - 2) / machine.fetch);
}

/// A number of bytes that goes with the own cache, of which every rank has `times` in the shared one.
std::uint64_t cached_bytes(const Measurement& machine, std::uint64_t built_in, double times, int ranks) {
  auto bytes = static_cast<double>(built_in);
  if (machine.near_cache != 0) {
    bytes *= static_cast<double>(machine.near_cache) / static_cast<double>(kReference.near_cache);
  }
  if (machine.shared_cache != 0) {
    bytes = std::min(bytes, static_cast<double>(machine.shared_cache) / (2 * times * ranks));
  }
  return clamp(bytes, built_in) / kPage * kPage;
}

}  // namespace

Thresholds derive_row(const Measurement& measured, int ranks) {
  const Thresholds built_in = Table::built_in().of(ranks);
  Thresholds row = built_in;
  if (ranks > 2) {
    const double change = one_shot_bytes(measured, ranks) / one_shot_bytes(kReference, ranks);
    row.one_shot = clamp(static_cast<double>(built_in.one_shot) * change, built_in.one_shot);
  }
  const std::size_t slot = transport::RegionLayout::for_size(ranks).slot_bytes;
  row.chunk = std::min<std::uint64_t>(cached_bytes(measured, built_in.chunk, 4 + 4.0 / ranks, ranks),
                                      std::max<std::uint64_t>(slot, kPage));
  row.staged = cached_bytes(measured, built_in.staged, 4, ranks);
  if (measured.shared_cache != 0) {
    const std::uint64_t fits = measured.shared_cache / (2 * static_cast<std::uint64_t>(ranks));
    row.stream = clamp(static_cast<double>(std::min(fits, built_in.stream)), built_in.stream);
  }
  return row;
}

Table derive_table(const Measurement& measured) {
  std::string text;
  for (const int ranks : kSizes) {
    text += Table::row_text(ranks, derive_row(measured, ranks));
  }
  text += Table::row_text(kAnyRanks, derive_row(measured, transport::kMaxHostRanks));
  return Table::parse(text).value();
}

}  // namespace ronde::collectives
