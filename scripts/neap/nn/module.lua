--- Modules: parameters, buffers and child modules in order of assignment, under dotted paths.
---
--- All that is assigned to a module is kept apart in its state, so that every later assignment is seen, too.
--- Parameters are slots {shape, init, tensor}: drawn when the module is first used, because only then its
--- path from the root is known, which seeds the draw. Two names may share a slot (tied parameters).
local core = require "neap.core"
local check = require "neap.check"
local fill = require "neap.nn.fill"

local M = {}

local STATE = {} -- the key under which a module keeps its state

--- What is assigned to a module by name becomes part of it: parameters, buffers and child modules, in order of
--- assignment, under dotted paths (`block1.attn.qkv.bias`); other values are plain fields. A module is called as a
--- function. Parameters get their values when the module is first used.
---@class neap.Module
---@field package [table] table
---@operator call: any
local methods = {}

local slot_of = setmetatable({}, {__mode = "k"}) -- parameter tensor to its slot
local Slot = {__name = "neap.nn.parameter"}
local Buffer = {__name = "neap.nn.buffer"}

-- Counts what may make traced programs stale; compared before each run, so it is one number for all.
local modes = {serial = 0}

-- Who listens while a function is traced: a list of the modules called, or nil.
local listener = {}

--- Whether v is a module.
---@param v any
---@return boolean
function M.is_module(v)
  return type(v) == "table" and rawget(v, STATE) ~= nil
end

local function changed(state)
  state.version = state.version + 1
  modes.serial = modes.serial + 1
end

--- From here up to the root, something may be undrawn.
local function unfill(state)
  while state and state.filled do
    state.filled = false
    state = state.parent
  end
end

-- Names ------------------------------------------------------------------------------------------------

local function check_name(module, name)
  local class = getmetatable(module)
  if type(name) ~= "string" then
    check.fail("INVALID", "%s: a field's name is %s, expected a string", class.name, check.describe(name))
  end
  if class.methods[name] ~= nil then
    check.fail("INVALID", "%s: %q is a method; name the field otherwise", class.name, name)
  end
end

local function check_path_name(module, name)
  if name == "" or name:find("[./]") then
    check.fail("INVALID", "%s: %q names a parameter, buffer or module; it must not be empty or hold '.' or '/'",
               getmetatable(module).name, name)
  end
end

local function contains(module, other)
  if module == other then return true end
  for _, item in ipairs(module[STATE].order) do
    if item.kind == "child" and contains(item.value, other) then return true end
  end
  return false
end

-- Assignment -------------------------------------------------------------------------------------------

local function adopt(module, name, child)
  if contains(child, module) then
    check.fail("INVALID", "%s: the module %q would contain itself", getmetatable(module).name, name)
  end
  local state = child[STATE]
  if not state.parent then state.parent, state.name = module[STATE], name end
end

local function kind_of(v)
  if M.is_module(v) then return "child" end
  local mt = type(v) == "table" and getmetatable(v)
  if mt == Slot then return "parameter" end
  if mt == Buffer then return "buffer" end
  if slot_of[v] then return "parameter" end
  return "field"
end

local function refuse_list(module, name, v)
  if type(v) ~= "table" then return end
  for _, item in ipairs(v) do
    if kind_of(item) ~= "field" then
      check.fail("INVALID", "%s: the list %q holds modules or parameters, which would not be found there; assign "
                 .. "each to a name (self[\"block\" .. i] = ...) or use nn.Sequential", getmetatable(module).name, name)
    end
  end
end

local function find(state, name)
  for i, item in ipairs(state.order) do
    if item.name == name then return item, i end
  end
end

local function forget(state, name)
  local item, i = find(state, name)
  if not item then return end
  table.remove(state.order, i)
  if item.kind == "child" and item.value[STATE].parent == state then item.value[STATE].parent = nil end
end

local function enlist(module, name, kind, v)
  local state = module[STATE]
  check_path_name(module, name)
  if kind == "child" then adopt(module, name, v) end
  if kind == "parameter" then v = slot_of[v] or v end
  if kind == "buffer" then v = {tensor = v.tensor} end
  local item = find(state, name)
  if item and item.kind == "child" then forget(state, name); item = nil end
  if item then
    item.kind, item.value = kind, v
  else
    state.order[#state.order + 1] = {name = name, kind = kind, value = v}
  end
  state.fields[name] = nil
  state.index[name] = find(state, name)
  unfill(state)
end

local made_by = {parameter = "a parameter", buffer = "a tensor", child = "a module"}

--- What a name holds would otherwise be gone from parameters() and state() without a word.
local function refuse_replacement(module, name, held, v)
  if v == nil then return end
  check.fail("INVALID", "%s: %q is a %s; got %s, expected %s or nil%s", getmetatable(module).name, name,
             held.kind == "child" and "module" or held.kind, check.describe(v), made_by[held.kind],
             held.kind == "parameter" and " (copy_ and load_state change its values)" or "")
end

local function assign(module, name, v)
  local state = module[STATE]
  local held, kind = state.index[name], kind_of(v)
  if held and held.kind == "buffer" and check.is_tensor(v) then
    core.assign(held.value.tensor, v)
    return
  end
  check_name(module, name)
  if kind == "field" then
    refuse_list(module, name, v)
    if held then
      refuse_replacement(module, name, held, v)
      forget(state, name)
      state.index[name] = nil
    end
    state.fields[name] = v
  else
    enlist(module, name, kind, v)
  end
  changed(state)
end

-- Reading ----------------------------------------------------------------------------------------------

local function root_of(state)
  while state.parent do state = state.parent end
  return state
end

local function under_construction(state)
  while state do
    if state.constructing then return true end
    state = state.parent
  end
  return false
end

--- Draws every parameter of the tree that has none yet.
local function make_ready(state)
  if state.filled then return end
  local root = root_of(state).module
  -- Also when first met in the middle of a trace: values are drawn once, not traced.
  core.untraced(fill.draw, root, M.walk, slot_of)
  M.modules(root, function(_, module) module[STATE].filled = true end)
end

local function parameter(state, slot)
  if not slot.tensor then
    if under_construction(state) then return slot end
    make_ready(state)
  end
  -- A frozen parameter is a constant to the gradient.
  if slot.frozen and core.tracing() then return core.stop(slot.tensor) end
  return slot.tensor
end

local function read(module, name)
  local class = getmetatable(module)
  -- Lists of modules name them by position.
  if math.type(name) == "integer" then name = tostring(name) end
  local method, state, calls = class.methods[name], rawget(module, STATE), listener.calls
  if calls then calls.touched[state] = true end
  if method ~= nil then
    if calls then calls.methods[method] = true end
    return method
  end
  local item = state.index[name]
  if not item then return state.fields[name] end
  if item.kind == "parameter" then return parameter(state, item.value) end
  if item.kind == "buffer" then return item.value.tensor end
  return item.value
end

-- Walking ----------------------------------------------------------------------------------------------

local function join(prefix, name)
  return prefix == "" and name or prefix .. "." .. name
end

--- Calls visit(path, item, module) for every parameter and buffer in order; item is {name, kind, value}.
function M.walk(module, visit, prefix)
  prefix = prefix or ""
  for _, item in ipairs(module[STATE].order) do
    local path = join(prefix, item.name)
    if item.kind == "child" then M.walk(item.value, visit, path) else visit(path, item, module) end
  end
end

--- Calls visit(path, module) for a module and all below it, parents first.
function M.modules(module, visit, prefix)
  prefix = prefix or ""
  visit(prefix, module)
  for _, item in ipairs(module[STATE].order) do
    if item.kind == "child" then M.modules(item.value, visit, join(prefix, item.name)) end
  end
end

--- The modules right below one, in order: a list of {name, value}.
function M.children(module)
  local list = {}
  for _, item in ipairs(module[STATE].order) do
    if item.kind == "child" then list[#list + 1] = item end
  end
  return list
end

--- The parameters of a module that is ready: a list of {path, slot}, tied ones once, under their first path.
function M.slots(module)
  make_ready(module[STATE])
  local list, seen = {}, {}
  M.walk(module, function(path, item)
    if item.kind == "parameter" and not seen[item.value] then
      seen[item.value] = true
      list[#list + 1] = {path = path, slot = item.value}
    end
  end)
  return list
end

--- Everything that state() holds, not copied: a list of {path, tensor}.
function M.tensors(module)
  make_ready(module[STATE])
  local list = {}
  M.walk(module, function(path, item)
    list[#list + 1] = {path = path, tensor = item.value.tensor}
  end)
  return list
end

--- The path of a parameter tensor in its module, or nil.
---@param tensor neap.Tensor
---@return string?
function M.path_of(tensor)
  local slot = slot_of[tensor]
  return slot and slot.path
end

--- Whether a tensor is a parameter of a module, and frozen.
---@param tensor neap.Tensor
---@return boolean
function M.is_frozen(tensor)
  local slot = slot_of[tensor]
  return slot ~= nil and slot.frozen == true
end

local function path_of_module(state)
  local names = {}
  while state.parent do
    table.insert(names, 1, state.name)
    state = state.parent
  end
  return table.concat(names, ".")
end

-- Calling ----------------------------------------------------------------------------------------------

local function note_call(module, path)
  if not listener.calls then return {} end
  local note = {module = module, path = path}
  listener.calls[#listener.calls + 1] = note
  return note
end

local function call_traced(module, forward, ...)
  local path = path_of_module(module[STATE])
  local note, before = note_call(module, path), core.at(path)
  local results = table.pack(forward(module, ...))
  core.at(before)
  note.shape = check.is_tensor(results[1]) and results[1].shape or nil
  return table.unpack(results, 1, results.n)
end

local function call(module, ...)
  local class, state = getmetatable(module), module[STATE]
  if not class.forward then
    check.fail("INVALID", "nn.module %q has no forward, so it cannot be called", class.name)
  end
  make_ready(state)
  if core.tracing() then return call_traced(module, class.forward, ...) end
  return class.forward(module, ...)
end

-- What traces need -------------------------------------------------------------------------------------

--- Runs fn while every module call is written down. Returns the calls, a list of {module, path, shape} with two more
--- fields, and fn's results. states: list of {state, training, version} of the modules that were called or looked into;
--- methods: a set.
---@param fn function
---@return table calls
function M.listen(fn, ...)
  local before, calls = listener.calls, {touched = {}, methods = {}, states = {}}
  listener.calls = calls
  local results = table.pack(check.finally(function() listener.calls = before end, fn, ...))
  for _, c in ipairs(calls) do calls.touched[c.module[STATE]] = true end
  for state in pairs(calls.touched) do
    calls.states[#calls.states + 1] = {state = state, training = state.training, version = state.version}
  end
  return calls, table.unpack(results, 1, results.n)
end

--- The functions that ran below the one traced, each once: forwards of classes that a script defined, and
--- functions used as layers, and methods that they called.
---@param calls table
---@return function[]
function M.forwards(calls)
  local list, seen = {}, {}
  for _, c in ipairs(calls) do
    local class = getmetatable(c.module)
    local fn = class.forward
    if class.builtin then fn = c.module[STATE].fields.fn end
    if type(fn) == "function" and not seen[fn] then
      seen[fn] = true
      list[#list + 1] = fn
    end
  end
  for method in pairs(calls.methods) do
    if not seen[method] then list[#list + 1] = method end
  end
  return list
end

--- The set of modules that were called or looked into.
---@param calls table
---@return table<neap.Module, boolean>
function M.used(calls)
  local set = {}
  for state in pairs(calls.touched) do set[state.module] = true end
  return set
end

--- Whether modules are as they were when `calls` was written down. Cheap while no module changed at all.
---@param calls table
---@return boolean
function M.unchanged(calls)
  if calls.serial == modes.serial then return true end
  for _, s in ipairs(calls.states) do
    if s.state.training ~= s.training or s.state.version ~= s.version then return false end
  end
  calls.serial = modes.serial
  return true
end

-- Classes ----------------------------------------------------------------------------------------------

--- A class of modules of one's own. What the constructor it returns is called with goes to `init`, what a module is
--- called with to `forward`. Other functions in the definition become methods.
---@param name string
---@param definition table<string, function> init(self, ...), forward(self, ...) and methods
---@return fun(...): neap.Module constructor
function M.module(name, definition, builtin) -- builtin: its forward refers to nothing that can change
  check.value("nn.module", "the name", name, {kind = "string"})
  check.value("nn.module", "the definition", definition, {kind = "table"})
  local class = {__name = "neap.nn." .. name, name = name, methods = setmetatable({}, {__index = methods})}
  for key, v in pairs(definition) do
    if type(key) ~= "string" or type(v) ~= "function" then
      check.fail("INVALID", "nn.module %q: %s is %s; a definition holds functions by name", name, tostring(key),
                 check.describe(v))
    end
    if key ~= "init" and key ~= "forward" then
      if methods[key] then check.fail("INVALID", "nn.module %q: %q is a method of every module", name, key) end
      class.methods[key] = v
    end
  end
  class.forward, class.builtin = definition.forward, builtin
  class.methods.forward = definition.forward
  class.__index, class.__newindex, class.__call = read, assign, call
  class.__len = function(module) return #M.children(module) end
  class.__tostring = function(module) return require("neap.nn.summary").outline(module, M) end

  return function(...)
    local state = {order = {}, index = {}, fields = {}, training = true, version = 0, filled = true}
    local module = setmetatable({[STATE] = state}, class)
    state.module = module
    if definition.init then
      state.constructing = true
      definition.init(module, ...)
      state.constructing = nil
    end
    return module
  end
end

---@class neap.nn.ParameterOptions
---@field shape integer[]|integer
---@field init? string|table|number|neap.Tensor|function the first values (default "kaiming_uniform")
---@field fan_in? integer entries that feed one output, for rules that ask; from the shape when left out
---@field dtype? "fp32"|"fp64" (default "fp32")

--- A parameter to assign to a field of a module: it is trained. Its first values are drawn when the module is first
--- used, seeded by its path, so that adding a layer does not change the others. `init` is a rule of `nn.init` by
--- name or with options, `{"xavier_uniform", gain = 2}`; a number; a tensor; or a function of the shape, which returns
--- one.
---@param options neap.nn.ParameterOptions
---@return any # what to assign; the field then reads as a tensor
function M.parameter(options)
  return setmetatable(fill.slot(options), Slot)
end

--- State to assign to a field of a module: it is saved but not trained. Assigning a tensor to the field later writes
--- to it; in what is compiled, differentiated or trained the write happens when a call has run to its end, and of an
--- update when it commits.
---@param tensor neap.Tensor
---@return any # what to assign; the field then reads as the tensor
function M.buffer(tensor)
  if not check.is_tensor(tensor) then
    check.fail("INVALID", "nn.buffer: got %s, expected a tensor", check.describe(tensor))
  end
  return setmetatable({tensor = tensor}, Buffer)
end

--- The class name of a module.
function M.class_of(module)
  return getmetatable(module).name
end

--- Whether a module is in training mode; one whose own parameters are all frozen is not.
---@param module neap.Module
---@return boolean
function M.is_training(module)
  local state = module[STATE]
  return state.training and not state.frozen
end

M.methods, M.STATE, M.changed = methods, STATE, changed

return M
