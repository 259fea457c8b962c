# What an installation holds: libronde.so, the headers, the package file for find_package(ronde), the command, and in the
# wheel the bindings. All are of the component `ronde`, which is what the wheel takes; fetched libraries' own install rules
# stay out of it.
include(CMakePackageConfigHelpers)

install(TARGETS ronde EXPORT rondeTargets
  LIBRARY DESTINATION "${RONDE_INSTALL_LIBRARY}" COMPONENT ronde)
install(TARGETS ronde_jax LIBRARY DESTINATION "${RONDE_INSTALL_LIBRARY}" COMPONENT ronde)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/ronde" DESTINATION "${RONDE_INSTALL_INCLUDE}" COMPONENT ronde
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

install(EXPORT rondeTargets NAMESPACE ronde:: FILE rondeTargets.cmake DESTINATION "${RONDE_INSTALL_CMAKE}"
  COMPONENT ronde)
configure_package_config_file(cmake/rondeConfig.cmake.in "${PROJECT_BINARY_DIR}/rondeConfig.cmake"
  INSTALL_DESTINATION "${RONDE_INSTALL_CMAKE}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/rondeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/rondeConfig.cmake" "${PROJECT_BINARY_DIR}/rondeConfigVersion.cmake"
  DESTINATION "${RONDE_INSTALL_CMAKE}" COMPONENT ronde)

add_custom_target(ronde_package DEPENDS ronde ronde_jax)
if(SKBUILD)  # only Python loads it
  install(TARGETS ronde_tf LIBRARY DESTINATION "${RONDE_INSTALL_LIBRARY}" COMPONENT ronde)
  add_dependencies(ronde_package ronde_tf)
  if(TARGET ronde_extension)
    install(TARGETS ronde_extension LIBRARY DESTINATION "${RONDE_INSTALL_LIBRARY}" COMPONENT ronde)
    add_dependencies(ronde_package ronde_extension)
  endif()
endif()
if(TARGET ronde_cli)
  install(TARGETS ronde_cli RUNTIME DESTINATION "${RONDE_INSTALL_COMMAND}" COMPONENT ronde)
  add_dependencies(ronde_package ronde_cli)
endif()
