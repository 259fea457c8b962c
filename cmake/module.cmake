# ronde_module(name DEPENDS ...): the folder src/<name> as one static library `ronde_<name>`.
#
# The link list is the list of permitted includes, and the compiler enforces it: a module's headers are reachable only
# through a folder of its own (RONDE_VIEWS/<name>/<name> -> src/<name>), which only its dependants see. So
# `#include "reduce/reduce.h"` compiles in exactly those modules that list reduce, directly or through what they list.
#
# Sources are all .cc files below the folder; x_test.cc files beside them become one test program <name>_test whose
# cases carry the label `unit`. TEST_DEPENDS names what the tests need on top. ThreadSanitizer
# gets the tests in which threads run: all, or those whose paths match THREADED_TESTS; none with NO_THREADS.
set(RONDE_VIEWS "${PROJECT_BINARY_DIR}/include" CACHE PATH "where those folders are; builds that share it share ccache's objects")

function(ronde_module name)
  cmake_parse_arguments(ARG "NO_GLOB;NO_THREADS" "" "DEPENDS;PRIVATE_DEPENDS;TEST_DEPENDS;SOURCES;THREADED_TESTS" ${ARGN})
  set(folder "${PROJECT_SOURCE_DIR}/src/${name}")
  set(view "${RONDE_VIEWS}/${name}")
  file(MAKE_DIRECTORY "${view}")
  file(CREATE_LINK "${folder}" "${view}/${name}" SYMBOLIC)

  set(sources ${ARG_SOURCES})
  if(NOT ARG_NO_GLOB)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cc")
  endif()
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cc$")

  list(TRANSFORM ARG_DEPENDS PREPEND ronde_)
  if(sources)
    add_library(ronde_${name} STATIC ${sources})
    set_property(GLOBAL APPEND PROPERTY ronde_modules ronde_${name})
    target_include_directories(ronde_${name} PUBLIC "${view}")
    target_link_libraries(ronde_${name} PUBLIC ${ARG_DEPENDS} PRIVATE ronde_warnings ${ARG_PRIVATE_DEPENDS})
    ronde_fast_library(ronde_${name})
  else()
    add_library(ronde_${name} INTERFACE)
    target_include_directories(ronde_${name} INTERFACE "${view}")
    target_link_libraries(ronde_${name} INTERFACE ${ARG_DEPENDS})
  endif()

  if(NOT (ARG_NO_THREADS AND RONDE_SANITIZE STREQUAL "tsan"))
    ronde_module_tests(${name} LINK ronde_${name} ${ARG_TEST_DEPENDS} THREADED ${ARG_THREADED_TESTS})
  endif()
endfunction()

# ronde_module_tests(name LINK ... THREADED ...): the program <name>_test from all x_test.cc below src/<name>, if there
# are any. THREADED as THREADED_TESTS above.
function(ronde_module_tests name)
  cmake_parse_arguments(ARG "" "" "LINK;THREADED" ${ARGN})
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*_test.cc")
  if(ARG_THREADED AND RONDE_SANITIZE STREQUAL "tsan")
    list(JOIN ARG_THREADED "|" threaded)
    list(FILTER tests INCLUDE REGEX "/(${threaded})\\.cc$")
  endif()
  if(RONDE_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ${ARG_LINK} GTest::gtest_main)
    ronde_test_program(${name}_test)
    gtest_discover_tests(${name}_test TEST_PREFIX "${name}." PROPERTIES LABELS unit TIMEOUT 120
      DISCOVERY_TIMEOUT 60)
  endif()
endfunction()
