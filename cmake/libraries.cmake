# The products, laid out in the build folder as an installation is:
#   libneap.so             for hosts; its own Lua inside, hidden
#   libneap_lua.so         for hosts that have a Lua
#   lua/5.4/neap.so        the same for `require "neap"` in a stock lua5.4
#   neap                   the executable; exports Lua so that C modules load in it

# A private Lua. The static archive is made for executables: its references to the C library's streams are
# relative to the program, which a shared library cannot have. They are pointed at streams of our own
# (engine/host/lua_streams.c).
set(private_lua ${CMAKE_CURRENT_BINARY_DIR}/private_lua.a)
add_custom_command(
  OUTPUT ${private_lua}
  COMMAND ${CMAKE_OBJCOPY} --redefine-sym stdin=neap__stdin --redefine-sym stdout=neap__stdout --redefine-sym
          stderr=neap__stderr ${NEAP_LUA_STATIC} ${private_lua}
  DEPENDS ${NEAP_LUA_STATIC}
  COMMENT "Preparing the private Lua"
  VERBATIM)
add_custom_target(neap_private_lua DEPENDS ${private_lua})

# nodelete: libraries underneath keep thread-local and exit-time state that an unload would pull away.
function(neap_library name kind map)
  add_library(${name} ${kind} ${NEAP_OBJECTS})
  target_link_libraries(${name} PRIVATE neap_flags neap_deps)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/engine>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_options(${name} PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/${map}"
                      LINKER:--exclude-libs,ALL LINKER:-z,nodelete)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE ${NEAP_LINKER_LANGUAGE}
                                           LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR}
                                           LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/${map})
endfunction()

neap_library(neap_shared SHARED libneap.map)
target_sources(neap_shared PRIVATE ${lua_streams})
target_link_libraries(neap_shared PRIVATE ${private_lua})
add_dependencies(neap_shared neap_private_lua)
set_target_properties(neap_shared PROPERTIES OUTPUT_NAME neap EXPORT_NAME neap VERSION ${PROJECT_VERSION}
                                             SOVERSION ${PROJECT_VERSION_MAJOR})
set_property(TARGET neap_shared APPEND PROPERTY LINK_DEPENDS ${private_lua})

if(NOT NEAP_SANITIZE) # the sanitizer's runtime comes with the program
  target_link_options(neap_shared PRIVATE LINKER:-z,defs)
endif()

neap_library(neap_lua_shared SHARED module.map)
set_target_properties(neap_lua_shared PROPERTIES OUTPUT_NAME neap_lua EXPORT_NAME lua VERSION ${PROJECT_VERSION}
                                                 SOVERSION ${PROJECT_VERSION_MAJOR})

neap_library(neap_module MODULE module.map)
set_target_properties(neap_module PROPERTIES PREFIX "" OUTPUT_NAME neap SUFFIX .so
                                             LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${NEAP_LUA_CMOD})

if(neap_main_sources)
  add_executable(neap_executable ${neap_main_sources} ${NEAP_OBJECTS})
  target_include_directories(neap_executable PRIVATE ${PROJECT_SOURCE_DIR}/engine ${PROJECT_SOURCE_DIR} ${NEAP_GENERATED})
  target_compile_options(neap_executable PRIVATE -Wpedantic)
  target_compile_definitions(neap_executable PRIVATE ${neap_main_definitions})
  target_link_libraries(neap_executable PRIVATE neap_flags neap_deps neap_lua_headers
                                                $<LINK_LIBRARY:WHOLE_ARCHIVE,${NEAP_LUA_STATIC}>)
  if(NEAP_READLINE_FOUND)
    target_link_libraries(neap_executable PRIVATE ${NEAP_READLINE_LIBRARY})
  endif()
  set_target_properties(neap_executable PROPERTIES OUTPUT_NAME neap ENABLE_EXPORTS ON LINKER_LANGUAGE ${NEAP_LINKER_LANGUAGE})
endif()

# The build folder serves as a prefix: what the executable finds in an installation it finds here.
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${NEAP_LUA_LMOD} ${PROJECT_SOURCE_DIR}/models)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/models ${CMAKE_CURRENT_BINARY_DIR}/${NEAP_LUA_LMOD}/models SYMBOLIC)
