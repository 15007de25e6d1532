# cmake -DINPUTS=LIST_FILE -DOUTPUT=FILE -P make_table.cmake
# Writes XX(NAME), one a line, sorted by bytes, for every registration in the listed files:
#   const neap_op neap__op_NAME = {      NEAP_CPU_KERNEL(NAME)
#   UNARY(NAME, ...  BINARY(NAME, ...  COMPARE(NAME, ...  TERNARY(NAME, ...
#   const cf_oracle_row cf_oracles_NAME[] = {
# A registration begins its line, so that one in a comment does not count.

cmake_minimum_required(VERSION 3.25)

set(name "([a-z][a-z0-9_]*)")
set(forms "const neap_op neap__op_${name} *=" "NEAP_CPU_KERNEL\\(${name}\\)" "UNARY\\(${name},"
          "BINARY\\(${name}," "COMPARE\\(${name}," "TERNARY\\(${name}," "const cf_oracle_row cf_oracles_${name}\\[\\] *=")

file(STRINGS ${INPUTS} files)
set(names "")
foreach(file IN LISTS files)
  file(READ ${file} text)
  foreach(form IN LISTS forms)
    string(REGEX MATCHALL "\n${form}" matches "\n${text}")
    foreach(match IN LISTS matches)
      string(REGEX MATCH "${form}" match "${match}")
      set(found ${CMAKE_MATCH_1})
      if(found IN_LIST names)
        message(FATAL_ERROR "'${found}' is registered in ${from_${found}} and again in ${file}")
      endif()
      list(APPEND names ${found})
      set(from_${found} ${file})
    endforeach()
  endforeach()
endforeach()

list(SORT names)
set(table "")
foreach(found IN LISTS names)
  string(APPEND table "XX(${found})\n")
endforeach()
# Everything includes the table, so it keeps its time while its text stays the same.
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${table}" @ONLY)
