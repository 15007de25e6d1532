--- Checks of what callers pass, and errors that name the thing, its value and what was expected.
local core = require "neap.core"

local M = {}

--- Raises an error object, which knows the script's line.
---@param code string
---@param format string
function M.fail(code, format, ...)
  error(core.error(code, format:format(...)), 0)
end

--- A value in words, for messages.
---@param v any
---@return string
function M.describe(v)
  local kind = type(v)
  if kind == "string" then return ("the string %q"):format(#v > 40 and v:sub(1, 37) .. "..." or v) end
  if kind == "number" or kind == "boolean" then return "the " .. kind .. " " .. tostring(v) end
  if kind == "nil" then return "nil" end
  if M.is_tensor(v) then return ("a tensor %s"):format(M.shape_text(v.shape)) end
  return "a " .. kind
end

--- "[8, 1, 28, 28]"
---@param shape integer[]
---@return string
function M.shape_text(shape)
  return "[" .. table.concat(shape, ", ") .. "]"
end

---@param v any
---@return boolean
function M.is_tensor(v)
  if type(v) ~= "userdata" then return false end
  local mt = getmetatable(v)
  return mt == "neap.tensor" or type(mt) == "table" and mt.__name == "neap.tensor"
end

---@param v any
---@return boolean
function M.is_callable(v)
  if type(v) == "function" then return true end
  local mt = getmetatable(v)
  return type(mt) == "table" and mt.__call ~= nil
end

local function is_integer(v)
  return math.type(v) == "integer" or type(v) == "number" and math.tointeger(v) ~= nil
end

local function run_and_end(last, fn, ...)
  local _ <close> = setmetatable({}, {__close = last})
  return fn(...)
end

local function raise_or_return(ok, ...)
  if not ok then error((...), 0) end
  return ...
end

--- Calls fn(...) and then last(), also after an error, whose traceback stays whole. But an error that ends a coroutine
--- leaves its stack as it is, with nothing closed: there it is caught and raised again.
---@param last function
---@param fn function
---@return any ... what fn returned
function M.finally(last, fn, ...)
  if core.in_coroutine() then return raise_or_return(pcall(run_and_end, last, fn, ...)) end
  return run_and_end(last, fn, ...)
end

local kinds = {
  number = function(v) return type(v) == "number" and v == v end,
  integer = is_integer,
  boolean = function(v) return type(v) == "boolean" end,
  string = function(v) return type(v) == "string" end,
  table = function(v) return type(v) == "table" end,
  callable = M.is_callable,
  tensor = M.is_tensor,
  any = function() return true end,
}

--- "a number" but "an integer", "a tensor".
local function expected(spec)
  local text = (spec.kind == "integer" and "an " or "a ") .. spec.kind
  if spec.kind == "callable" then text = "a function" end
  if spec.min and spec.max then return ("%s from %s to %s"):format(text, spec.min, spec.max) end
  if spec.min then return ("%s of at least %s"):format(text, spec.min) end
  if spec.above then return ("%s above %s"):format(text, spec.above) end
  return text
end

local function in_range(v, spec)
  if spec.min and v < spec.min or spec.max and v > spec.max or spec.above and v <= spec.above then return false end
  return spec.below == nil or v < spec.below
end

--- Checks one value against {kind=, min=, max=, above=, below=} and returns it, integers as such.
---@param what string "nn.Linear" or another name of who asks
---@param name string
---@param v any
---@param spec table
---@return any
function M.value(what, name, v, spec)
  local fits = kinds[spec.kind](v)
  if not fits or type(v) == "number" and not in_range(v, spec) then
    M.fail("INVALID", "%s: %s is %s, expected %s", what, name, M.describe(v), expected(spec))
  end
  return spec.kind == "integer" and math.tointeger(v) or v
end

--- Raises unless v is a tensor that `target` can take by copy_: open, of its shape and dtype, and not in use by an
--- unfinished update.
---@param what string
---@param name string
---@param v any
---@param target neap.Tensor
function M.fits(what, name, v, target)
  if not M.is_tensor(v) then
    M.fail("INVALID", "%s: %s is %s, expected a tensor", what, name, M.describe(v))
  end
  if M.shape_text(v.shape) ~= M.shape_text(target.shape) or v.dtype ~= target.dtype then
    M.fail(v.dtype == target.dtype and "SHAPE" or "DTYPE", "%s: %s is %s %s, expected %s %s", what, name, v.dtype,
           M.shape_text(v.shape), target.dtype, M.shape_text(target.shape))
  end
  for _, t in ipairs {v, target} do
    if not pcall(t.detach, t) then
      M.fail("CLOSED", "%s: %s was closed%s", what, name, rawequal(t, target) and " where it would go" or "")
    end
  end
  core.writable(target, what)
end

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = tostring(key) end
  table.sort(keys)
  return keys
end

--- Checks a table of options: every name known, every value of its kind and in its range, defaults filled
--- in. Returns a new table.
---@param what string
---@param given table?
---@param specs table<string, table> name to {kind=, default=, required=, min=, max=, above=, below=}
---@return table
function M.options(what, given, specs)
  if given == nil then given = {} end
  if type(given) ~= "table" or M.is_tensor(given) then
    local names = sorted_keys(specs)
    M.fail("INVALID", "%s: options are %s, expected a table%s", what, M.describe(given),
           #names > 0 and " {" .. table.concat(names, " =, ") .. " =}" or "")
  end
  for name in pairs(given) do
    if specs[name] == nil then
      M.fail("INVALID", "%s: there is no option %q; options are %s", what, tostring(name),
             table.concat(sorted_keys(specs), ", "))
    end
  end
  local out = {}
  for _, name in ipairs(sorted_keys(specs)) do
    local spec, v = specs[name], given[name]
    if v == nil then
      if spec.required then M.fail("INVALID", "%s: the option %q is missing", what, name) end
      out[name] = spec.default
    else
      out[name] = M.value(what, name, v, spec)
    end
  end
  return out
end

M.sorted_keys = sorted_keys

return M
