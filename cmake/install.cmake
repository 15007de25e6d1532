include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/neap)

if(TARGET neap_executable)
  install(TARGETS neap_executable RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(TARGETS neap_shared neap_lua_shared EXPORT neapTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS neap_module LIBRARY DESTINATION ${NEAP_LUA_CMOD})
install(FILES engine/neap.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY models/ DESTINATION ${NEAP_LUA_LMOD}/models FILES_MATCHING PATTERN "*.lua")
# Runnable scripts; scripts/neap is inside the libraries already.
install(DIRECTORY scripts/ DESTINATION ${CMAKE_INSTALL_DATADIR}/neap OPTIONAL FILES_MATCHING PATTERN "*.lua"
        PATTERN "neap" EXCLUDE)
# Declarations for editors, which is where the annotations of what is inside the libraries can be read.
install(DIRECTORY types/ DESTINATION ${CMAKE_INSTALL_DATADIR}/neap/types FILES_MATCHING PATTERN "*.lua")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/neap)

install(EXPORT neapTargets NAMESPACE neap:: DESTINATION ${config_dir})
configure_package_config_file(cmake/neapConfig.cmake.in neapConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(neapConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/neapConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/neapConfigVersion.cmake
        DESTINATION ${config_dir})

# The prefix comes from where the file lies, so that --prefix at install time and later moves are right.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(PC_LIBRARY neap)
set(PC_TEXT "${PROJECT_DESCRIPTION}, with its own Lua inside")
configure_file(cmake/neap.pc.in neap.pc @ONLY)
set(PC_LIBRARY neap_lua)
set(PC_TEXT "${PROJECT_DESCRIPTION}, for hosts that have a Lua 5.4")
configure_file(cmake/neap.pc.in neap-lua.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/neap.pc ${CMAKE_CURRENT_BINARY_DIR}/neap-lua.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
