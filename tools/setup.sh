#!/bin/sh
# tools/setup.sh [build] [lint]: installs the Debian packages that are missing, and nothing when none is.
set -eu

build_packages="cmake ninja-build gcc g++ pkg-config liblua5.4-dev lua5.4 lua-busted lua-check libhdf5-dev \
hdf5-tools libdnnl-dev libreadline-dev libcmocka-dev"
lint_packages="clang-format clang-tidy cppcheck"

wanted=""
for group in "${@:-build}"; do
  case $group in
    build) wanted="$wanted $build_packages" ;;
    lint) wanted="$wanted $lint_packages" ;;
    *) echo "setup: unknown group '$group' (build, lint)" >&2; exit 2 ;;
  esac
done

give_up() {
  echo "setup: $1" >&2
  echo "setup: these packages are missing (Debian's names):$missing" >&2
  exit 1
}

if ! command -v dpkg-query >/dev/null 2>&1; then
  # Not Debian: whoever builds here has the libraries by other names, and CMake says what it does not find.
  missing=$wanted
  command -v cmake >/dev/null 2>&1 && command -v ninja >/dev/null 2>&1 || give_up "there is no dpkg here"
  exit 0
fi

missing=""
for package in $wanted; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

command -v apt-get >/dev/null 2>&1 || give_up "there is no apt-get here"
root="env DEBIAN_FRONTEND=noninteractive"
if [ "$(id -u)" -ne 0 ]; then
  sudo -n true 2>/dev/null || give_up "not root, and sudo asks for a password or is not there"
  root="sudo -n $root"
fi
echo "setup: installing$missing"
# shellcheck disable=SC2086 # lists of words
{
  $root apt-get update -qq || give_up "apt-get update failed"
  $root apt-get install -y -qq --no-install-recommends $missing || give_up "apt-get install failed"
}
