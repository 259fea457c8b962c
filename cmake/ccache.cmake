# RONDE_CCACHE: compile through ccache where it is installed. Paths are taken relative to the source tree, also in debug
# information, so that presets, the wheel's build and other clones share what they have in common. (gdb finds the
# sources when it is started in the tree's root.)
option(RONDE_CCACHE "compile through ccache if there is one" OFF)
if(RONDE_CCACHE)
  find_program(RONDE_CCACHE_PROGRAM ccache)
  mark_as_advanced(RONDE_CCACHE_PROGRAM)
  if(RONDE_CCACHE_PROGRAM)
    foreach(language C CXX)
      set(CMAKE_${language}_COMPILER_LAUNCHER env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}"
        CCACHE_SLOPPINESS=pch_defines,time_macros,locale CCACHE_DEPEND=1 "${RONDE_CCACHE_PROGRAM}")
    endforeach()
    # What ccache's manual asks for where there are precompiled headers.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
    endif()
    add_compile_options("-fdebug-prefix-map=${PROJECT_SOURCE_DIR}=.")
  endif()
endif()
