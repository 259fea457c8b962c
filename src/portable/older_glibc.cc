// Two functions of glibc 2.35 and 2.36 that the C++ run-time library asks for, which what we ship has inside
// (cmake/portable.cmake). Defined here and hidden, they let it run with glibc 2.34. The compiler's own objects call
// them; nothing of ours does.
#include <dlfcn.h>
#include <link.h>
#include <sys/random.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)

namespace {

struct Search {
  ElfW(Addr) address;
  dl_find_object* found;
};

/// The loader tells of addresses as numbers.
// NOLINTNEXTLINE(performance-no-int-to-ptr): see above.
void* pointer_to(ElfW(Addr) address) { return reinterpret_cast<void*>(address); }

/// Called for each loaded object. Returns 1, which ends the search, where the address lies in it.
int look_at_object(dl_phdr_info* object, std::size_t /*size*/, void* data) {
  auto* search = static_cast<Search*>(data);
  const ElfW(Phdr)* frames = nullptr;
  bool holds_address = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const ElfW(Addr) begin = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == DLFO_EH_SEGMENT_TYPE) frames = &segment;
    if (segment.p_type != PT_LOAD || search->address - begin >= segment.p_memsz) continue;
    holds_address = true;
    search->found->dlfo_map_start = pointer_to(begin);
    search->found->dlfo_map_end = pointer_to(begin + segment.p_memsz);
  }
  if (!holds_address) return 0;
  if (frames != nullptr) search->found->dlfo_eh_frame = pointer_to(object->dlpi_addr + frames->p_vaddr);
  return 1;
}

}  // namespace

/// For the unwinder: where the object that holds the address keeps its unwind tables. Returns -1 if it has none.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the name is glibc's.
extern "C" int _dl_find_object(void* address, dl_find_object* result) noexcept {
  *result = {};
  Search search{reinterpret_cast<ElfW(Addr)>(address), result};
  dl_iterate_phdr(look_at_object, &search);
  return result->dlfo_eh_frame != nullptr ? 0 : -1;
}

#endif

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 36)

/// For std::random_device. For so few bytes getrandom() fails only where a signal has interrupted it.
extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != ssize_t{sizeof value}) {
  }
  return value;
}

#endif
