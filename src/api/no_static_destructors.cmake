# Fails if the library has a static object with a destructor: the engine's threads work until the very end of the
# process's exit, after all such objects are gone. What must live so long is made with new and never destroyed; what a
# thread has for itself is base/of_this_thread.h. Usage: cmake -DNM=nm -DOBJECTS=a.o;b.a -P no_static_destructors.cmake
if(NOT OBJECTS)
  message(FATAL_ERROR "no object files given")
endif()
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND "${NM}" --print-file-name --undefined-only "${object}" OUTPUT_VARIABLE symbols
    COMMAND_ERROR_IS_FATAL ANY)
  # By either the compiler registers a destructor that runs at exit.
  string(REGEX MATCHALL "[^\n]* (__cxa_atexit|atexit)(@[^\n]*)?\n" registered "${symbols}")
  if(registered)
    list(JOIN registered "  " text)
    message(SEND_ERROR "a static object with a destructor is in\n  ${text}")
  endif()
endforeach()
