# Tables made from the folders: build/generated/{op_table.inc,cpu_table.inc,oracle_table.inc,scripts.c}. Adding a
# file or a row there is the whole registration.

set(NEAP_GENERATED ${CMAKE_CURRENT_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${NEAP_GENERATED})

# neap_generate(OUTPUT SCRIPT INPUTS...): the list of inputs is itself an input, since a file that went away
# leaves nothing behind that would be newer than the output.
function(neap_generate output script)
  string(REPLACE ";" "\n" list "${ARGN}")
  file(CONFIGURE OUTPUT ${NEAP_GENERATED}/${output}.inputs CONTENT "${list}\n" @ONLY)
  add_custom_command(
    OUTPUT ${NEAP_GENERATED}/${output}
    COMMAND ${CMAKE_COMMAND} -DINPUTS=${NEAP_GENERATED}/${output}.inputs -DOUTPUT=${NEAP_GENERATED}/${output}
            -DROOT=${PROJECT_SOURCE_DIR} -P ${PROJECT_SOURCE_DIR}/cmake/${script}
    DEPENDS ${NEAP_GENERATED}/${output}.inputs ${PROJECT_SOURCE_DIR}/cmake/${script} ${ARGN}
    COMMENT "Generating ${output}"
    VERBATIM)
endfunction()

file(GLOB op_inputs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/engine/op/*.c ${PROJECT_SOURCE_DIR}/engine/op/*.def)
file(GLOB cpu_inputs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cpu/*.c)
file(GLOB oracle_inputs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/conform/oracle_*.c)
file(GLOB_RECURSE script_inputs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/scripts/neap/*.lua)

neap_generate(op_table.inc make_table.cmake ${op_inputs})
neap_generate(cpu_table.inc make_table.cmake ${cpu_inputs})
neap_generate(oracle_table.inc make_table.cmake ${oracle_inputs})
neap_generate(scripts.c embed_scripts.cmake ${script_inputs})

add_custom_target(neap_generated DEPENDS ${NEAP_GENERATED}/op_table.inc ${NEAP_GENERATED}/cpu_table.inc
                                         ${NEAP_GENERATED}/oracle_table.inc ${NEAP_GENERATED}/scripts.c)
