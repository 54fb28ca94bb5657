# cmake --install: headers, library, CMake package, pkg-config file, the command.
include(CMakePackageConfigHelpers)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/atoll DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS atoll EXPORT atoll-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT atoll-targets NAMESPACE atoll:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/atoll)

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/atoll-config.cmake.in ${CMAKE_BINARY_DIR}/atoll-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/atoll)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/atoll-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/atoll-config.cmake ${CMAKE_BINARY_DIR}/atoll-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/atoll)

# Relative to the file itself, so that the tree may be installed or moved anywhere.
file(RELATIVE_PATH ATOLL_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${CMAKE_SOURCE_DIR}/cmake/atoll.pc.in ${CMAKE_BINARY_DIR}/atoll.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/atoll.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
