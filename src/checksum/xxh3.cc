// Compiled once for each processor level (CMakeLists.txt): RONDE_LEVEL is its name. No header with inline functions of
// external linkage may be included here.
#define XXH_INLINE_ALL
#ifdef RONDE_LIGHTLY_OPTIMISED
#define XXH_NO_INLINE_HINTS 1  // GCC cannot inline by force what it optimises lightly
#endif
#include <xxhash.h>

#include "checksum/xxh3.h"

#define RONDE_TEXT_OF(name) #name
#define RONDE_TEXT(name) RONDE_TEXT_OF(name)

namespace ronde {
namespace {

static_assert(sizeof(XXH3_state_t) <= kXxh3StateBytes && alignof(XXH3_state_t) <= kXxh3StateAlignment);

void begin(void* state) { ::XXH3_64bits_reset(static_cast<XXH3_state_t*>(state)); }

void add(void* state, const void* bytes, std::size_t size) {
  if (size != 0) {
    ::XXH3_64bits_update(static_cast<XXH3_state_t*>(state), bytes, size);
  }
}

std::uint64_t value(const void* state) { return ::XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state)); }

std::uint64_t of(const void* bytes, std::size_t size) { return ::XXH3_64bits(bytes, size); }

}  // namespace

namespace RONDE_LEVEL {

extern const Xxh3 kXxh3;
const Xxh3 kXxh3 = {RONDE_TEXT(RONDE_LEVEL), &begin, &add, &value, &of};

}  // namespace RONDE_LEVEL
}  // namespace ronde
