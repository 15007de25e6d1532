# The engine as object libraries, linked by every product:
#   neap_objects                  engine, bindings, the CPU backend's frame, embedded scripts
#   neap_cpu_v2, _v3, _v4         CPU kernels an x86-64 level, or neap_cpu_base elsewhere
# NEAP_OBJECTS is the list of their objects.

file(GLOB engine_sources CONFIGURE_DEPENDS engine/*/*.c)
file(GLOB binding_sources CONFIGURE_DEPENDS bindings/lua/*.c)
file(GLOB cpu_sources CONFIGURE_DEPENDS kernels/cpu/*.c)
file(GLOB cpu_plain CONFIGURE_DEPENDS kernels/cpu/backend*.c)
file(GLOB cpu_onednn CONFIGURE_DEPENDS kernels/cpu/onednn*.c kernels/cpu/onednn*.cpp)
file(GLOB neap_main_sources CONFIGURE_DEPENDS engine/host/main*.c) # the executable alone

set(lua_streams ${PROJECT_SOURCE_DIR}/engine/host/lua_streams.c) # libneap alone
list(REMOVE_ITEM engine_sources ${neap_main_sources} ${lua_streams})
list(REMOVE_ITEM cpu_sources ${cpu_plain} ${cpu_onednn})
if(NOT NEAP_ONEDNN)
  set(cpu_onednn "")
endif()

# C++ is needed for the seam that catches oneDNN's exceptions, and for nothing else.
if(cpu_onednn MATCHES "\\.cpp")
  enable_language(CXX)
  set(NEAP_LINKER_LANGUAGE CXX)
else()
  set(NEAP_LINKER_LANGUAGE C)
endif()

# A failing function is `return neap__fail(...)`; the analyzer has to know that this never returns NEAP_OK.
if(NEAP_LINT)
  target_compile_options(neap_flags INTERFACE -include ${PROJECT_SOURCE_DIR}/tools/lint.h -Wno-unused-value)
  set_source_files_properties(engine/base/status.c PROPERTIES COMPILE_DEFINITIONS NEAP_LINT_PLAIN)
endif()

# Lua may be built as C++, whose errors pass these frames as exceptions.
file(GLOB host_sources CONFIGURE_DEPENDS engine/host/*.c)
set_source_files_properties(${binding_sources} ${host_sources} PROPERTIES COMPILE_OPTIONS -fexceptions)

function(neap_object_library name)
  add_library(${name} OBJECT ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/engine ${PROJECT_SOURCE_DIR} ${NEAP_GENERATED})
  target_link_libraries(${name} PRIVATE neap_flags neap_deps neap_lua_headers)
  add_dependencies(${name} neap_generated)
endfunction()

neap_object_library(neap_objects ${engine_sources} ${binding_sources} ${cpu_plain} ${cpu_onednn})
target_compile_options(neap_objects PRIVATE -Wpedantic)
set(NEAP_OBJECTS $<TARGET_OBJECTS:neap_objects>)
if(NOT NEAP_LINT)
  target_sources(neap_objects PRIVATE ${NEAP_GENERATED}/scripts.c)
endif()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(levels v2 v3 v4)
  set(level_v2 -march=x86-64-v2 -mtune=generic)
  set(level_v3 -march=x86-64-v3)
  set(level_v4 -march=x86-64-v4 -mprefer-vector-width=512)
else()
  set(levels base)
endif()
if(NEAP_LINT)
  list(POP_BACK levels only) # one level reads every line
  set(levels ${only})
endif()

if(cpu_sources)
  foreach(level IN LISTS levels)
    neap_object_library(neap_cpu_${level} ${cpu_sources})
    target_link_libraries(neap_cpu_${level} PRIVATE neap_kernel_flags)
    target_compile_definitions(neap_cpu_${level} PRIVATE NEAP_ISA=${level})
    target_compile_options(neap_cpu_${level} PRIVATE ${level_${level}})
    list(APPEND NEAP_OBJECTS $<TARGET_OBJECTS:neap_cpu_${level}>)
  endforeach()
endif()

# The directories are relative to the prefix, which the executable finds from where it lies.
set(NEAP_LUA_CMOD ${CMAKE_INSTALL_LIBDIR}/lua/5.4)
set(NEAP_LUA_LMOD ${CMAKE_INSTALL_DATADIR}/lua/5.4)
set(neap_main_definitions
    NEAP_SCRIPT_DIR="${NEAP_LUA_LMOD}" NEAP_MODULE_DIR="${NEAP_LUA_CMOD}" NEAP_PREFIX="${CMAKE_INSTALL_PREFIX}"
    NEAP_READLINE=$<BOOL:${NEAP_READLINE_FOUND}>)

if(NEAP_LINT)
  neap_object_library(neap_main_objects ${neap_main_sources} ${lua_streams})
  target_compile_definitions(neap_main_objects PRIVATE ${neap_main_definitions})
endif()
