# cmake -DPROGRAM=FILE -DOUTPUT=FILE -DLABELS=A,B -DTIMEOUT=SECONDS -DENVIRONMENT=A=1,B=2 -DROOT=DIR -P discover_tests.cmake
# Writes a test conform.NAME for each line that `PROGRAM --list` prints; it runs `PROGRAM NAME`.

cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${PROGRAM} --list OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" names "${text}")
string(REPLACE "," ";" LABELS "${LABELS}")
string(REPLACE "," ";" ENVIRONMENT "${ENVIRONMENT}")
set(tests "")
foreach(name IN LISTS names)
  string(APPEND tests "add_test([=[conform.${name}]=] [=[${PROGRAM}]=] [=[${name}]=])\n"
         "set_tests_properties([=[conform.${name}]=] PROPERTIES LABELS [=[${LABELS}]=] TIMEOUT ${TIMEOUT} "
         "ENVIRONMENT [=[${ENVIRONMENT}]=] WORKING_DIRECTORY [=[${ROOT}]=])\n")
endforeach()
file(WRITE ${OUTPUT} "${tests}")
