-- Run from the root: lua5.4 tools/check_sizes.lua
-- Files stay within 600 lines and functions within 80, so that each can be read at one sitting; lines of C, comments
-- too, which clang-format leaves alone, within 120 characters (luacheck sees to those of Lua).
local MAX_FILE, MAX_FUNCTION, MAX_LINE = 600, 80, 120

local failures = 0
local function complain(...)
  failures = failures + 1
  io.stderr:write(string.format(...), "\n")
end

local function read_lines(path)
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  return lines
end

local function report(path, first, last, name)
  local length = last - first + 1
  if length > MAX_FUNCTION then
    complain("%s:%d: function %s has %d lines, more than %d", path, first, name, length, MAX_FUNCTION)
  end
end

--- The formatter puts a function's closing brace, and no other line's beginning, at the left margin.
local function check_c(path, lines)
  local first, name
  for i, line in ipairs(lines) do
    local width = utf8.len(line)
    if width > MAX_LINE then complain("%s:%d: %d characters, more than %d", path, i, width, MAX_LINE) end
    if not first then
      local signature = line:match("^[%a_].*%)%s*{$") or line:match("^ .*%)%s*{$")
      if signature and not line:match("^%s+[%a]+ %(") then
        first, name = i, line:match("([%w_]+)%(") or "?"
        -- A signature over several lines begins where the margin is left.
        while first > 1 and lines[first]:match("^%s") do first = first - 1 end
        name = lines[first]:match("([%w_]+)%(") or name
      end
    elseif line:match("^}") then
      report(path, first, i, name)
      first = nil
    end
  end
end

--- Named functions only: a spec's `describe` holds functions and is not one to read at one sitting.
local function check_lua(path, lines)
  for i, line in ipairs(lines) do
    local indent, name = line:match("^(%s*)local function ([%w_]+)")
    if not name then indent, name = line:match("^(%s*)function ([%w_.:]+)") end
    if not name then indent, name = line:match("^(%s*)([%w_.]+)%s*=%s*function%s*%(") end
    if name and not line:match("%f[%w]end[%s,;})]*$") then
      for j = i + 1, #lines do
        if lines[j]:sub(1, #indent + 3) == indent .. "end" then
          report(path, i, j, name)
          break
        end
      end
    end
  end
end

local FIND = "find engine kernels bindings scripts models tests tools -name '*.[ch]' -o -name '*.cpp' -o -name '*.lua'"
local list = assert(io.popen(FIND .. " | LC_ALL=C sort"))
for path in list:lines() do
  local lines = read_lines(path)
  if #lines > MAX_FILE then complain("%s: %d lines, more than %d", path, #lines, MAX_FILE) end
  if path:match("%.lua$") then check_lua(path, lines) else check_c(path, lines) end
end
list:close()
os.exit(failures == 0)
