--- neap.compile, and functions that compute gradients.
local core = require "neap.core"
local check = require "neap.check"
local trace = require "neap.trace"

local M = {}

--- A traced function. Call it as the function.
---@class neap.Program
---@operator call: any
local Program = {__name = "neap.program"}
Program.__index = Program

local KEPT <const> = 8 -- signatures, unless options.cache says otherwise

local function entry_of(self, ...)
  local entry = trace.find(self.entries, "program", ...)
  if entry then return entry end
  entry = trace.trace(self.fn, "neap.compile", ...)
  if self.pure then entry.graph:pure(self.pure) end
  entry.program = core.program(entry.graph)
  return trace.add(self.entries, entry, self.cache)
end

function Program:__call(...)
  if core.tracing() then return self.fn(...) end
  return entry_of(self, ...).program(...)
end

--- Bytes by kind, known without running: `{parameters =, gradients =, optimizer =, activations =, workspace =,
--- peak =}`. With inputs, of their signature; without, of the one used last.
---@param ... neap.Tensor|number
---@return table<string, integer>
function Program:memory(...)
  if select("#", ...) > 0 then return entry_of(self, ...).program:memory() end
  if not self.entries[1] then
    check.fail("INVALID", "program:memory(): nothing was traced yet; give inputs, or call the program first")
  end
  return self.entries[1].program:memory()
end

--- What the program computes, in order: a list of `{id =, op =, path = (of the module), where = (the line of the
--- script), bytes = (of the result), cost = (floating-point operations)}`.
---@param ... neap.Tensor|number
---@return table[]
function Program:nodes(...)
  if select("#", ...) == 0 and not self.entries[1] then
    check.fail("INVALID", "program:nodes(): nothing was traced yet; give inputs, or call the program first")
  end
  local entry = select("#", ...) > 0 and entry_of(self, ...) or self.entries[1]
  return entry.program:nodes()
end

--- Makes a program of a function of tensors and numbers. It is traced once for each signature of inputs.
---
--- A trace keeps what it saw. When what it kept has changed, the next call raises and names the variable: numbers,
--- strings, booleans and functions in local variables outside of fn (and of the functions and methods that it calls),
--- and the tensors and modules that it used, in such variables, in tables there (two levels deep) and in globals.
--- A module whose fields, modes or frozen parameters changed is traced anew. Not noticed are numbers and functions
--- that fn reads from tables or globals, tensors that lie deeper, and what metamethods compute: pass those as inputs.
---
--- What it assigns to tensors (neap.assign, buffers of modules) is written when a call has computed all else: a call
--- that fails has written nothing.
---@param fn function|neap.Module of tensors and numbers
---@param options? {cache: integer} how many signatures are kept; the least recently used goes (default {cache = 8})
---@return neap.Program
function M.compile(fn, options)
  if not check.is_callable(fn) then
    check.fail("INVALID", "neap.compile: got %s, expected a function", check.describe(fn))
  end
  local o = check.options("neap.compile", options, {cache = {kind = "integer", min = 1, default = KEPT}})
  return setmetatable({fn = fn, entries = {}, cache = o.cache}, Program)
end

--- A program that may write to no tensor; `who` is named when it would.
---@param who string
---@param fn function
---@return neap.Program
function M.pure(who, fn)
  local program = M.compile(fn)
  program.pure = who
  return program
end

--- The list of gradients by their keys. `holes`: the length of their list, where keys are positions.
local function by_key(list, keys, holes)
  local gradients = {}
  for i = 1, holes or 0 do gradients[i] = false end
  for i, key in ipairs(keys) do gradients[key] = list[i] end
  return gradients
end

local function split(entry, ...)
  local results, n = table.pack(...), entry.n_outputs
  local list = table.move(results, n + 1, n + #entry.keys, 1, {})
  return results[1], by_key(list, entry.keys, entry.holes), table.unpack(results, 2, n)
end

local function keyed(keys, holes, list, value, ...)
  return value, by_key(list, keys, holes), ...
end

--- Inside a trace fn is called on the spot, and its gradients are values of the same graph. They are derivatives of
--- what happens inside of fn, by inputs of its own: all else that it refers to is constant to them, but not to a
--- derivative taken outside.
local function nested(fn, targets, ...)
  local inputs = table.pack(core.variables(...))
  local results = table.pack(fn(table.unpack(inputs, 2, inputs.n)))
  local wanted, keys, holes = targets(...)
  local by = wanted.tensors or {}
  for i, position in ipairs(wanted.inputs or {}) do by[i] = inputs[1 + position] end
  return keyed(keys, holes, core.derivatives(inputs[1], by, table.unpack(results, 1, results.n)))
end

--- The batch of inputs: their first dimension, if all that have dimensions agree in it; else nil. Sums over it are
--- taken in the order in which an update takes them.
local function batch_of(...)
  local dims, size = {}, nil
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    local n = check.is_tensor(v) and v.shape[1]
    if n and size and n ~= size then return nil end
    dims[i], size = n and 1 or false, n or size
  end
  return size and dims
end

--- A function that computes fn's first result and its gradients.
---@param fn function
---@package
---@param what string who asks, for errors
---@param targets fun(...): table, any[], integer? what graph:differentiate takes, the gradients' keys, their number
---@return function
function M.gradients(fn, what, targets)
  if not check.is_callable(fn) then
    check.fail("INVALID", "%s: got %s, expected a function", what, check.describe(fn))
  end
  local entries = {}
  return function(...)
    if core.tracing() then return nested(fn, targets, ...) end
    local entry = trace.find(entries, "program", ...)
    if not entry then
      entry = trace.trace(fn, what, ...)
      local wanted, keys, holes = targets(...)
      entry.graph:differentiate(wanted)
      entry.keys, entry.holes = keys, holes
      entry.program = core.program(entry.graph, {batch_dims = batch_of(...)})
      trace.add(entries, entry, KEPT)
    end
    return split(entry, entry.program(...))
  end
end

local floats = {fp32 = true, fp64 = true, fp16 = true, bf16 = true}

--- A function that computes fn's value and the gradients of its inputs. It is traced as `neap.compile` says. It may be
--- called inside of another such function, of a program and of an update's loss, to any depth: gradients are
--- differentiated like all else. Such a call counts what happens in fn alone; other values that fn refers to are
--- constants to it. An input of integers has false for a gradient.
---@param fn fun(...): neap.Tensor, ... returns the value to differentiate, one number, then others
---@return fun(...): neap.Tensor, table, ... # the value, the list of gradients, fn's other results
function M.value_and_grad(fn)
  return M.gradients(fn, "neap.value_and_grad", function(...)
    local positions, n = {}, select("#", ...)
    for i = 1, n do
      local v = select(i, ...)
      if type(v) == "number" or floats[v.dtype] then positions[#positions + 1] = i end
    end
    return {inputs = positions}, positions, n
  end)
end

return M
