// memcpy for large copies between memory of any alignment.
//
// The C library copies more than a few KiB by one `rep movsb` where the processor says that it is fast (ERMS, FSRM). On
// AMD's Zen 3 and later it is not where the target lies 1 to 31 bytes behind the source, counted within a page: the
// processor takes each load for one that depends on the store before it. Measured with glibc 2.36: 64 KiB take 30 us in
// place of 1.4, 256 KiB 120 in place of 8. That is no rare case: malloc gives large memory 16 bytes behind the start of
// a page, and memory that ranks share begins with one.
#pragma once

#include <cstddef>

namespace ronde {

/// std::memcpy: the ranges do not overlap.
void copy_bytes(void* to, const void* from, std::size_t bytes);
/// std::memmove: they may.
void move_bytes(void* to, const void* from, std::size_t bytes);

}  // namespace ronde
