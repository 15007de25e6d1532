--- The page of ops, docs/reference/ops.md, out of their records and of what trying them on their samples tells.
require "neap" -- without which there is no neap.help
local help = require "neap.help"
local probe = require "tools.reference.probe"

local M = {}

local INTRODUCTION <const> = [=[
# Ops

<!-- Written by tools/reference/main.lua out of the records of engine/op: change those. -->

An op takes tensors and gives tensors. It is a function of `neap` and, where its first input is a tensor, a method:
`neap.relu(x)` is `x:relu()`. Inputs come first; options follow by position, in the order of their table, or by name in
a table that comes last. A number may stand for a tensor that must be there; a `nil` leaves out one that may be.

```lua
local neap = require "neap"

local x = neap.tensor {{1, 2, 3}, {4, 5, 6}}
print(neap.sum(x, 1))                    --> tensor fp32 [3] {5, 7, 9}
print(x:sum {dim = -1, keepdim = true})  --> tensor fp32 [2, 1] {{6}, {15}}
print(x * 2 + 1)                         --> tensor fp32 [2, 3] {{3, 5, 7}, {9, 11, 13}}
```

- **Positions count from 1**: `dim = 1` is the first dimension, `dim = -1` the last. **Data counts from 0**: classes,
  token ids and indices that tensors hold, what `argmax` and `argsort` give, `padding_idx` and `ignore_index`.
- **Shapes** are written `[N, C, H, W]`; `[...]` is any. Elementwise ops broadcast: shapes are aligned at their last
  dimension, and sizes of 1, or that are not there, repeat.
- **Dtypes**: beside one another floating point wins over integers, and the wider over the narrower; a number takes the
  dtype of the tensors beside it, and with a fraction in its type (`2.0`) makes integers fp32. Comparisons give bool.
- **Gradients**: `neap.value_and_grad` and `neap.update` differentiate; so do they what is a gradient already.
- **Batches** tell what an update may cut into micro-batches: ops that treat samples one by one, or sum over them, keep
  their bits; those that mix samples give other numbers; some work on the whole batch alone.
- **Precision** tells what becomes of an op where half precision is asked for: it computes in it, stays in fp32, or
  takes its inputs as they are.

Making tensors is told in [tensor.md](tensor.md), layers in [nn.md](nn.md).

### neap.help

`neap.help([op])` → `string`

What this page tells of an op, for a terminal: `neap.help "conv2d"` or `neap.help(neap.conv2d)`. Without an argument all
ops by topic. `build/neap -i` shows the text; a script prints it.

```lua
local neap = require "neap"

print((neap.help("softmax"):match "[^\n]+"))  --> neap.softmax(x, dim)
local _, err = pcall(neap.help, "sofmax")
print(err.message)  --> neap.help: there is no op "sofmax"; near it is softmax
```
]=]

-- Parts of an entry ------------------------------------------------------------------------------------

local function cell(text) return (text:gsub("|", "\\|")) end

local function option_row(o)
  local presence = o.required and "required" or o.default ~= nil and "`" .. help.literal(o.default) .. "`" or ""
  return ("| `%s` | %s | %s | %s |"):format(o.name, cell(help.values(o)), cell(presence), cell(o.doc))
end

local function append_options(lines, options)
  if #options == 0 then return end
  lines[#lines + 1] = "| option | values | default | |"
  lines[#lines + 1] = "|---|---|---|---|"
  for _, o in ipairs(options) do lines[#lines + 1] = option_row(o) end
  lines[#lines + 1] = ""
end

local gradients <const> = {[0] = "no", "yes, but its gradient has none", "yes"}

local function gradient_text(record)
  if record.gradient == "none" then return "none by nature" end
  if #record.samples == 0 then return "yes" end
  return gradients[probe.order(record)]
end

--- "samples one by one; whole batches where ..." of the ways found.
local function batch_text(record)
  local ways, words = probe.batch(record), {}
  if ways.samples then words[#words + 1] = "sample by sample" end
  if ways.sums then words[#words + 1] = "sums over the samples" end
  if ways.mix then words[#words + 1] = "samples mix" end
  if ways.whole then words[#words + 1] = "whole batches only" end
  if #words == 0 then return nil end
  local text = table.concat(words, ", or ")
  return #words > 1 and text .. ", by its shapes and options" or text
end

local precisions <const> = {
  cast = "half where it is asked for", keep = "always fp32", follow = "that of its inputs",
  parts = "that of the ops it is made of",
}

local function facts(record)
  local parts = {"Gradient: " .. gradient_text(record) .. "."}
  if record.random then parts[#parts + 1] = "Draws random numbers." end
  local batch = batch_text(record)
  if batch then parts[#parts + 1] = "Batch: " .. batch .. "." end
  parts[#parts + 1] = "Precision: " .. precisions[record.precision] .. "."
  return table.concat(parts, " ")
end

--- "[N, C](...)"s are no links, and asterisks are not emphasis.
local function plain(text) return (text:gsub("%]%(", "] (")) end

local function append_entry(lines, record)
  local as_function, as_method = help.signatures(record)
  local function add(...)
    for _, line in ipairs {...} do lines[#lines + 1] = line end
  end
  add("### neap." .. record.name, "")
  add("`" .. as_function .. "`" .. (as_method and "  " or ""))
  if as_method then add("`" .. as_method .. "`") end
  add("", "`" .. record.args:gsub("%->", "→") .. "`", "", plain(record.doc), "")
  append_options(lines, record.options)
  add(facts(record), "", "```lua", 'local neap = require "neap"', "", record.example, "```", "")
end

-- Page -------------------------------------------------------------------------------------------------

local function anchor(heading)
  return (heading:lower():gsub("[^%w%s_-]", ""):gsub("%s", "-"))
end

local function append_index(lines, topics)
  lines[#lines + 1] = "| topic | ops |"
  lines[#lines + 1] = "|---|---|"
  for _, topic in ipairs(topics) do
    local links = {}
    for i, name in ipairs(topic.names) do links[i] = ("[%s](#neap%s)"):format(name, name) end
    lines[#lines + 1] = ("| [%s](#%s) | %s |"):format(topic.title, anchor(topic.title), table.concat(links, ", "))
  end
  lines[#lines + 1] = ""
end

--- The text of docs/reference/ops.md.
---@return string
function M.page()
  local lines, topics = {INTRODUCTION}, help.topics()
  append_index(lines, topics)
  for _, topic in ipairs(topics) do
    lines[#lines + 1] = "## " .. topic.title
    lines[#lines + 1] = ""
    for _, name in ipairs(topic.names) do append_entry(lines, help.record(name)) end
  end
  while lines[#lines] == "" do lines[#lines] = nil end
  return table.concat(lines, "\n") .. "\n"
end

return M
