# cmake -DBUILD=DIR -DSOURCE=DIR -P check_package.cmake
# Installs the build into a prefix of its own and builds and runs SOURCE, a project that finds it there.

cmake_minimum_required(VERSION 3.25)

set(prefix ${BUILD}/embed/prefix)
file(REMOVE_RECURSE ${prefix})
set(ENV{PKG_CONFIG_PATH} ${prefix}/lib/pkgconfig)
foreach(step "${CMAKE_COMMAND};--install;${BUILD};--prefix;${prefix}"
             "${CMAKE_COMMAND};-S;${SOURCE};-B;${BUILD}/embed/build;-G;Ninja;-DCMAKE_PREFIX_PATH=${prefix}"
             "${CMAKE_COMMAND};--build;${BUILD}/embed/build"
             "${CMAKE_CTEST_COMMAND};--test-dir;${BUILD}/embed/build;--output-on-failure")
  execute_process(COMMAND ${step} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
