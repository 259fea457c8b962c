# Where installed files go. A wheel keeps all in the package's folder (so that `ronde.get_include()` and the like are
# folders of it) but for the command, which goes to the environment's bin; elsewhere the usual folders are used.
if(SKBUILD)
  set(RONDE_INSTALL_LIBRARY ronde)
  set(RONDE_INSTALL_INCLUDE ronde/include)
  set(RONDE_INSTALL_CMAKE ronde/lib/cmake/ronde)
  set(RONDE_INSTALL_COMMAND "${SKBUILD_SCRIPTS_DIR}")
else()
  include(GNUInstallDirs)
  set(RONDE_INSTALL_LIBRARY "${CMAKE_INSTALL_LIBDIR}")
  set(RONDE_INSTALL_INCLUDE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(RONDE_INSTALL_CMAKE "${CMAKE_INSTALL_LIBDIR}/cmake/ronde")
  set(RONDE_INSTALL_COMMAND "${CMAKE_INSTALL_BINDIR}")
endif()
