--- Numbers for people: bytes in human units, the memory table, the lines of progress.
local core = require "neap.core"

local M = {}

--- 67108864 as "64.0 MiB".
---@param bytes number
---@return string
function M.bytes(bytes)
  return core.format_bytes(math.max(0, bytes))
end

--- 1234567 as "1,234,567".
---@param n number
---@return string
function M.count(n)
  local text = ("%d"):format(n // 1)
  local grouped = text:reverse():gsub("(%d%d%d)", "%1,"):reverse()
  return (grouped:gsub("^(-?),", "%1"))
end

--- Columns under one another; the first is left-aligned, the others right.
---@param rows string[][]
---@return string
function M.columns(rows)
  local width = {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do width[i] = math.max(width[i] or 0, #cell) end
  end
  local lines = {}
  for _, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do
      local space = (" "):rep(width[i] - #cell)
      cells[i] = i == 1 and cell .. space or space .. cell
    end
    lines[#lines + 1] = (table.concat(cells, "  "):gsub("%s+$", ""))
  end
  return table.concat(lines, "\n")
end

local function head(memory)
  local text = ("memory of %s: %s in use, peak %s"):format(core.device(), M.bytes(memory.in_use), M.bytes(memory.peak))
  if memory.budget then text = text .. ", budget " .. M.bytes(memory.budget) end
  return text
end

local function owners(memory)
  local rows = {{"owner", "bytes", "share"}}
  for _, holder in ipairs(core.memory_holders()) do
    if holder.bytes > 0 then
      local share = memory.in_use > 0 and 100 * holder.bytes / memory.in_use or 0
      rows[#rows + 1] = {holder.owner, M.bytes(holder.bytes), ("%.0f%%"):format(share)}
    end
  end
  if memory.budget then
    local free = math.max(0, memory.budget - memory.in_use)
    rows[#rows + 1] = {"free", M.bytes(free), ""}
  end
  return M.columns(rows)
end

local function fits(memory)
  if not memory.budget then return "no budget is set: what fits is what the device has" end
  local room = math.max(0, math.min(memory.largest_free, memory.budget - memory.in_use))
  local floats = room // 4
  return ("would fit in one piece: %s, a tensor of %s fp32 numbers"):format(M.bytes(room), M.count(floats))
end

--- Who holds the memory, what is free and what would fit, as text: the first thing to print when a run is short of it.
---@return string
function M.memory_summary()
  local memory = core.memory()
  local lines = {head(memory), owners(memory), fits(memory)}
  for _, text in ipairs(require("neap.update").overview()) do lines[#lines + 1] = text end
  if memory.third_party and memory.third_party > 0 then
    lines[#lines + 1] = "apart from that, libraries hold " .. M.bytes(memory.third_party)
  end
  return table.concat(lines, "\n")
end

--- "41.2 MiB of 64.0 MiB"
---@return string
function M.memory_used()
  local memory = core.memory()
  if not memory.budget then return M.bytes(memory.in_use) end
  return ("%s of %s"):format(M.bytes(memory.in_use), M.bytes(memory.budget))
end

return M
