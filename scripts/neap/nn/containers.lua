--- Modules that hold others for a forward of one's own to call.
local check = require "neap.check"
local module = require "neap.nn.module"

local M = {}

--- A list of modules for a forward of one's own: `list[1]`, `#list`, `ipairs(list)`, `list:append(module)`. Paths are
--- "1", "2", ... It cannot be called itself.
---@param modules? neap.Module[]
---@return neap.Module
M.ModuleList = module.module("ModuleList", {
  init = function(self, modules)
    check.value("nn.ModuleList", "the list of modules", modules or {}, {kind = "table"})
    if module.is_module(modules) then check.fail("INVALID", "nn.ModuleList: expected a list of modules in braces") end
    for _, m in ipairs(modules or {}) do self:append(m) end
  end,
  --- Adds a module at the end.
  append = function(self, m)
    if not module.is_module(m) then
      check.fail("INVALID", "nn.ModuleList: entry %d is %s, expected a module", #self + 1, check.describe(m))
    end
    self[tostring(#self + 1)] = m
    return self
  end,
}, true)

--- Modules by name for a forward of one's own: `dict.encoder`, `for name, module in dict:items()`. Names given as keys
--- are sorted; a list `{{"encoder", a}, ...}` keeps its order.
---@param modules? table<string, neap.Module>
---@return neap.Module
M.ModuleDict = module.module("ModuleDict", {
  init = function(self, modules)
    check.value("nn.ModuleDict", "the modules", modules or {}, {kind = "table"})
    if module.is_module(modules) then check.fail("INVALID", "nn.ModuleDict: expected modules by name in braces") end
    local pairs_of = {}
    for i, entry in ipairs(modules or {}) do pairs_of[i] = entry end
    if #pairs_of == 0 then
      for i, name in ipairs(check.sorted_keys(modules or {})) do pairs_of[i] = {name, modules[name]} end
    end
    for i, entry in ipairs(pairs_of) do
      if type(entry) ~= "table" or not module.is_module(entry[2]) then
        check.fail("INVALID", "nn.ModuleDict: entry %s is %s, expected a module",
                   type(entry) == "table" and check.describe(entry[1]) or i,
                   check.describe(type(entry) == "table" and entry[2] or entry))
      end
      self[entry[1]] = entry[2]
    end
  end,
  --- Names and modules, in order.
  items = function(self)
    local list, i = module.children(self), 0
    return function()
      i = i + 1
      if list[i] then return list[i].name, list[i].value end
    end
  end,
}, true)

return M
