--- What scripts can reach from `require "neap"`, found by looking: functions by name, and methods by class.
local neap = require "neap"

local M = {}

---@class reference.Public
---@field name string "neap.data.loader"
---@field value any
---@field op boolean a function of the engine's that takes tensors; the page of ops tells of it

-- Loaded when they are first named.
local lazy = {"nn", "optim", "data", "policy", "action", "trainer", "update", "group", "custom", "einsum",
                  "meshgrid"}

local function add_table(list, prefix, t, seen)
  if seen[t] then return end
  seen[t] = true
  for key, v in pairs(t) do
    if type(key) == "string" then
      local name = prefix .. "." .. key
      list[#list + 1] = {name = name, value = v}
      -- Plain tables are name spaces; actions and such have metatables.
      if type(v) == "table" and not getmetatable(v) then add_table(list, name, v, seen) end
    end
  end
end

--- Everything by name, sorted.
---@return reference.Public[]
function M.names()
  for _, name in ipairs(lazy) do assert(neap[name], name) end
  local list = {}
  add_table(list, "neap", neap, {})
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

--- Where a Lua function is written: "scripts/neap/data/loader.lua:32"; nil for those of the engine.
function M.place(v)
  if type(v) ~= "function" then return nil end
  local info = debug.getinfo(v, "S")
  local module = info.source:match "^=(neap[%w_.]*)$"
  if not module then return nil end
  local base = "scripts/" .. module:gsub("%.", "/")
  local path = io.open(base .. ".lua") and base .. ".lua" or base .. "/init.lua"
  return ("%s:%d"):format(path, info.linedefined), path, info.linedefined
end

--- Whether a function is the engine's own.
function M.is_engine(v)
  return type(v) == "function" and debug.getinfo(v, "S").what == "C"
end

-- Methods ----------------------------------------------------------------------------------------------

local function methods_of(list, class, t)
  for name, v in pairs(t) do
    if type(name) == "string" and type(v) == "function" and not name:find "^__" then
      list[#list + 1] = {class = class, name = name, value = v}
    end
  end
end

--- An event of memory that is short, as a policy sees it.
local function some_oom(model, optimizer)
  local seen
  local update = neap.update {
    loss = function(x) return model(x):sum() end, optimizer = optimizer,
    policy = function(oom) seen = oom end,
  }
  local x = neap.zeros(1 << 16, 4)
  neap.set_memory_limit(neap.memory().reserved + 4096)
  pcall(update, x)
  neap.set_memory_limit(nil)
  return assert(seen, "no policy was asked"), update
end

--- One object of each class whose methods scripts may call.
local function objects()
  local x = neap.zeros(8, 4)
  local model = neap.nn.Linear(4, 64)
  local optimizer = neap.optim.sgd {params = model:parameters(), lr = 0.1}
  local loader = neap.data.loader {dataset = neap.data.tensors {x = x, y = x}}
  local oom, update = some_oom(model, optimizer)
  return {
    ["neap.Module"] = model, ["neap.Optimizer"] = optimizer, ["neap.Loader"] = loader, ["neap.OOM"] = oom,
    ["neap.Update"] = update, ["neap.Group"] = neap.group {update}, ["neap.Program"] = neap.compile(function() end),
    ["neap.Schedule"] = neap.optim.schedule.step {every = 1}, ["neap.Action"] = neap.action.retry,
    ["neap.Trainer"] = neap.trainer {
      model = model, loss = neap.mse_loss, loader = loader, optimizer = neap.optim.sgd {lr = 0.1},
    },
  }
end

--- Objects of the engine's, whose metatables are closed to scripts but not to the debug library.
local function engine_objects()
  local path = os.tmpname()
  assert(neap.save(path, {x = neap.zeros(2)}))
  local file = assert(neap.hdf5.open(path))
  os.remove(path)
  return {
    ["neap.Tensor"] = neap.zeros(2), ["neap.Generator"] = neap.generator {seed = 1}, ["neap.hdf5.File"] = file,
    ["neap.hdf5.Dataset"] = file:dataset "x",
  }
end

--- Ops are methods of tensors, too, and have a page of their own.
local function without_ops(t)
  local rest = {}
  for name, v in pairs(t) do
    if not rawget(neap, name) then rest[name] = v end
  end
  return rest
end

--- Methods of all classes: {class, name, value}.
---@return {class: string, name: string, value: function}[]
function M.methods()
  local list = {}
  for class, object in pairs(objects()) do
    local methods = class == "neap.Module" and require("neap.nn.module").methods or getmetatable(object).__index
    methods_of(list, class, methods)
  end
  for class, object in pairs(engine_objects()) do
    local methods = debug.getmetatable(object).__index
    if type(methods) == "function" then methods = select(2, debug.getupvalue(methods, 1)) end
    methods_of(list, class, without_ops(methods))
  end
  table.sort(list, function(a, b) return a.class .. a.name < b.class .. b.name end)
  return list
end

return M
