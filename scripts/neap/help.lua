--- neap.help: what an op takes, gives and does, told by its record.
local core = require "neap.core"
local check = require "neap.check"

local M = {}

---@class neap.OpOption
---@field name string
---@field type "boolean"|"integer"|"number"|"pair"|"integers"|"dim"|"dims"|"dtype"|"choice"
---@field doc string
---@field required boolean
---@field default? any
---@field min? number
---@field max? number
---@field choices? string[]

---@class neap.OpRecord
---@field name string
---@field topic string
---@field args string "x [..., in], weight [out, in], bias? [out] -> [..., out]"
---@field doc string
---@field example string Lua lines, of which `--> text` ends those that print this text
---@field options neap.OpOption[]
---@field min_inputs integer
---@field max_inputs? integer nil: any number
---@field results integer
---@field method boolean whether it is a method of tensors
---@field equation? boolean whether a string comes before the inputs
---@field spread? boolean whether inputs of any number are arguments of their own, rather than a list
---@field random boolean
---@field composite boolean
---@field gradient "yes"|"no"|"none"|"parts" none: by nature; parts: as its parts have it
---@field batch "samples"|"mix"|"shape"|"parts"
---@field precision "cast"|"keep"|"follow"|"parts"
---@field samples string[]

-- Records ----------------------------------------------------------------------------------------------

--- The record of an op; nil when there is none of that name.
---@param name string
---@return neap.OpRecord?
function M.record(name)
  return core.op_info(name) or require("neap.records")[name]
end

--- Names of all ops that scripts see, sorted.
---@return string[]
function M.names()
  local names = core.op_names()
  for name in pairs(require "neap.records") do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- Names by topic, in the order of the reference pages: {{title =, names =}...}.
---@return {title: string, names: string[]}[]
function M.topics()
  local topics, by_title = {}, {}
  for i, title in ipairs(core.op_topics()) do
    topics[i] = {title = title, names = {}}
    by_title[title] = topics[i].names
  end
  for _, name in ipairs(M.names()) do
    local names = by_title[M.record(name).topic]
    names[#names + 1] = name
  end
  return topics
end

-- Parts of a text --------------------------------------------------------------------------------------

--- A default as a script writes it.
---@param v any
---@return string
function M.literal(v)
  return type(v) == "string" and ("%q"):format(v) or math.type(v) == "float" and ("%.14g"):format(v) or tostring(v)
end

--- The names of the inputs with their marks: {{name =, optional =, list =}...}.
---@param record neap.OpRecord
---@return {name: string, optional: boolean, list: boolean}[]
function M.inputs(record)
  local inputs = {}
  local text = record.args:match "^(.-)%s*%->"
  for word in text:gsub("%b[]", ""):gmatch "[^,]+" do
    local name, mark = word:match "^%s*([%w_]+)([?.]*)"
    if name then inputs[#inputs + 1] = {name = name, optional = mark == "?", list = mark == "..."} end
  end
  return inputs
end

--- "x, weight[, bias]" from input `first` on.
local function input_list(inputs, first)
  local text = ""
  for i = first, #inputs do
    local input = inputs[i]
    local name = input.list and "{" .. input.name .. "...}" or input.name
    local comma = i > first and ", " or ""
    text = text .. (input.optional and "[" .. comma .. name .. "]" or comma .. name)
  end
  return text
end

--- Required options go by position, the others by name: "dim, {keepdim = false}".
local function option_list(options)
  local by_position, by_name = {}, {}
  for _, o in ipairs(options) do
    if o.required then
      by_position[#by_position + 1] = o.name
    else
      by_name[#by_name + 1] = o.default == nil and o.name or o.name .. " = " .. M.literal(o.default)
    end
  end
  if #by_name > 0 then by_position[#by_position + 1] = "{" .. table.concat(by_name, ", ") .. "}" end
  return table.concat(by_position, ", ")
end

local function call(prefix, ...)
  local parts = {}
  for _, part in ipairs {...} do
    if part ~= "" then parts[#parts + 1] = part end
  end
  return prefix .. "(" .. table.concat(parts, ", "):gsub(", %[, ", "[, ") .. ")"
end

--- How it is called: as a function, and as a method where it is one.
---@param record neap.OpRecord
---@return string, string?
function M.signatures(record)
  local inputs, options = M.inputs(record), option_list(record.options)
  local equation = record.equation and "equation" or ""
  local spread = record.equation or record.spread
  local tensors = spread and inputs[1].name .. "..." or input_list(inputs, 1)
  local as_function = call("neap." .. record.name, equation, tensors, options)
  if not record.method or #inputs == 0 or inputs[1].list then return as_function, nil end
  return as_function, call(inputs[1].name .. ":" .. record.name, input_list(inputs, 2), options)
end

local kinds <const> = {
  boolean = "true or false", integer = "integer", number = "number", pair = "one or two integers",
  integers = "integers", dim = "dimension", dims = "dimensions", dtype = "dtype",
}

local function choices(list)
  local words = {}
  for i, word in ipairs(list) do words[i] = ("%q"):format(word) end
  return table.concat(words, ", ", 1, #words - 1) .. " or " .. words[#words]
end

-- From here on a bound is one of the machine's.
local MANY <const> = 2 ^ 31 - 1

--- What values an option takes: "number from 0 to 1", "one or two integers of at least 1".
---@param o neap.OpOption
---@return string
function M.values(o)
  local kind = o.choices and choices(o.choices) or kinds[o.type]
  if o.min and o.max and o.max < MANY then
    return ("%s from %s to %s"):format(kind, M.literal(o.min), M.literal(o.max))
  end
  return o.min and ("%s of at least %s"):format(kind, M.literal(o.min)) or kind
end

--- "required", "default 1" or "may be left out".
---@param o neap.OpOption
---@return string
function M.presence(o)
  if o.required then return "required" end
  return o.default == nil and "may be left out" or "default " .. M.literal(o.default)
end

local gradients <const> = {
  yes = "has a gradient", no = "has no gradient", none = "has no gradient by nature", parts = "has a gradient",
}
local precisions <const> = {
  cast = "computes in half precision where a program asks for it",
  keep = "stays in fp32 where a program asks for half precision",
  follow = "computes in the dtype of its inputs",
}
local batches <const> = {samples = "treats samples one by one", mix = "mixes the samples of a batch"}

--- What holds of an op, in words.
---@param record neap.OpRecord
---@return string[]
function M.facts(record)
  local facts = {gradients[record.gradient]}
  if record.random then facts[#facts + 1] = "draws random numbers" end
  facts[#facts + 1] = batches[record.batch]
  facts[#facts + 1] = precisions[record.precision]
  return facts
end

-- Texts ------------------------------------------------------------------------------------------------

local WIDTH <const> = 88

--- Words in lines of at most WIDTH, the first after `first`, others after `indent`.
local function wrap(text, first, indent)
  local lines, line = {}, first
  for word in text:gmatch "%S+" do
    if #line + 1 + #word > WIDTH and line:find "%S" then
      lines[#lines + 1] = line
      line = indent .. word
    else
      line = line .. (line:find "%S" and #line > #first and " " or "") .. word
    end
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

local function option_lines(options)
  local width, lines = 0, {}
  for _, o in ipairs(options) do width = math.max(width, #o.name) end
  for i, o in ipairs(options) do
    local text = ("%s, %s. %s"):format(M.values(o), M.presence(o), o.doc)
    lines[i] = wrap(text, ("  %-" .. width .. "s  "):format(o.name), (" "):rep(width + 4))
  end
  return lines
end

--- Everything about an op, for a terminal.
---@param record neap.OpRecord
---@return string
function M.text(record)
  local as_function, as_method = M.signatures(record)
  local lines = {as_function, as_method}
  lines[#lines + 1] = wrap(record.args, "  ", "    ")
  lines[#lines + 1] = ""
  lines[#lines + 1] = wrap(record.doc, "", "")
  for _, line in ipairs(option_lines(record.options)) do lines[#lines + 1] = line end
  lines[#lines + 1] = wrap("It " .. table.concat(M.facts(record), ", ") .. ".", "", "")
  lines[#lines + 1] = ""
  lines[#lines + 1] = "  " .. record.example:gsub("\n", "\n  ")
  return table.concat(lines, "\n")
end

local function overview()
  local lines = {"neap.help \"NAME\" tells of an op. There are:"}
  for _, topic in ipairs(M.topics()) do
    lines[#lines + 1] = topic.title
    lines[#lines + 1] = wrap(table.concat(topic.names, " "), "  ", "  ")
  end
  return table.concat(lines, "\n")
end

-- Finding ----------------------------------------------------------------------------------------------

--- How many letters to add, drop or change (Levenshtein 1966).
local function distance(a, b)
  local row = {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local before = row[0]
    row[0] = i
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j)
      before, row[j] = row[j], math.min(row[j] + 1, row[j - 1] + 1, before + (same and 0 or 1))
    end
  end
  return row[#b]
end

--- Names that are nearly this one or have it in them, nearest first, at most five.
local function near(name)
  local found = {}
  for _, other in ipairs(M.names()) do
    local d = distance(name, other)
    if #name > 2 and other:find(name, 1, true) then d = math.min(d, 1) end
    if d <= math.max(1, #name // 3) then found[#found + 1] = {name = other, d = d} end
  end
  table.sort(found, function(a, b) return a.d < b.d or a.d == b.d and a.name < b.name end)
  local names = {}
  for i = 1, math.min(#found, 5) do names[i] = found[i].name end
  return names
end

--- The name by which scripts have a function.
local function name_of(fn)
  local neap = require "neap"
  for _, name in ipairs(M.names()) do
    if rawequal(neap[name], fn) then return name end
  end
  check.fail("NOT_FOUND", "neap.help: the function is no op; neap.help() lists them")
end

local function unknown(name)
  local names = near(name:lower())
  local hint = #names > 0 and "near it are " .. table.concat(names, ", ") or "neap.help() lists all"
  if #names == 1 then hint = "near it is " .. names[1] end
  check.fail("NOT_FOUND", "neap.help: there is no op %q; %s", name, hint)
end

--- What an op takes, gives and does, with an example: `neap.help "conv2d"` or `neap.help(neap.conv2d)`. Without an
--- argument all ops by topic. In the interactive mode the text is shown; scripts print it.
---@param what? string|function a name (also "neap.conv2d", "x:conv2d") or the op itself
---@return string
function M.help(what)
  if what == nil then return overview() end
  if type(what) == "function" then what = name_of(what) end
  if type(what) ~= "string" then
    check.fail("INVALID", "neap.help: argument 1 is %s, expected the name of an op or the op itself",
               check.describe(what))
  end
  local record = M.record(what:match "([%w_]*)$")
  return record and M.text(record) or unknown(what)
end

return M
