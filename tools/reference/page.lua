--- Pages out of templates (tools/reference/pages/*.md), which hold the order of things, prose and examples. Lines of
--- theirs that begin with @ stand for what the annotations say:
---
---   @contents            a list of the page's sections and entries
---   @entry neap.data.hdf5
---   @class neap.Loader   description and fields of a class, then its methods in the order of the source
---   @fields neap.Memory  a table of fields alone
---   @list neap.nn.init   a table of a name space, a row an entry
---   @rest neap.nn        entries of a name space that the page did not name, in alphabetical order
---   @header              all of engine/neap.h
local header = require "tools.reference.header"
local markdown = require "tools.reference.markdown"

local M = {}

---@class reference.Sources
---@field index table what annotations.index gives
---@field public table<string, any> what scripts can reach, by name
---@field place fun(v: any): string? where a function is written

--- The block that documents a public name: by name, or by where the function is written.
---@param sources reference.Sources
---@param name string
---@return reference.Block?
function M.find(sources, name)
  local index = sources.index
  if index.names[name] then return index.names[name] end
  local place = sources.place(sources.public[name])
  return place and index.places[place]
end

local function fail(page, format, ...)
  error(("%s: %s"):format(page.path, format:format(...)), 0)
end

local function append(page, lines)
  for _, line in ipairs(lines) do page.lines[#page.lines + 1] = line end
  page.lines[#page.lines + 1] = ""
end

local directives = {}

function directives.entry(page, name)
  local block = M.find(page.sources, name)
  if not block then fail(page, "there are no annotations of %s", name) end
  page.used[name] = true
  append(page, markdown.entry(name, name, block, page.sources.index.classes))
end

local function class_block(page, name)
  local block = page.sources.index.classes[name]
  if not block then fail(page, "there is no ---@class %s", name) end
  return block
end

--- Methods are written as of an object called by its class: loader:next().
local function object_name(class) return class:match("[%w_]+$"):lower() end

local function methods(page, class)
  for _, block in ipairs(page.sources.index.order) do
    local name = block.name and block.name:match("^" .. class:gsub("%.", "%%.") .. ":([%w_]+)$")
    if name and not name:find "^__" and not block.private then
      local heading = object_name(class) .. ":" .. name
      append(page, markdown.entry(heading, heading, block, page.sources.index.classes))
    end
  end
end

directives["class"] = function(page, name)
  local block = class_block(page, name)
  append(page, block.text)
  if #block.fields > 0 then append(page, markdown.fields(block)) end
  methods(page, name)
end

function directives.fields(page, name) append(page, markdown.fields(class_block(page, name))) end

function directives.options(page, name) append(page, markdown.options(class_block(page, name))) end

--- Functions of a name space that the page has not spoken of, sorted.
local function unused(page, prefix)
  local names = {}
  for name, v in pairs(page.sources.public) do
    local own = name:sub(1, #prefix + 1) == prefix .. "." and not name:find(".", #prefix + 2, true)
    if own and not page.used[name] and type(v) == "function" then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

function directives.rest(page, prefix)
  for _, name in ipairs(unused(page, prefix)) do directives.entry(page, name) end
end

function directives.list(page, prefix)
  local lines = {"| | |", "|---|---|"}
  for _, name in ipairs(unused(page, prefix)) do
    local block = M.find(page.sources, name)
    if not block then fail(page, "there are no annotations of %s", name) end
    lines[#lines + 1] = ("| `%s` | %s |"):format(name, table.concat(block.text, " "))
  end
  append(page, lines)
end

function directives.contents(page) page.contents_at = #page.lines + 1 end

--- Declarations that go together, with what is said of them.
local function declaration_group(section, i)
  local list = section.declarations
  local first, code = list[i], {}
  if #first.text == 0 then error(("engine/neap.h: %s is without a comment"):format(first.name), 0) end
  local names = {}
  repeat
    names[#names + 1] = list[i].name
    table.move(list[i].code, 1, #list[i].code, #code + 1, code)
    i = i + 1
  until not (list[i] and list[i].joined)
  return names, code, first.text, i
end

--- Pointers are no emphasis.
local function without_emphasis(text)
  local out = {}
  for i, line in ipairs(text) do out[i] = line:gsub("%*", "\\*") end
  return out
end

function directives.header(page)
  for _, section in ipairs(header.read "engine/neap.h") do
    append(page, {"## " .. section.title:sub(1, 1):upper() .. section.title:sub(2), ""})
    append(page, without_emphasis(section.text))
    local i = 1
    while section.declarations[i] do
      local names, code, text
      names, code, text, i = declaration_group(section, i)
      append(page, {"### " .. table.concat(names, ", "), ""})
      append(page, {"```c declaration", table.concat(code, "\n"), "```", ""})
      append(page, without_emphasis(text))
    end
    page.expand(page, page.after[section.title] or {})
  end
end

--- Text for the end of a section of the header: lines between "@after TITLE" and "@end".
local function take_after(page, lines)
  local rest, open = {}, nil
  for _, line in ipairs(lines) do
    local title = line:match "^@after (.+)$"
    if title then
      open = {}
      page.after[title] = open
    elseif line == "@end" then
      open = nil
    else
      table.insert(open or rest, line)
    end
  end
  return rest
end

local function expand(page, lines)
  for _, line in ipairs(lines) do
    local word, argument = line:match "^@(%w+)%s*(.*)$"
    if word then
      if not directives[word] then fail(page, "there is no directive @%s", word) end
      directives[word](page, argument)
    else
      page.lines[#page.lines + 1] = line
    end
  end
end

--- The text of a page.
---@param path string of the template
---@param sources reference.Sources
---@return string
function M.render(path, sources)
  local page = {path = path, sources = sources, lines = {}, used = {}, after = {}, expand = expand}
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  expand(page, take_after(page, lines))
  if page.contents_at then
    local contents = markdown.contents(page.lines)
    table.move(page.lines, page.contents_at, #page.lines, page.contents_at + #contents)
    table.move(contents, 1, #contents, page.contents_at, page.lines)
  end
  return markdown.text(page.lines)
end

return M
