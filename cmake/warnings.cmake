# Warnings for our own code; errors only where RONDE_WERROR is set (the presets), never in a user's pip install.
add_library(ronde_warnings INTERFACE)
target_compile_options(ronde_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  $<$<BOOL:${RONDE_WERROR}>:-Werror>)
