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

--- Parameters a module holds itself, without those of its children.
local function own(m, module)
  local count, bytes = 0, 0
  for _, item in ipairs(m[module.STATE].order) do
    if item.kind == "parameter" then
      local n = item.value.tensor:numel()
      count, bytes = count + n, bytes + n * (item.value.dtype == "fp64" and 8 or 4)
    end
  end
  return count, bytes
end

local function shapes_by_module(m, shape, module)
  local calls = module.listen(function()
    return core.trace(function(x) return m(x) end, shape)
  end)
  local shapes = {}
  for _, c in ipairs(calls) do
    if c.shape then shapes[c.module] = check.shape_text(c.shape) end
  end
  return shapes
end

--- A table of layers, output shapes, parameters and bytes.
---@param m neap.Module
---@param shape table of the input, with the batch: {8, 64}, with a `dtype` when it is not fp32
---@param module table neap.nn.module
---@return string
function M.table(m, shape, module)
  check.value("summary", "the input's shape", shape, {kind = "table"})
  module.slots(m)
  local shapes = shapes_by_module(m, shape, module)
  local rows, total, total_bytes = {{"layer", "output", "parameters", "bytes"}}, 0, 0
  module.modules(m, function(path, child)
    local count, bytes = own(child, module)
    total, total_bytes = total + count, total_bytes + bytes
    local name = (path == "" and "" or path .. ": ") .. module.class_of(child)
    rows[#rows + 1] = {name, shapes[child] or "-", report.count(count), report.bytes(bytes)}
  end)
  rows[#rows + 1] = {"total", "", report.count(total), report.bytes(total_bytes)}
  return report.columns(rows)
end

return M
