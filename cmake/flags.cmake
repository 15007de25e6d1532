# Compiler settings, as interface targets:
#   neap_flags          all own C code
#   neap_kernel_flags   on top of it, files compiled once an instruction set level

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

add_library(neap_flags INTERFACE)
target_compile_definitions(neap_flags INTERFACE _GNU_SOURCE NEAP_VERSION_TEXT="${PROJECT_VERSION}"
                                                "$<$<CONFIG:Debug>:NEAP_DEBUG=1>")
target_compile_options(
  neap_flags
  INTERFACE -Wall -Wextra -Wconversion -Wshadow
            # Results may not depend on whether a compiler fuses a multiplication and an addition.
            -ffp-contract=off -fno-math-errno
            "$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes>")
# Sanitizer instrumentation gives GCC's flow warnings false grounds; the release build has the last word.
if(NEAP_WERROR AND NOT NEAP_SANITIZE AND NOT NEAP_LINT)
  target_compile_options(neap_flags INTERFACE -Werror)
endif()

if(NEAP_SANITIZE)
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all)
  target_compile_options(neap_flags INTERFACE ${sanitize} -fno-omit-frame-pointer -O1)
  target_link_options(neap_flags INTERFACE ${sanitize})
endif()

# Vector types are a GNU extension, and their calling convention warning concerns no public function.
add_library(neap_kernel_flags INTERFACE)
target_compile_options(
  neap_kernel_flags INTERFACE -Wno-psabi -fno-trapping-math
                              $<IF:$<CONFIG:Debug>,-O1,-O3>)

if(NEAP_LINT)
  find_program(NEAP_CLANG_TIDY clang-tidy REQUIRED)
  set(CMAKE_C_CLANG_TIDY ${NEAP_CLANG_TIDY} --quiet)
endif()
