# ronde_portable(target): what we ship runs on any machine with a recent enough glibc. The C++ run-time library is
# inside, so that neither the user's own nor a framework's can clash with it; what it asks newer glibcs for is inside too
# (src/portable). A sanitizer build keeps the shared one, which the sanitizers intercept.
function(ronde_portable target)
  if(NOT RONDE_SANITIZE)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:ronde_older_glibc>)
  endif()
endfunction()
