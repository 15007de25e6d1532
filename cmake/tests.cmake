# CTest labels: unit (cmocka programs), conform (one test for each op of the table), reference (PyTorch's numbers),
# lua (Busted), embed (the installed package), docs (code in the README and the reference runs, and the reference is as
# generated); in a sanitized build all but the last two also carry `asan`.

pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
if(NOT CMOCKA_FOUND)
  message(STATUS "cmocka not found: no unit and conformance tests")
endif()

set(sanitized "")
set(test_environment "")
set(slowdown 1)
if(NEAP_SANITIZE)
  set(sanitized asan)
  set(slowdown 4)
  set(test_environment "ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:allocator_may_return_null=1"
                       "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0"
                       "UBSAN_OPTIONS=print_stacktrace=1")
endif()

function(neap_add_test name label seconds)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  math(EXPR timeout "${seconds} * ${slowdown}")
  set_tests_properties(${name} PROPERTIES LABELS "${label};${sanitized}" TIMEOUT ${timeout}
                                          ENVIRONMENT "${test_environment}")
endfunction()

# --- cmocka programs: tests/unit/test_*.c, tests/conform/test_*.c, with what they share in tests/support --
file(GLOB support_sources CONFIGURE_DEPENDS tests/support/*.c)
file(GLOB test_sources CONFIGURE_DEPENDS tests/unit/test_*.c tests/conform/test_*.c)
file(GLOB conform_sources CONFIGURE_DEPENDS tests/conform/*.c)
list(REMOVE_ITEM conform_sources ${test_sources})

# The tests of a conformance program are what it lists after it was built, so that none is forgotten or left over.
function(neap_discover_tests target)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}.ctest)
  string(REPLACE ";" "," environment "${test_environment}")
  math(EXPR seconds "60 * ${slowdown}")
  add_custom_command(
    TARGET ${target}
    POST_BUILD
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${target}> -DOUTPUT=${file} -DLABELS=conform,${sanitized}
            -DTIMEOUT=${seconds} -DENVIRONMENT=${environment} -DROOT=${PROJECT_SOURCE_DIR} -P
            ${PROJECT_SOURCE_DIR}/cmake/discover_tests.cmake
    VERBATIM)
  # CTest stops at a file that is not there: before the program is built there is one test, which fails.
  file(CONFIGURE OUTPUT ${file}.cmake CONTENT "if(EXISTS [=[${file}]=])\n  include([=[${file}]=])
else()\n  add_test(${target}.not_built [=[${target}]=])\nendif()\n" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file}.cmake)
endfunction()

if(CMOCKA_FOUND AND test_sources AND NOT NEAP_LINT)
  # An archive, so that a test links what it uses and may put its own in place of the rest.
  add_library(neap_test_archive STATIC EXCLUDE_FROM_ALL ${NEAP_OBJECTS} ${support_sources})
  target_include_directories(neap_test_archive PRIVATE engine . tests ${NEAP_GENERATED})
  target_link_libraries(neap_test_archive PRIVATE neap_flags PkgConfig::CMOCKA neap_deps neap_lua_headers)

  foreach(source IN LISTS test_sources)
    string(REGEX REPLACE "^.*/tests/([a-z]+)/test_([A-Za-z0-9_]+)\\.c$" "\\1;\\2" parts ${source})
    list(GET parts 0 label)
    list(GET parts 1 name)
    set(target test_${label}_${name})
    add_executable(${target} ${source})
    target_include_directories(${target} PRIVATE engine . tests ${NEAP_GENERATED})
    target_compile_options(${target} PRIVATE -Wpedantic)
    target_link_libraries(${target} PRIVATE neap_flags neap_test_archive PkgConfig::CMOCKA neap_lua_static neap_deps
                                            neap_lua_headers)
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY tests/${label} OUTPUT_NAME test_${name}
                                               LINKER_LANGUAGE ${NEAP_LINKER_LANGUAGE})
    if(label STREQUAL conform)
      target_sources(${target} PRIVATE ${conform_sources})
      neap_discover_tests(${target})
    else()
      neap_add_test(${label}.${name} ${label} 120 ${target})
    endif()
  endforeach()
elseif(CMOCKA_FOUND AND test_sources)
  neap_object_library(neap_test_objects ${test_sources} ${conform_sources} ${support_sources})
  target_include_directories(neap_test_objects PRIVATE tests)
  target_link_libraries(neap_test_objects PRIVATE PkgConfig::CMOCKA)
endif()

if(NEAP_LINT OR NOT TARGET neap_executable)
  return()
endif()

# --- Busted specs under the executable -----------------------------------------------------------------
neap_add_test(lua.specs lua 300 neap_executable tests/lua/run.lua)
# --- an independent oracle: op cases and training runs computed by PyTorch --------------------------------
neap_add_test(reference.cases reference 120 neap_executable tests/reference/run.lua data/reference.h5)

file(GLOB host_tests CONFIGURE_DEPENDS tests/host/*.sh)
foreach(script IN LISTS host_tests)
  get_filename_component(name ${script} NAME_WE)
  neap_add_test(host.${name} lua 60 sh ${script} $<TARGET_FILE:neap_executable>)
endforeach()

# --- the installed package and what it exports; a sanitized library does not load in foreign programs ----
if(NOT NEAP_SANITIZE)
  neap_add_test(embed.exports embed 60 ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DLIBNEAP=$<TARGET_FILE:neap_shared>
                -DMODULES=$<TARGET_FILE:neap_lua_shared>,$<TARGET_FILE:neap_module> -P cmake/check_exports.cmake)
  if(EXISTS ${PROJECT_SOURCE_DIR}/tests/embed/CMakeLists.txt)
    neap_add_test(embed.package embed 600 ${CMAKE_COMMAND} -DBUILD=${CMAKE_CURRENT_BINARY_DIR}
                  -DSOURCE=${PROJECT_SOURCE_DIR}/tests/embed -P cmake/check_package.cmake)
  endif()
  neap_add_test(docs.examples docs 300 neap_executable tests/docs/run.lua)
  neap_add_test(docs.reference docs 60 neap_executable tools/reference/main.lua --check)
endif()
