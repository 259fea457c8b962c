# Fails if an object file that is compiled for one processor level defines a symbol that the linker may merge with another's
# (src/reduce/kernel_table.h says what that would break). Usage: cmake -DNM=nm -DOBJECTS=a.o;b.o -P no_weak_symbols.cmake
if(NOT OBJECTS)
  message(FATAL_ERROR "no object files given")
endif()
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND "${NM}" --demangle "${object}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  # W, V: weak; u: unique over the whole program. "w" and "U" are references, defined elsewhere.
  string(REGEX MATCHALL "[0-9a-f]+ [WVu] [^\n]+" mergeable "${symbols}")
  if(mergeable)
    list(JOIN mergeable "\n  " text)
    message(SEND_ERROR "${object} defines\n  ${text}")
  endif()
endforeach()
