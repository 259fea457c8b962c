# A build from nothing takes half the time when headers and templates, of which the standard library, GoogleTest and
# CLI11 have plenty, cost once for several sources.
#
#   RONDE_UNITS        several sources of a library or program are compiled as one. OFF while one edits them: then an edit
#                      compiles one file. tools/lint looks at file by file: each proves to include what it uses.
#   RONDE_TEST_UNITS   several tests are compiled as one; OFF while one works on a single one.
#   RONDE_PRECOMPILED  the standard library's headers are compiled once (dev's preset and the sanitizers'; a file that
#                      includes too little of it fails in tools/lint).
#
# What two files of a unit both need is declared once, where both can include it, not twice in anonymous namespaces.
option(RONDE_UNITS "compile several sources as one" ON)
option(RONDE_TEST_UNITS "compile several tests as one" ON)
option(RONDE_PRECOMPILED "compile the standard library's headers once" OFF)

# GCC frees memory that precompiled headers have filled, time and again, in vain: without, a test takes a quarter less time
# to compile, and its compiler 1.1 GB in place of 0.9. Linked where headers are precompiled.
add_library(ronde_precompiled INTERFACE)
target_compile_options(ronde_precompiled INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-expand=1000> $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=2000000>)

set(ronde_standard_headers <algorithm> <array> <atomic> <charconv> <chrono> <condition_variable> <cstdint> <cstring>
  <deque> <functional> <map> <memory> <mutex> <optional> <span> <sstream> <string> <string_view> <thread> <tuple>
  <unordered_map> <utility> <variant> <vector>)

# ronde_fast_library(target), ronde_fast_program(target): for sources; a program's are compiled with other flags than a
# library's (PIE), so its precompiled headers are its own. Call them once all options of the target are set.
function(ronde_fast_library target)
  if(RONDE_PRECOMPILED)
    if(NOT TARGET ronde_library_headers)
      file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/library_headers.cc" CONTENT "")
      add_library(ronde_library_headers STATIC "${PROJECT_BINARY_DIR}/library_headers.cc")
      target_link_libraries(ronde_library_headers PRIVATE ronde_warnings ronde_precompiled)
      target_precompile_headers(ronde_library_headers PRIVATE ${ronde_standard_headers})
    endif()
    target_precompile_headers(${target} REUSE_FROM ronde_library_headers)
    target_link_libraries(${target} PRIVATE ronde_precompiled)
  endif()
  ronde_fast_program(${target})
endfunction()

# Not CMake's own unity builds: their files lie in a target's folder of the build and name sources by absolute paths, and
# the compiler cache, which looks at a source's path and text, would not see that the release preset, the wheel and its
# test compile the same, nor that two clones do. These lie beside RONDE_VIEWS.
function(ronde_fast_program target)
  if(RONDE_UNITS)
    ronde_compile_as_units(${target} 8 "${RONDE_VIEWS}/units")
  endif()
endfunction()

# The headers of tests are always precompiled (cmake/test_program.cmake). A preset's tests are its own.
function(ronde_fast_tests target)
  if(RONDE_TEST_UNITS)
    ronde_compile_as_units(${target} 10 "${PROJECT_BINARY_DIR}/units")
    # A failure names src/base/x_test.cc, not build/release/units/../../../src/base/x_test.cc.
    file(RELATIVE_PATH to_root "${PROJECT_BINARY_DIR}/units" "${PROJECT_SOURCE_DIR}")
    target_compile_options(${target} PRIVATE "-ffile-prefix-map=${PROJECT_BINARY_DIR}/units/${to_root}=")
  endif()
endfunction()

# The sources that the target has now, `batch` of them as one, from files in `folder` that include them. Not those with the
# property SKIP_UNITY_BUILD_INCLUSION.
function(ronde_compile_as_units target batch folder)
  file(MAKE_DIRECTORY "${folder}")
  file(REAL_PATH "${folder}" real_folder)
  set(number 0)
  set(text "")
  set(in_unit 0)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  list(TRANSFORM sources REPLACE "^([^/].*)$" "${CMAKE_CURRENT_SOURCE_DIR}/\\1")
  foreach(source IN LISTS sources)
    get_source_file_property(is_alone "${source}" SKIP_UNITY_BUILD_INCLUSION)
    if(is_alone)
      list(REMOVE_ITEM sources "${source}")
    endif()
  endforeach()
  list(LENGTH sources left)
  foreach(source IN LISTS sources)
    set_source_files_properties("${source}" PROPERTIES HEADER_FILE_ONLY ON)
    file(REAL_PATH "${source}" included)
    file(RELATIVE_PATH included "${real_folder}" "${included}")
    string(APPEND text "#include \"${included}\"\n")
    math(EXPR in_unit "${in_unit} + 1")
    math(EXPR left "${left} - 1")
    if(in_unit EQUAL batch OR left EQUAL 0)
      set(unit "${folder}/${target}_${number}.cc")
      file(CONFIGURE OUTPUT "${unit}" CONTENT "${text}" @ONLY)
      target_sources(${target} PRIVATE "${unit}")
      math(EXPR number "${number} + 1")
      set(text "")
      set(in_unit 0)
    endif()
  endforeach()
endfunction()

# ronde_cold(targets...): nobody waits for these; optimised lightly they take three quarters of the time to compile.
function(ronde_cold)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endforeach()
endfunction()
