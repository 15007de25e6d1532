# cmake -DINPUTS=LIST_FILE -DOUTPUT=FILE -DROOT=DIR -P embed_scripts.cmake
# Writes the Lua standard library as bytes: scripts/neap/init.lua is "neap", scripts/neap/nn.lua "neap.nn".

cmake_minimum_required(VERSION 3.25)

file(STRINGS ${INPUTS} files)
list(SORT files)
string(REPEAT "[0-9a-f]" 32 row)
set(arrays "")
set(table "")
set(index 0)
foreach(file IN LISTS files)
  file(RELATIVE_PATH path ${ROOT}/scripts ${file})
  string(REGEX REPLACE "(/init)?\\.lua$" "" module ${path})
  string(REPLACE "/" "." module ${module})
  file(READ ${file} bytes HEX)
  string(LENGTH "${bytes}" size)
  math(EXPR size "${size} / 2")
  string(REGEX REPLACE "(${row})" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "/* ${path} */\nstatic const unsigned char text_${index}[] = {\n${bytes}0x00\n};\n\n")
  string(APPEND table "  {\"${module}\", (const char *)text_${index}, ${size}},\n")
  math(EXPR index "${index} + 1")
endforeach()

file(WRITE ${OUTPUT} "#include \"bindings/lua/scripts.h\"\n\n${arrays}"
     "const neap_script neap__scripts[] = {\n${table}  {NULL, NULL, 0},\n};\n")
