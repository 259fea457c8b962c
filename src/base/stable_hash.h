// Hashes that are the same in every process: std::hash promises that only within one.
#pragma once

#include <cstdint>
#include <string_view>

namespace ronde {

/// Every bit of the result depends on every bit of `value`; a bijection. Source: the finaliser of SplitMix64 (Steele,
/// Lea, Flood: Fast splittable pseudorandom number generators, 2014).
constexpr std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

/// FNV-1a (Fowler, Noll, Vo).
constexpr std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char each : text) {
    hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace ronde
