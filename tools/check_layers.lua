-- Run from the root: lua5.4 tools/check_layers.lua
-- A file includes headers of its own folder or of folders above it in this list, never below.
local LAYERS = {
  "engine/base", "engine/memory", "engine/tensor", "engine/ir", "engine/op", "engine/backend", "engine/graph",
  "engine/train", "engine/io", "kernels/cpu", "kernels/cuda", "bindings/lua", "engine/host",
}
-- Written by the build from the folder of the same rank.
local GENERATED = {["op_table.inc"] = "engine/op", ["cpu_table.inc"] = "kernels/cpu"}

local rank = {}
for i, folder in ipairs(LAYERS) do rank[folder] = i end

local function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

local function folder_of(path)
  for _, folder in ipairs(LAYERS) do
    if path:sub(1, #folder + 1) == folder .. "/" then return folder end
  end
end

--- The file that an include means, as the compiler looks for it; nil when there is none of ours.
local function resolve(from, name)
  for _, folder in ipairs {from:match("^(.*)/"), "engine", "."} do
    local path = (folder == "." and name) or folder .. "/" .. name
    if exists(path) then return path end
  end
end

local failures = 0
local function complain(...)
  failures = failures + 1
  io.stderr:write(string.format(...), "\n")
end

local function check(path, line, number)
  local name = line:match('^%s*#%s*include%s*"([^"]+)"')
  if not name or name == "neap.h" then return end
  local own = folder_of(path)
  local target = GENERATED[name] or folder_of(resolve(path, name) or "")
  if not target then
    complain("%s:%d: \"%s\" is not a header of a folder in the list", path, number, name)
  elseif rank[target] > rank[own] then
    complain("%s:%d: %s includes \"%s\" of %s, which is below it", path, number, own, name, target)
  end
end

local FIND = "find engine kernels bindings -name '*.[ch]' -o -name '*.cpp' -o -name '*.def' | LC_ALL=C sort"
local list = assert(io.popen(FIND))
for path in list:lines() do
  if folder_of(path) then
    local number = 0
    for line in io.lines(path) do
      number = number + 1
      check(path, line, number)
    end
  elseif path ~= "engine/neap.h" then
    complain("%s: its folder is not in the list of layers", path)
  end
end
list:close()
os.exit(failures == 0)
