#!/bin/bash
# tools/lint.sh: every check there is; runs all of them, then fails if one did.
# tools/lint.sh --fix: formats the C files and stops.
set -u
cd "$(dirname "$0")/.."

jobs=$(nproc)
mapfile -t c_files < <(find engine kernels bindings tests -name '*.[ch]' | LC_ALL=C sort)
mapfile -t c_sources < <(find engine kernels bindings -name '*.c' | LC_ALL=C sort)
mapfile -t lua_files < <(find scripts models tests tools -name '*.lua' | LC_ALL=C sort)

if [ "${1-}" = --fix ]; then
  printf '%s\0' "${c_files[@]}" | xargs -0 -P "$jobs" -n 8 clang-format -i
  exit
fi

failed=()
check() {
  local name=$1 start=$SECONDS
  shift
  if "$@"; then
    echo "lint: $name: ok ($((SECONDS - start)) s)"
  else
    echo "lint: $name: FAILED ($((SECONDS - start)) s)"
    failed+=("$name")
  fi
}

format() {
  local bad=0 file
  for file in "${c_files[@]}"; do
    if ! clang-format --dry-run -Werror "$file" 2>/dev/null; then
      clang-format --dry-run "$file" 2>&1 | sed -n 's/: warning: .*/: not as formatted/p' | cut -d: -f1,2,4 | sort -u
      bad=1
    fi
  done
  [ $bad -eq 0 ] || echo "make format puts it right"
  return $bad
}

tidy() {
  cmake --preset lint >build-lint.log 2>&1 || { cat build-lint.log; return 1; }
  rm -f build-lint.log
  # Ninja keeps what is clean, so that only what changed is read again.
  cmake --build build-lint -j "$jobs" -- -k 0 >build-lint/tidy.log 2>&1 && return
  grep -E '(error|note): ' build-lint/tidy.log | grep -v 'note: in '
  return 1
}

cpp_check() {
  cppcheck --quiet --std=c11 --language=c -j "$jobs" --error-exitcode=1 --inline-suppr \
    --enable=warning,performance,portability --suppressions-list=tools/cppcheck.supp \
    --cppcheck-build-dir=build-lint/cppcheck -I engine -I . -I build-lint/generated \
    -DNEAP_ISA=v3 -DNEAP_ONEDNN=1 -D__x86_64__=1 "${c_sources[@]}"
}

lua_check() { luacheck --quiet "${lua_files[@]}"; }

check format format
check layers lua5.4 tools/check_layers.lua
check sizes lua5.4 tools/check_sizes.lua
check luacheck lua_check
mkdir -p build-lint/cppcheck
check clang-tidy tidy
check cppcheck cpp_check

if [ ${#failed[@]} -gt 0 ]; then
  echo "lint: failed: ${failed[*]}"
  exit 1
fi
echo "lint: all clean"
