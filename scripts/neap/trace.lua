--- Traced functions: one entry for each signature of inputs, used again only while all that the trace baked
--- in still holds: dtypes and shapes, modes of the modules used, and what the functions close over.
local core = require "neap.core"
local check = require "neap.check"
local module = require "neap.nn.module"

local M = {}

---@class neap.trace.Entry
---@field graph userdata
---@field n_outputs integer
---@field calls table
---@field snapshots table[]

--- Traces fn with these inputs.
---@param fn function
---@param what string who asks, for errors
---@return neap.trace.Entry
function M.trace(fn, what, ...)
  if not check.is_callable(fn) then
    check.fail("INVALID", "%s: got %s, expected a function", what, check.describe(fn))
  end
  local body = fn
  if type(fn) ~= "function" then
    local object = fn
    fn, body = function(...) return object(...) end, getmetatable(object).__call
  end
  local snapshots = {type(body) == "function" and core.snapshot(body) or nil}
  local calls, graph, n_outputs = module.listen(core.traced, fn, ...)
  for _, forward in ipairs(module.forwards(calls)) do snapshots[#snapshots + 1] = core.snapshot(forward) end
  local used = module.used(calls)
  for _, snapshot in ipairs(snapshots) do core.settle(snapshot, graph, used) end
  return {graph = graph, n_outputs = n_outputs, calls = calls, snapshots = snapshots}
end

local plain = {["nil"] = true, boolean = true, number = true, string = true}

local function refuse(name, old, new, where)
  if not (plain[type(old)] and plain[type(new)]) then
    check.fail("INVALID", "the variable %q held %s when the function at %s was traced and holds %s now; a trace keeps "
               .. "what it saw: pass it as an input instead, or write to the tensor with copy_", name,
               check.describe(old), where, rawequal(type(old), type(new)) and "another one" or check.describe(new))
  end
  check.fail("INVALID", "the variable %q was %s when the function at %s was traced and is %s now; a trace keeps the "
             .. "value it saw: pass it as an input instead", name, tostring(old), where, tostring(new))
end

--- Raises when a variable that the trace baked in has changed since. Takes no memory otherwise.
---@param entry neap.trace.Entry
function M.check(entry)
  for i = 1, #entry.snapshots do
    local name, old, new, where = core.changed(entry.snapshots[i])
    if name then refuse(name, old, new, where) end
  end
end

--- The entry for these inputs, brought to the front; nil when there is none. `key` names the field that
--- knows whether inputs match.
---@param entries table[]
---@param key string
---@return table?
function M.find(entries, key, ...)
  for i = 1, #entries do
    local entry = entries[i]
    if entry[key]:matches(...) and module.unchanged(entry.calls) then
      if i > 1 then
        table.move(entries, 1, i - 1, 2)
        entries[1] = entry
      end
      M.check(entry)
      return entry
    end
  end
end

--- Puts a new entry in front and lets the least recently used one go when there are more than `most`.
---@param entries table[]
---@param entry table
---@param most integer
function M.add(entries, entry, most)
  table.insert(entries, 1, entry)
  entries[most + 1] = nil
  return entry
end

return M
