#!/bin/sh
# The reference runner notices a single wrong number, wherever it is. usage: oracle_changes.sh NEAP
set -u
neap=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0

cat >"$dir/change.lua" <<'LUA'
local neap = require "neap"
local all = assert(neap.hdf5.read("data/reference.h5"))
local part = {ops = {linear_1 = all.ops.linear_1}, runs = {mlp_sgd = all.runs.mlp_sgd}}
local place, by = arg[2], tonumber(arg[3])
if place then
  local at = part
  for name in place:gmatch "[^/]+" do at = at[name] or at[tonumber(name)] end
  local flat = at:reshape(at:numel())
  flat[1] = flat[1]:item() + by
end
assert(neap.hdf5.write(arg[1], part))
LUA

# expect STATUS WORDS PLACE BY
expect() {
  "$neap" "$dir/change.lua" "$dir/part.h5" ${3:+"$3" "$4"} || { failures=$((failures + 1)); return; }
  output=$("$neap" tests/reference/run.lua "$dir/part.h5" 2>&1)
  status=$?
  case $output in
    *"$2"*) [ $status -eq "$1" ] && return ;;
  esac
  echo "FAILED: ${3:-nothing} changed: expected '$2' and exit code $1, got $status and: $output"
  failures=$((failures + 1))
}

expect 0 "2 passed, 0 failed" "" ""
expect 0 "2 passed, 0 failed" ops/linear_1/out 1e-6
expect 1 "1 passed, 1 failed" ops/linear_1/out 0.01
expect 1 "1 passed, 1 failed" ops/linear_1/grad/1 0.01
expect 1 "1 passed, 1 failed" ops/linear_1/in/2 0.1
expect 1 "1 passed, 1 failed" runs/mlp_sgd/loss_values 0.01
expect 1 "1 passed, 1 failed" runs/mlp_sgd/final/fc1.weight 0.01
exit $failures
