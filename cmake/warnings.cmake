# Warnings for our own code; errors only where RONDE_WERROR is set (the presets), never in a user's pip install.
add_library(ronde_warnings INTERFACE)
target_compile_options(ronde_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  $<$<BOOL:${RONDE_WERROR}>:-Werror>)
# GCC 12 sees overflows and overlapping copies where std::string and std::vector have none, once it has inlined them (its
# bugs 105329 and 105651, fixed in 13). AddressSanitizer, under which every test runs, sees the real ones.
set(ronde_gcc_12 $<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>)
target_compile_options(ronde_warnings INTERFACE
  $<${ronde_gcc_12}:-Wno-restrict> $<${ronde_gcc_12}:-Wno-array-bounds> $<${ronde_gcc_12}:-Wno-stringop-overflow>)
