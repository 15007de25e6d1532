# cmake -DNM=nm -DLIBNEAP=FILE -DMODULES=FILE,FILE -P check_exports.cmake
# Fails when a library exports a name it should keep to itself, or lacks one of the engine's (the modules are
# linked with Lua's names undefined, so that the linker does not tell).

cmake_minimum_required(VERSION 3.25)

function(exports out file)
  execute_process(COMMAND ${NM} -D --defined-only --format=posix ${file} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" lines "${text}")
  list(TRANSFORM lines REPLACE " .*" "")
  list(TRANSFORM lines REPLACE "@.*" "")
  set(${out} "${lines}" PARENT_SCOPE)
endfunction()

function(refuse file pattern)
  set(bad ${ARGN})
  list(FILTER bad EXCLUDE REGEX "${pattern}")
  if(bad)
    message(FATAL_ERROR "${file} exports: ${bad}")
  endif()
endfunction()

exports(names ${LIBNEAP})
refuse(${LIBNEAP} "^neap_[a-z]" ${names})
message(STATUS "${LIBNEAP}: ${names}")

string(REPLACE "," ";" modules "${MODULES}")
foreach(module IN LISTS modules)
  exports(names ${module})
  refuse(${module} "^(neap_[a-z]|luaopen_neap)" ${names})
  execute_process(COMMAND ${NM} -D --undefined-only ${module} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^ \n]*neap_[^ \n]*" lacks "${text}")
  if(lacks)
    message(FATAL_ERROR "${module} lacks: ${lacks}")
  endif()
  if(NOT "luaopen_neap" IN_LIST names)
    message(FATAL_ERROR "${module} does not export luaopen_neap")
  endif()
  message(STATUS "${module}: ${names}")
endforeach()
