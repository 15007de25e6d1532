# What the engine links, as targets:
#   neap_deps          libraries every product needs (HDF5, oneDNN, threads)
#   neap_lua_headers   Lua's headers alone
#   neap_lua_static    the system's static Lua, for executables
#   NEAP_READLINE_FOUND and neap_readline for the executable

find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(neap_deps INTERFACE)
target_link_libraries(neap_deps INTERFACE Threads::Threads m ${CMAKE_DL_LIBS})

# --- HDF5, the serial build -------------------------------------------------------------------------
pkg_check_modules(HDF5_SERIAL IMPORTED_TARGET hdf5-serial)
if(HDF5_SERIAL_FOUND)
  target_link_libraries(neap_deps INTERFACE PkgConfig::HDF5_SERIAL)
else()
  find_package(HDF5 REQUIRED COMPONENTS C)
  target_include_directories(neap_deps SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
  target_link_libraries(neap_deps INTERFACE ${HDF5_C_LIBRARIES})
endif()

# --- oneDNN, 2.x or 3.x -----------------------------------------------------------------------------
# The plain search comes first: Debian's package configuration asks for OpenCL, which nothing here uses.
if(NEAP_ONEDNN)
  if(NOT dnnl_DIR)
    find_path(NEAP_DNNL_INCLUDE dnnl.h)
    find_library(NEAP_DNNL_LIBRARY dnnl)
  endif()
  if(NEAP_DNNL_INCLUDE AND NEAP_DNNL_LIBRARY)
    target_include_directories(neap_deps SYSTEM INTERFACE ${NEAP_DNNL_INCLUDE})
    target_link_libraries(neap_deps INTERFACE ${NEAP_DNNL_LIBRARY})
  else()
    find_package(dnnl CONFIG REQUIRED)
    target_link_libraries(neap_deps INTERFACE DNNL::dnnl)
  endif()
  # omp_set_num_threads keeps oneDNN's team at one thread; GCC knows where its own libgomp lies.
  target_link_libraries(neap_deps INTERFACE gomp)
  target_compile_definitions(neap_deps INTERFACE NEAP_ONEDNN=1)
else()
  target_compile_definitions(neap_deps INTERFACE NEAP_ONEDNN=0)
endif()

# --- Lua 5.4 ----------------------------------------------------------------------------------------
find_path(NEAP_LUA_INCLUDE lua.h PATH_SUFFIXES lua5.4 lua-5.4 lua54 REQUIRED)
find_library(NEAP_LUA_STATIC NAMES liblua5.4.a liblua-5.4.a liblua54.a liblua.a REQUIRED)
file(STRINGS ${NEAP_LUA_INCLUDE}/lua.h lua_version REGEX "^#define[ \t]+LUA_VERSION_NUM[ \t]+504")
if(NOT lua_version)
  message(FATAL_ERROR "neap needs Lua 5.4; ${NEAP_LUA_INCLUDE}/lua.h is another version")
endif()

add_library(neap_lua_headers INTERFACE)
target_include_directories(neap_lua_headers SYSTEM INTERFACE ${NEAP_LUA_INCLUDE})

add_library(neap_lua_static INTERFACE)
target_link_libraries(neap_lua_static INTERFACE ${NEAP_LUA_STATIC} m ${CMAKE_DL_LIBS})

# --- readline, for the executable only ---------------------------------------------------------------
set(NEAP_READLINE_FOUND OFF)
if(NEAP_READLINE)
  find_path(NEAP_READLINE_INCLUDE readline/readline.h)
  find_library(NEAP_READLINE_LIBRARY readline)
  if(NEAP_READLINE_INCLUDE AND NEAP_READLINE_LIBRARY)
    set(NEAP_READLINE_FOUND ON)
  else()
    message(STATUS "readline not found: neap -i has no line editing")
  endif()
endif()
