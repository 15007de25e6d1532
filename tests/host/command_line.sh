#!/bin/sh
# sh command_line.sh NEAP: the executable behaves as `lua` does and refuses bad values of its own options.
set -u
neap=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset LUA_INIT LUA_INIT_5_4
failures=0

# expect CODE TEXT ARGS...: the exit code, and a text that stdout or stderr holds
expect() {
  code=$1 text=$2
  shift 2
  output=$("$neap" "$@" 2>&1 </dev/null)
  got=$?
  case $output in *"$text"*) found=1 ;; *) found=0 ;; esac
  if [ $got -ne "$code" ] || [ $found -eq 0 ]; then
    echo "neap $*: exit code $got, wanted $code; wanted '$text' in: $output"
    failures=$((failures + 1))
  fi
}

cat >"$dir/args.lua" <<'LUA'
print(arg[0] == select(-1, ...), #arg, ...)
LUA
cat >"$dir/fail.lua" <<'LUA'
local kind = ...
if kind == "object" then error(setmetatable({exit_code = 7}, {__tostring = function() return "object says" end})) end
if kind == "inherited" then
  local base = {exit_code = 9}
  error(setmetatable({}, {__index = base, __tostring = function() return "object says" end}))
end
if kind == "hostile" then error(setmetatable({}, {__index = function() error "no" end})) end
if kind == "exit" then os.exit(5) end
error("boom")
LUA

expect 0 "true	3	a	-i	$dir/args.lua" "$dir/args.lua" a -i "$dir/args.lua"
expect 0 "true	1	$dir/args.lua" --threads 2 --memory=64MiB --seed 18446744073709551615 "$dir/args.lua" "$dir/args.lua"
memory='print("budget", require("neap").memory().budget)'
expect 0 "budget	67108864" --memory 64MiB -e "$memory"
expect 0 "budget	1048576" --memory=1MiB -e "$memory"
expect 0 "budget	nil" -e "$memory"
expect 0 "device	cpu" --device cpu -e 'print("device", require("neap").device())'
expect 1 "abacus" --device abacus -e 'require("neap")'
draw='print("drew", require("neap").rand(1):item())'
[ "$("$neap" --seed 5 -e "$draw")" = "$("$neap" --seed=5 -e "$draw")" ] || { echo "--seed"; failures=$((failures + 1)); }
[ "$("$neap" --seed 5 -e "$draw")" != "$("$neap" --seed 6 -e "$draw")" ] || { echo "--seed"; failures=$((failures + 1)); }
expect 2 "--memory is above 0" --memory 0
expect 0 "Lua 5.4" -v
expect 0 "12" -e "x = 12" -e "print(x)"
expect 0 "true" -l s=string -e "print(s == string)"
expect 0 "warning: hi" -W -e "warn('hi')"
expect 0 "--memory" --help
expect 1 "boom" "$dir/fail.lua"
expect 1 "traceback" "$dir/fail.lua"
expect 1 "(error object is a table value)" "$dir/fail.lua" hostile
expect 5 "" "$dir/fail.lua" exit
expect 7 "object says" "$dir/fail.lua" object
expect 9 "object says" "$dir/fail.lua" inherited
expect 1 "cannot open" "$dir/none.lua"
expect 1 "near <eof>" -e "x ="
for value in 0 -1 1025 x 2x "" " 2" 1e3; do expect 2 "--threads is" "--threads=$value"; done
for value in -1 x 18446744073709551616 0x10 "" nan; do expect 2 "--seed is" --seed "$value"; done
for value in -1 nan 1QB 64MiBx "" 99999999999999999999 1e400; do expect 2 "neap: --memory" "--memory=$value"; done
for value in Foo "" "cuda:" cuda:x "cpu 1" cuda:99999999999; do expect 2 "--device is" --device "$value"; done
for option in --memory --device --threads --seed; do expect 2 "needs a value" $option; done
expect 2 "unrecognized option '--bogus'" --bogus
expect 2 "unrecognized option '--memoryx'" --memoryx 3
expect 2 "unrecognized option '-x'" -x
expect 2 "needs argument" -e

[ "$(echo 'print("in", ...)' | "$neap" - a)" = "in	a" ] || { echo "script from stdin"; failures=$((failures + 1)); }
[ "$(echo 'print("in")' | "$neap")" = in ] || { echo "stdin without arguments"; failures=$((failures + 1)); }
[ "$(LUA_INIT='io.write "init "' "$neap" -e 'print(1)')" = "init 1" ] || { echo "LUA_INIT"; failures=$((failures + 1)); }
[ "$(LUA_INIT='io.write "init "' "$neap" -E -e 'print(1)')" = 1 ] || { echo "-E"; failures=$((failures + 1)); }
cat >"$dir/damage.lua" <<'LUA'
local neap = require "neap"
local path = arg[1]
assert(neap.save(path, {a = neap.ones(4), b = {c = neap.ones(2, 2)}}))
local f = assert(io.open(path, "rb"))
local whole = f:read "a"
f:close()
for i = 1, math.min(#whole, 1200) do
  f = assert(io.open(path, "wb"))
  f:write(whole:sub(1, i - 1), string.char(whole:byte(i) ~ 0xff), whole:sub(i + 1))
  f:close()
  pcall(neap.load, path)
end
print "done"
LUA
output=$("$neap" "$dir/damage.lua" "$dir/damaged.h5" 2>&1)
[ "$output" = done ] || { echo "damaged files: $output"; failures=$((failures + 1)); }

# A pipe, since the limit would bind this shell's own output, too.
output=$( (ulimit -f 1; exec "$neap" -e "n = require 'neap' print(n.save('$dir/big.h5', {a = n.ones(65536)}))" 2>&1) | cat)
case $output in *"File too large"*) ;; *) echo "a file size limit: $output"; failures=$((failures + 1)) ;; esac
[ "$(echo "$dir"/big.h5*)" = "$dir/big.h5*" ] || { echo "left behind: $(echo "$dir"/big*)"; failures=$((failures + 1)); }

mkfifo "$dir/fifo"
expect 0 "not a regular file" -e "print(require('neap').load('$dir/fifo'))"
printf '=2 + 3\n' | "$neap" -i | grep -q '^> 5$' || { echo "-i: =x"; failures=$((failures + 1)); }
printf '1 + 1\nfor i = 5, 5 do\nprint(i)\nend\n' | "$neap" -i | grep -q '^> 2$' || { echo "-i"; failures=$((failures + 1)); }
printf 'neap.help "relu"\n' | "$neap" -i | grep -q 'max(x, 0)' || { echo "-i: neap.help"; failures=$((failures + 1)); }
printf 'neap\n' | "$neap" -e 'neap = 7' -i | grep -q '^> 7$' || { echo "-i: own neap"; failures=$((failures + 1)); }
[ $failures -eq 0 ]
