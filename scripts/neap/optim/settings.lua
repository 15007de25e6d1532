--- Settings of optimizers and of their groups: checks, and what of them the engine is told.
local check = require "neap.check"

local M = {}

local fraction = {kind = "number", min = 0, below = 1}

--- Raises unless v is a value for the setting.
---@param what string
---@param kind table of neap.optim.kinds
---@param name string
---@param v any
function M.check(what, kind, name, v)
  local spec = kind.specs[name]
  check.value(what, name, v, spec)
  if spec.kind == "number" and v == math.huge then
    check.fail("INVALID", "%s: %s is infinite, expected a finite number", what, name)
  end
  if name == "betas" then
    if #v ~= 2 then check.fail("INVALID", "%s: betas has %d entries, expected 2", what, #v) end
    for i = 1, 2 do check.value(what, ("betas[%d]"):format(i), v[i], fraction) end
  end
end

local function check_known(what, kind, options, also)
  for name in pairs(options) do
    if type(name) ~= "string" or not kind.specs[name] and not also[name] then
      local known = check.sorted_keys(kind.specs)
      for _, extra in ipairs(check.sorted_keys(also)) do known[#known + 1] = extra end
      check.fail("INVALID", "%s: there is no option %q; options are %s", what, tostring(name),
                 table.concat(known, ", "))
    end
  end
end

--- A group's own setting, or the optimizer's.
function M.of(optimizer, group, name)
  local v = group[name]
  if v == nil then v = optimizer[name] end
  return v
end

--- Raises where settings that are right by themselves do not go together.
function M.check_together(optimizer, group, what)
  if not M.of(optimizer, group, "nesterov") then return end
  if M.of(optimizer, group, "momentum") == 0 or M.of(optimizer, group, "dampening") ~= 0 then
    check.fail("INVALID", "%s: nesterov needs a momentum above 0 and no dampening", what)
  end
end

--- Lists are the optimizer's own, since schedules write to them.
local function own(v)
  return type(v) == "table" and not check.is_tensor(v) and {table.unpack(v)} or v
end

--- Takes the settings from a constructor's options, defaults where there are none.
function M.read(optimizer, what, kind, options)
  check_known(what, kind, options, {params = true, groups = true})
  for _, name in ipairs(check.sorted_keys(kind.specs)) do
    local v = options[name]
    if v == nil then v = kind.defaults[name] end
    if v == nil and kind.required[name] then check.fail("INVALID", "%s: the option %q is missing", what, name) end
    v = own(v)
    M.check(what, kind, name, v)
    optimizer[name] = v
  end
end

--- The settings of a group as it was given.
---@return table
function M.read_group(optimizer, what, kind, given)
  check.value(what, "a group", given, {kind = "table"})
  check_known(what, kind, given, {params = true})
  local group = {}
  for name, v in pairs(given) do
    if name ~= "params" then
      v = own(v)
      M.check(what, kind, name, v)
      group[name] = v
    end
  end
  M.check_together(optimizer, group, what)
  return group
end

--- All settings of a group, its own and the optimizer's.
---@return table
function M.all(optimizer, group, kind)
  local all = {}
  for name in pairs(kind.specs) do all[name] = M.of(optimizer, group, name) end
  return all
end

--- The same by the engine's names.
---@return table
function M.for_core(optimizer, group, kind)
  local all = M.all(optimizer, group, kind)
  all.decoupled = kind.decoupled or all.decoupled_weight_decay or false
  all.decoupled_weight_decay = nil
  return all
end

--- What the engine was told, to find changes without making a table.
---@return table
function M.sent(optimizer, group, kind)
  local sent = M.all(optimizer, group, kind)
  local betas = sent.betas
  if betas then sent.betas, sent.beta1, sent.beta2 = nil, betas[1], betas[2] end
  return sent
end

--- Whether anything but lr is other than what was sent.
---@return boolean
function M.differ(optimizer, group, sent, specs)
  for name in next, specs do
    local v = M.of(optimizer, group, name)
    if name == "betas" then
      if type(v) ~= "table" or v[1] ~= sent.beta1 or v[2] ~= sent.beta2 then return true end
    elseif name ~= "lr" and v ~= sent[name] then
      return true
    end
  end
  return false
end

return M
