# RONDE_SANITIZE applies to everything in the build, third-party sources included. There are no suppression files:
# a report is a bug. Test programs link ronde_test_flags as well: the tests' own code is not optimised there, which would
# take twice as long to compile and save little in running; nor does it have line numbers, another sixth of that time.
add_library(ronde_test_flags INTERFACE)
target_include_directories(ronde_test_flags INTERFACE "${PROJECT_SOURCE_DIR}/tests")
if(NOT RONDE_SANITIZE)
  target_compile_options(ronde_test_flags INTERFACE -Og)
endif()
if(RONDE_SANITIZE STREQUAL "asan")
  # Three of UBSan's checks cost an eighth of the time to compile: two for what AddressSanitizer sees itself, one for
  # casts down a class, of which there are none.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=null,object-size,vptr -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  # UBSan is for the code under test. In the tests' own, which is mostly matchers, it doubles the time to compile.
  # AddressSanitizer's checks are calls there instead of code in each place: a seventh less to compile. In the code under test
  # that made the tests a third slower.
  target_compile_options(ronde_test_flags INTERFACE -fno-sanitize=undefined -O0 -g0
    --param=asan-instrumentation-with-call-threshold=0)
elseif(RONDE_SANITIZE STREQUAL "tsan")
  # GCC 12 warns that TSan does not model atomic_thread_fence. Where we fence, the words on both sides are atomics
  # themselves, so TSan sees every edge that matters; the warning is switched off here and nowhere else.
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
  add_link_options(-fsanitize=thread)
  # TSan's shadow memory has fixed places, which the kernel's address randomisation may take: it is switched off for
  # every test program, also while CMake asks it for the list of its tests.
  find_program(RONDE_SETARCH setarch REQUIRED)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${RONDE_SETARCH};-R")
  target_compile_options(ronde_test_flags INTERFACE -O0 -g0)
elseif(RONDE_SANITIZE STREQUAL "fuzz")
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "RONDE_SANITIZE=fuzz needs Clang, which has libFuzzer; the compiler is ${CMAKE_CXX_COMPILER_ID}")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(NOT RONDE_SANITIZE STREQUAL "")
  message(FATAL_ERROR "RONDE_SANITIZE is '${RONDE_SANITIZE}'; it may be asan, tsan, fuzz or empty")
endif()
