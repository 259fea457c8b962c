// How tensors are fused where nobody says otherwise (RONDE_FUSION_THRESHOLD).
#pragma once

#include <cstdint>

namespace ronde {

inline constexpr std::uint64_t kFusionThreshold = std::uint64_t{128} << 20;  ///< bytes of small tensors at most
/// Only tensors up to this many bytes are fused: packing large ones costs more than it saves.
inline constexpr std::uint64_t kFusionSmall = std::uint64_t{64} << 10;

}  // namespace ronde
