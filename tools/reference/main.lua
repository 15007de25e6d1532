--- Writes the reference pages, docs/reference/*.md, and types/neap/*.lua, which editors read, out of annotations and
--- records. usage: build/neap tools/reference/main.lua [--check]
---
--- With --check nothing is written: it fails when a file differs from what would be, telling where, and when a name
--- that scripts can reach is in no page.
local annotations = require "tools.reference.annotations"
local page = require "tools.reference.page"
local public = require "tools.reference.public"
local types = require "tools.reference.types"

local PAGES <const> = "docs/reference/"

local function list_files(command)
  local list = {}
  local pipe = assert(io.popen(command))
  for path in pipe:lines() do list[#list + 1] = path end
  pipe:close()
  return list
end

local function read_sources()
  local names = {}
  for _, item in ipairs(public.names()) do names[item.name] = item.value end
  local index = annotations.index(list_files "find types/neap.lua scripts/neap -name '*.lua' | LC_ALL=C sort")
  return {index = index, public = names, place = public.place}
end

--- The page of ops has a generator of its own, which asks the records.
local function ops_page()
  if not package.searchpath("tools.reference.ops", package.path) then return nil end
  return require("tools.reference.ops").page()
end

--- All files that are generated: path to text.
local function generate(sources)
  local files = types.files(sources)
  for _, template in ipairs(list_files "ls tools/reference/pages/*.md") do
    files[PAGES .. template:match "[^/]+$"] = page.render(template, sources)
  end
  files[PAGES .. "ops.md"] = ops_page()
  return files
end

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

local function read(path)
  local f <close> = io.open(path)
  return f and f:read "a" or ""
end

local function write(path, text)
  local f <close> = assert(io.open(path, "w"))
  f:write(text)
end

local function lines_of(text)
  local list = {}
  for line in text:gmatch "([^\n]*)\n" do list[#list + 1] = line end
  return list
end

local failures = 0
local function complain(format, ...)
  failures = failures + 1
  io.stderr:write(format:format(...), "\n")
end

local function compare(path, text)
  local found = read(path)
  if found == text then return end
  local a, b = lines_of(found), lines_of(text)
  for i = 1, math.max(#a, #b) do
    if a[i] ~= b[i] then
      complain("%s:%d: is   %s\n%s:%d: want %s (run build/neap tools/reference/main.lua)", path, i,
               a[i] or "(nothing)", path, i, b[i] or "(nothing)")
      return
    end
  end
end

--- What headings and rows of tables speak of, as words: "neap.data.loader", "loader:next".
local function headings(files)
  local set = {}
  for _, text in pairs(files) do
    for heading in text:gmatch "\n##+ ([^\n]+)" do
      for word in heading:gmatch "[%w_.:]+" do set[word] = true end
    end
    for name in text:gmatch "\n| `([%w_.]+)`" do set[name] = true end
  end
  return set
end

--- Functions of the engine that the meta file does not name are ops.
local function is_covered(item, told, with_ops)
  if told[item.name] or type(item.value) == "table" and not getmetatable(item.value) then return true end
  return public.is_engine(item.value) and (not with_ops or told[item.name:match "[%w_]+$"])
end

local function check_public(files, sources)
  local told = headings(files)
  local with_ops = files[PAGES .. "ops.md"] ~= nil
  for _, item in ipairs(public.names()) do
    if not is_covered(item, told, with_ops) then complain("%s is in no page of the reference", item.name) end
  end
  for _, method in ipairs(public.methods()) do
    local name = method.class:match("[%w_]+$"):lower() .. ":" .. method.name
    local names = sources.index.names
    local block = names[method.class .. ":" .. method.name] or names[method.class .. "." .. method.name]
    if not told[name] and not (block and block.private) then complain("%s is in no page of the reference", name) end
  end
end

local check = arg[1] == "--check"
local sources = read_sources()
local files = generate(sources)
for _, path in ipairs(sorted_keys(files)) do
  if check then compare(path, files[path]) else write(path, files[path]) end
end
if check then check_public(files, sources) end
if failures > 0 then os.exit(1) end
