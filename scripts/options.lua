--- Options of the runnable scripts: `script.lua --steps 200 --out last.h5`.
---   local options = require("scripts.options").read {steps = 2000, rate = 3e-4, out = "gpt.h5", resume = false}
local M = {}

local function converted(name, text, like)
  local kind = math.type(like)
  if not kind then return text end
  local n = tonumber(text)
  if kind == "integer" then n = math.tointeger(n) end
  if not n or n < 0 or n ~= n then
    error(("--%s is %q, expected %s"):format(name, text,
      kind == "integer" and "a whole number of at least 0" or "a number of at least 0"), 0)
  end
  return n
end

local function known(defaults)
  local names = {}
  for name in pairs(defaults) do names[#names + 1] = "--" .. name end
  table.sort(names)
  return table.concat(names, ", ")
end

--- The defaults, overwritten by what stands in `arg`. A default's type is the option's type: an integer, a
--- number, or text; false is text that may be left out.
---@param defaults table<string, number|string|false>
---@param words string[]? instead of `arg`
---@return table<string, any>
function M.read(defaults, words)
  words = words or arg
  local options = {}
  for name, v in pairs(defaults) do options[name] = v end
  for i = 1, #words, 2 do
    local name = words[i]:match "^%-%-([%w_]+)$"
    if not name or defaults[name] == nil then
      error(("there is no option %q; there are %s"):format(words[i], known(defaults)), 0)
    end
    if not words[i + 1] then error(("the option --%s needs a value"):format(name), 0) end
    options[name] = converted(name, words[i + 1], defaults[name])
  end
  return options
end

return M
