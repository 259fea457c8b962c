// The table of thresholds that follows from what was measured between the cores (probe.h).
//
// The built-in table was measured too, whole collectives beside each other, on the machine of kReference. No model is
// as good as that: a wait costs more than one look at a word (stepping the engine, ranks that come one after the
// other). So the model gives proportions only: a number is the built-in one times what the model says of this machine
// over what it says of the reference. A machine like the reference gets the built-in table back, and no number leaves
// [1/4, 4] of it, so that a wrong measurement cannot cost much.
//
// One shot or two phases, p >= 3 ranks, N bytes. A rank fetches what others have written at F bytes a second, copies
// within its own cache at C, and a wait takes w, in proportion to the hand-over h:
//
//     one shot      1 w + N / C         + (p-1) N / F          copies all of it in, fetches everybody's
//     two phases    2 w + (p-1)/p N / C + 2 (p-1)/p N / F      copies the others' slices in, fetches p-1 slices twice
//
// They are equal at N = p w / (1/C + (p-1)(p-2) / F). For two ranks one shot is never worse, so it serves every size.
//
// Chunk and staged: a rank's slots of the pipeline, or of one bucket, lie in its own cache beside the tensor that
// passes through, so both go with the size of that. And all ranks' slots together take at most half of the cache they
// share: four input slots and four results of 1/p, p * 4 (1 + 1/p) chunks; of a bucket 4 times its bytes, p times.
//
// Stream: stores past the caches pay where the results find no place there beside the inputs, that is, from 2 p N = the
// shared cache on. Never above the built-in number: a virtual machine shows the whole of a cache that it has a part of.
//
// More ranks than cores: a wait is a turn of the scheduler, microseconds, which none of this measures. The built-in row
// stays (who uses the table sees to that).
#pragma once

#include "collectives/tuning/probe.h"
#include "collectives/tuning/table.h"

namespace ronde::collectives {

/// Of the machine on which the built-in table was measured.
inline constexpr Measurement kReference{
    .hand_over = 100, .fetch = 14, .copy = 32, .near_cache = 2 << 20, .shared_cache = 300 << 20};

/// The row for so many ranks that have a core each.
Thresholds derive_row(const Measurement& measured, int ranks);

/// Such rows for worlds of every size. Text and value are the same table: what is kept in a file comes back.
Table derive_table(const Measurement& measured);

}  // namespace ronde::collectives
