# Warnings for our own code; errors only where RONDE_WERROR is set (the presets), never in a user's pip install.
add_library(ronde_warnings INTERFACE)
# GCC 12 takes string concatenation for overflows once it has inlined it (its bug 105329 and kin); AddressSanitizer, which
# every test runs under, sees the real ones.
set(gcc_false_alarms -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict)
target_compile_options(ronde_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  $<$<CXX_COMPILER_ID:GNU>:${gcc_false_alarms}>
  $<$<BOOL:${RONDE_WERROR}>:-Werror>)
# GCC 12 sees overlapping copies where std::string has none (its bug 105651, fixed in 13).
set(ronde_gcc_12 $<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>)
target_compile_options(ronde_warnings INTERFACE $<${ronde_gcc_12}:-Wno-restrict>)
