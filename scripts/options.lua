--- Options of the runnable scripts: `script.lua --steps 200 --out last.h5`, or `--help`.
---   local options = require "scripts.options"
---   local o = options.read {steps = options.at_least(1, 2000), rate = 3e-4, out = "gpt.h5", resume = false}
--- What is wrong with one is an error, with which the interpreter ends with exit code 1.
local M = {}

-- A table, so that the interpreter tells what is wrong and no traceback beside it.
local Wrong = {__tostring = function(self) return self.message end}

local function fail(format, ...)
  error(setmetatable({message = format:format(...)}, Wrong), 0)
end

--- The default of a number that must be `least` or more; others must be 0 or more.
---@param least number
---@param default number
function M.at_least(least, default) return {least = least, default = default} end

--- Options in order of their names: {name, default, least}.
local function described(defaults)
  local list = {}
  for name, v in pairs(defaults) do
    local spec = type(v) == "table" and v or {default = v, least = 0}
    list[#list + 1] = {name = name, default = spec.default, least = spec.least}
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

local function converted(option, text)
  local kind = math.type(option.default)
  if not kind then return text end
  local n = tonumber(text)
  if kind == "integer" then n = math.tointeger(n) end
  if not n or n < option.least or n ~= n or n == math.huge then
    fail("--%s is %q, expected %s of at least %s", option.name, text,
         kind == "integer" and "a whole number" or "a number", option.least)
  end
  return n
end

local function unknown(word, list)
  local names = {}
  for i, option in ipairs(list) do names[i] = "--" .. option.name end
  fail("there is no option %q; there are %s, --help", word, table.concat(names, ", "))
end

local function find(list, word)
  local name = word:match "^%-%-([%w_]+)$"
  for _, option in ipairs(list) do
    if option.name == name then return option end
  end
  unknown(word, list)
end

--- The comment that a script begins with, and its options with what they are unless given.
---@param path string of the script
---@param defaults table
---@return string
function M.help(path, defaults)
  local lines = {}
  for line in io.lines(path) do
    local text = line:match "^%-%-%-? ?(.*)$"
    if not text then break end
    lines[#lines + 1] = text
  end
  lines[#lines + 1] = ""
  for _, option in ipairs(described(defaults)) do
    lines[#lines + 1] = ("  --%-10s %s"):format(option.name, option.default or "(not set)")
  end
  return table.concat(lines, "\n")
end

--- The defaults, overwritten by what stands in `arg`. A default's type is the option's type: an integer, a
--- number, or text; false is text that may be left out. With --help among them the script ends here, well.
---@param defaults table<string, number|string|false|table>
---@param words string[]? instead of `arg`
---@return table<string, any>
function M.read(defaults, words)
  words = words or arg
  local options, list = {}, described(defaults)
  for _, option in ipairs(list) do options[option.name] = option.default end
  for i = 1, #words, 2 do
    if words[i] == "--help" or words[i] == "-h" then
      print(M.help(arg[0], defaults))
      os.exit(0, true)
    end
    local option = find(list, words[i])
    if not words[i + 1] then fail("the option --%s needs a value", option.name) end
    options[option.name] = converted(option, words[i + 1])
  end
  return options
end

return M
