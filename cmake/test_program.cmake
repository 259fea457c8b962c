# ronde_test_program(target): what all C++ test programs have in common: GoogleTest, warnings, and its headers
# precompiled once for all (they are nearly half of the time that a test takes to compile). The program that holds them
# does nothing; it is a program, not a library, because the compiler takes precompiled headers only at equal flags.
function(ronde_test_program target)
  if(NOT TARGET ronde_test_headers)
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/test_headers.cc" CONTENT "int main() { return 0; }\n")
    add_executable(ronde_test_headers "${PROJECT_BINARY_DIR}/test_headers.cc")
    target_link_libraries(ronde_test_headers PRIVATE ronde_warnings ronde_precompiled ronde_test_flags GTest::gmock)
    target_precompile_headers(ronde_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  target_link_libraries(${target} PRIVATE ronde_warnings ronde_precompiled ronde_test_flags GTest::gmock)
  target_precompile_headers(${target} REUSE_FROM ronde_test_headers)
  ronde_fast_tests(${target})
endfunction()
