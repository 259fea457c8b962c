// memcpy for large copies between memory of any alignment.
//
// The C library copies some KiB to some hundred KiB by one `rep movsb` where the processor says that it is fast (ERMS,
// FSRM). It is not where the target lies 1 to 31 bytes behind the source, counted within a page. Measured on an AMD
// EPYC with glibc 2.36: 4 KiB take 1.8 us in place of 0.09, 64 KiB 30 in place of 1.4, 256 KiB 120 in place of 8, and 1
// MiB, which goes another way there, as long as elsewhere. That is no rare case: malloc gives large memory 16 bytes
// behind the start of a page, and memory that ranks share begins with one.
#pragma once

#include <cstddef>

namespace ronde {

/// std::memcpy: the ranges do not overlap.
void copy_bytes(void* to, const void* from, std::size_t bytes);
/// std::memmove: they may.
void move_bytes(void* to, const void* from, std::size_t bytes);

}  // namespace ronde
