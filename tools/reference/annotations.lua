--- Reads LuaLS annotations: the blocks of `---` lines of a file, each with the line of code below it.
local M = {}

---@class reference.Block
---@field file string
---@field line integer of the code below
---@field code string that line
---@field raw string[] the comment as it stands
---@field text string[] description
---@field params {name: string, optional: boolean, type: string, text: string}[]
---@field returns {type: string, text: string}[]
---@field fields {name: string, optional: boolean, type: string, text: string}[]
---@field class string?
---@field parents string? after the class's name
---@field alias {name: string, type: string, text: string}?
---@field private boolean for the library alone
---@field tagged boolean? whether a tag was there

--- Where a type ends in text: at a space outside of brackets and quotes that does not belong to the type.
local function type_end(text)
  local depth, quote, i = 0, nil, 1
  while i <= #text do
    local c = text:sub(i, i)
    if quote then
      if c == quote then quote = nil end
    elseif c == '"' or c == "'" then
      quote = c
    elseif c:find "[%(%[{<]" then
      depth = depth + 1
    elseif c:find "[%)%]}>]" then
      depth = depth - 1
    elseif c == " " and depth == 0 then
      local before, after = text:sub(i - 1, i - 1), text:sub(i + 1, i + 1)
      local list = before == "," and text:find "^fun%("
      if not (before:find "[:|]" or after == "|" or list) then return i - 1 end
    end
    i = i + 1
  end
  return #text
end

--- A type and what follows it.
local function split_type(text)
  local last = type_end(text)
  return text:sub(1, last), (text:sub(last + 1):gsub("^%s+", ""):gsub("^#%s*", ""))
end

--- "name? type text"
local function named(rest)
  local name, optional, tail = rest:match "^([%w_.]+)(%??)%s+(.*)$"
  if not name then return nil end
  local kind, text = split_type(tail)
  return {name = name, optional = optional == "?", type = kind, text = text}
end

local tags = {}

function tags.param(block, rest)
  block.params[#block.params + 1] = named(rest)
end

function tags.field(block, rest)
  if not rest:find "^package" then block.fields[#block.fields + 1] = named(rest) end
end

tags["return"] = function(block, rest)
  local kind, text = split_type(rest)
  block.returns[#block.returns + 1] = {type = kind, text = text}
end

function tags.class(block, rest)
  block.class, block.parents = rest:match "^([%w_.]+)%s*:?%s*(.*)$"
end

function tags.alias(block, rest)
  local name, tail = rest:match "^([%w_.]+)%s*(.*)$"
  local kind, text = split_type(tail)
  block.alias = {name = name, type = kind, text = text}
end

function tags.package(block) block.private = true end
tags.private = tags.package

local function new_block(file)
  return {file = file, raw = {}, text = {}, params = {}, returns = {}, fields = {}, private = false}
end

--- Adds a line of a comment. Text comes before all tags: editors take what follows one for the next one's.
local function add(block, comment, place)
  local tag, rest = comment:match "^@(%w+)%s*(.*)$"
  if tag then
    block.tagged = true
    if tags[tag] then tags[tag](block, rest) end
  elseif not comment:find "^|" then -- which is a choice of an alias
    local text = comment:gsub("^ ", "")
    if block.tagged and text ~= "" then error(("%s: text below a tag: %q"):format(place, text), 0) end
    block.text[#block.text + 1] = text
  end
end

--- The blocks of a Lua file, in order.
---@param path string
---@return reference.Block[]
function M.read(path)
  local list, block, number = {}, nil, 0
  for line in io.lines(path) do
    number = number + 1
    local comment = line:match "^%s*%-%-%-(.*)$"
    if comment and not comment:find "^%-" then
      block = block or new_block(path)
      block.raw[#block.raw + 1] = (line:gsub("^%s+", ""))
      add(block, comment, ("%s:%d"):format(path, number))
    elseif block then
      block.line, block.code = number, line
      list[#list + 1] = block
      block = nil
    end
  end
  return list
end

local function local_class(block, classes)
  local variable = block.code:match "^local ([%w_]+)%s*="
  if block.class and variable then classes[variable] = block.class end
end

--- The name that the code below a block gives to something of a class: "neap.data.hdf5", "neap.Loader:next".
local function static_name(code, classes)
  local owner, mark, name = code:match "^function ([%w_]+)([.:])([%w_]+)"
  if not owner then
    owner, name = code:match "^([%w_]+)%.([%w_]+)%s*="
    mark = "."
  end
  if owner and classes[owner] then return classes[owner] .. mark .. name end
end

--- A layer's class is named by the call that makes it: layer("Linear", ...), activation("ReLU", "relu").
local function layer_name(block)
  if not block.file:find "scripts/neap/nn/" then return nil end
  local name = block.code:match '^[%w_]+%s*%(?%s*"(%u%w*)"' or block.code:match "^M%.(%u%w*)%s*=%s*module%.module"
  return name and "neap.nn." .. name
end

---@class reference.Index
---@field names table<string, reference.Block>
---@field places table<string, reference.Block> by the place of their code: "file:line"
---@field classes table<string, reference.Block> and aliases
---@field order reference.Block[]

--- All blocks of some files.
---@param paths string[]
---@return reference.Index
function M.index(paths)
  local index = {names = {}, places = {}, classes = {}, order = {}}
  for _, path in ipairs(paths) do
    local classes = {}
    for _, block in ipairs(M.read(path)) do
      index.order[#index.order + 1] = block
      index.places[("%s:%d"):format(path, block.line)] = block
      local_class(block, classes)
      block.name = layer_name(block) or static_name(block.code, classes)
      if block.name then index.names[block.name] = block end
      local class = block.class or block.alias and block.alias.name
      -- The first to describe a class is the one that speaks for it; others add methods.
      if class and not (index.classes[class] and #block.fields + #block.text == 0) then index.classes[class] = block end
    end
  end
  return index
end

return M
