--- Modules as text.
local core = require "neap.core"
local check = require "neap.check"
local report = require "neap.report"

local M = {}

--- "Sequential" with a line for each child, nested.
---@param m neap.Module
---@param module table neap.nn.module
---@return string
function M.outline(m, module)
  local lines = {}
  module.modules(m, function(path, child)
    local depth = select(2, path:gsub("%.", "")) + (path == "" and 0 or 1)
    local name = path:match("[^.]*$")
    lines[#lines + 1] = ("  "):rep(depth) .. (name == "" and "" or name .. ": ") .. module.class_of(child)
  end)
  return table.concat(lines, "\n")
end

--- Parameters a module holds itself, without those of its children and those counted before (tied ones).
local function own(m, module, seen)
  local n = {count = 0, bytes = 0, frozen = 0}
  for _, item in ipairs(m[module.STATE].order) do
    local slot = item.value
    if item.kind == "parameter" and not seen[slot] then
      local count = slot.tensor:numel()
      seen[slot] = true
      n.count, n.bytes = n.count + count, n.bytes + count * (slot.dtype == "fp64" and 8 or 4)
      if slot.frozen then n.frozen = n.frozen + count end
    end
  end
  return n
end

local function shapes_by_module(m, module, ...)
  local inputs = table.pack(...)
  local calls = module.listen(function()
    return core.traced(function(...) return m(...) end, table.unpack(inputs, 1, inputs.n))
  end)
  local shapes = {}
  for _, c in ipairs(calls) do
    if c.shape then shapes[c.module] = check.shape_text(c.shape) end
  end
  return shapes
end

--- A table of layers, output shapes, parameters and bytes.
---@param m neap.Module
---@param module table neap.nn.module
---@param ... table shapes of the inputs, with the batch: {8, 64}, with a `dtype` when it is not fp32
---@return string
function M.table(m, module, ...)
  for i = 1, math.max(1, select("#", ...)) do
    check.value("summary", i == 1 and "the input's shape" or ("the shape of input %d"):format(i), (select(i, ...)),
                {kind = "table"})
  end
  module.slots(m)
  local shapes, seen = shapes_by_module(m, module, ...), {}
  local rows, total, bytes, frozen = {{"layer", "output", "parameters", "bytes"}}, 0, 0, 0
  module.modules(m, function(path, child)
    local n = own(child, module, seen)
    total, bytes, frozen = total + n.count, bytes + n.bytes, frozen + n.frozen
    local name = (path == "" and "" or path .. ": ") .. module.class_of(child)
    local held = n.count > 0
    rows[#rows + 1] = {name, shapes[child] or "-", held and report.count(n.count) or "-",
                       held and report.bytes(n.bytes) or "-"}
  end)
  rows[#rows + 1] = {"total", "", report.count(total), report.bytes(bytes)}
  if frozen > 0 then rows[#rows + 1] = {"of which frozen", "", report.count(frozen), ""} end
  return report.columns(rows)
end

return M
