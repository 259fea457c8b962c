# For set_tests_properties, in `weight`: CTest begins with what costs most, or a long test of many ranks is its last.
macro(ronde_rank_test_weight count)
  set(weight COST ${ARG_TIMEOUT} PROCESSORS ${count})
  if(ARG_WAITS)
    set(weight COST 1000 PROCESSORS 1)
  endif()
endmacro()

# add_rank_test(name SOURCES x.cc RANKS 1 2 3 5 [LINK ...] [TIMEOUT seconds] [FILTERS ...] [IN_TSAN] [BY_TCP 2 3]
# [BY_HOSTS 0,1 0,0,1] [BY_OFI 0,1 0,0,1] [BY_ONECCL 2 3]): the only way to
# register a test whose ranks are processes. The program launches itself (tests/support/rank_test.h): for each count one
# CTest case ranks.<name>.r<N>, labels `ranks` and `rN`, with a key, a store and a folder of its own and a watchdog.
# FILTERS, for tests that end their process: a case ranks.<name>.<filter>.r<N> for each GoogleTest filter.
# BY_TCP: for these counts once more, as ranks_by_tcp.<...>, with ranks that share no memory.
# BY_HOSTS: once more for each of these lists of ranks' hosts, as ranks_by_hosts.<...>.h<hosts>, with ranks that share
# memory with those of their host.
# BY_OFI: the same, as ranks_by_ofi.<...>.h<hosts>, with libfabric between hosts; skipped where there is none.
# BY_ONECCL: for these counts once more, as ranks_by_oneccl.<...>, through oneCCL's stand-in.
# WAITS: the ranks wait for time-outs most of the time, and count as one process when CTest fills the processors.
# IN_TSAN: ThreadSanitizer runs it too, for what the threads of one rank do to each other.
function(add_rank_test name)
  cmake_parse_arguments(ARG "IN_TSAN;WAITS" "TIMEOUT" "SOURCES;RANKS;LINK;FILTERS;BY_TCP;BY_HOSTS;BY_OFI;BY_ONECCL" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 180)  # what ends well alone within a minute: a busy machine takes three times as long
  endif()
  if(RONDE_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 3")
    set(ARG_BY_TCP "")  # BY_HOSTS runs the same code, and that of rings beside it
    # Three ranks do what two and five do.
    if(3 IN_LIST ARG_RANKS)
      set(ARG_RANKS 3)
    endif()
    set(three_by_hosts ${ARG_BY_HOSTS})
    list(FILTER three_by_hosts INCLUDE REGEX "^.,.,.$")
    if(three_by_hosts)
      list(GET three_by_hosts 0 ARG_BY_HOSTS)
    endif()
    if(ARG_BY_OFI)
      list(GET ARG_BY_OFI 0 ARG_BY_OFI)
    endif()
  endif()
  set(target ${name}_rank_test)
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE ronde_rank_test ${ARG_LINK})
  ronde_test_program(${target})
  if(ARG_BY_ONECCL)
    add_dependencies(${target} oneccl_stand_in)
  endif()
  set(labels ranks)
  if(RONDE_SANITIZE STREQUAL "tsan")
    set(ARG_BY_ONECCL "")  # the stand-in meets by memory of several processes
  endif()
  if(ARG_IN_TSAN)
    list(APPEND labels threads)
  elseif(RONDE_SANITIZE STREQUAL "tsan")
    # It sees no race between processes: neither built nor run there.
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  math(EXPR limit "${ARG_TIMEOUT} - 5")
  if(NOT ARG_FILTERS)
    set(ARG_FILTERS "*")
  endif()
  foreach(filter ${ARG_FILTERS})
    string(REGEX REPLACE "[^.]*\\." "" test "${filter}")
    if(filter STREQUAL "*")
      set(case ${name})
    else()
      set(case ${name}.${test})
    endif()
    foreach(count ${ARG_RANKS})
      ronde_rank_test_weight(${count})
      add_test(NAME ranks.${case}.r${count} COMMAND ${target} --ranks=${count} --limit=${limit} --gtest_filter=${filter})
      set_tests_properties(ranks.${case}.r${count} PROPERTIES
        LABELS "${labels};r${count}" TIMEOUT ${ARG_TIMEOUT} ${weight})
    endforeach()
    foreach(count ${ARG_BY_TCP})
      ronde_rank_test_weight(${count})
      set(by_tcp ranks_by_tcp.${case}.r${count})
      add_test(NAME ${by_tcp} COMMAND ${target} --ranks=${count} --limit=${limit} --gtest_filter=${filter})
      set_tests_properties(${by_tcp} PROPERTIES
        LABELS "${labels};r${count}" TIMEOUT ${ARG_TIMEOUT} ${weight} ENVIRONMENT RONDE_TRANSPORT=tcp)
    endforeach()
    foreach(count ${ARG_BY_ONECCL})
      ronde_rank_test_weight(${count})
      set(by_oneccl ranks_by_oneccl.${case}.r${count})
      add_test(NAME ${by_oneccl} COMMAND ${target} --ranks=${count} --limit=${limit} --gtest_filter=${filter})
      set_tests_properties(${by_oneccl} PROPERTIES
        LABELS "${labels};r${count}" TIMEOUT ${ARG_TIMEOUT} ${weight}
        ENVIRONMENT "RONDE_BACKEND=oneccl;RONDE_ONECCL_LIBRARY=$<TARGET_FILE:oneccl_stand_in>")
    endforeach()
    set(environment_of_hosts "")
    set(environment_of_ofi "")
    set(more_of_hosts "")
    set(more_of_ofi SKIP_RETURN_CODE 77)  # where there is no libfabric
    if(RONDE_SANITIZE)
      set(environment_of_ofi ";RONDE_OFI_PROVIDER=tcp")  # libfabric's net loses memory of its own with each endpoint
    endif()
    foreach(transport hosts ofi)
      string(TOUPPER ${transport} TRANSPORT)
      foreach(hosts ${ARG_BY_${TRANSPORT}})
        string(REPLACE "," ";" host_list "${hosts}")
        list(LENGTH host_list count)
        ronde_rank_test_weight(${count})
        string(REPLACE "," "" short "${hosts}")
        set(by_transport ranks_by_${transport}.${case}.h${short})
        add_test(NAME ${by_transport} COMMAND ${target} --ranks=${count} --limit=${limit} --gtest_filter=${filter})
        set_tests_properties(${by_transport} PROPERTIES
          LABELS "${labels};r${count}" TIMEOUT ${ARG_TIMEOUT} ${weight} ${more_of_${transport}}
          ENVIRONMENT "RONDE_TRANSPORT=${transport};RONDE_TEST_HOSTS=${hosts}${environment_of_${transport}}")
      endforeach()
    endforeach()
  endforeach()
endfunction()
