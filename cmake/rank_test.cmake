# add_rank_test(name SOURCES x.cc RANKS 1 2 3 5 [LINK ...] [TIMEOUT seconds]): the only way to register a test whose
# ranks are processes. The program launches itself (tests/support/rank_test.h): for each count one CTest case
# ranks.<name>.r<N>, labels `ranks` and `rN`, with a key, a store and a folder of its own and a watchdog.
function(add_rank_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;RANKS;LINK" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(RONDE_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 3")
  endif()
  set(target ${name}_rank_test)
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE ronde_rank_test ${ARG_LINK})
  ronde_test_program(${target})
  if(RONDE_SANITIZE STREQUAL "tsan")
    # It sees no race between processes: neither built nor run there.
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  math(EXPR limit "${ARG_TIMEOUT} - 5")
  foreach(count ${ARG_RANKS})
    add_test(NAME ranks.${name}.r${count} COMMAND ${target} --ranks=${count} --limit=${limit})
    set_tests_properties(ranks.${name}.r${count} PROPERTIES
      LABELS "ranks;r${count}" TIMEOUT ${ARG_TIMEOUT} PROCESSORS ${count})
  endforeach()
endfunction()
