--- Tables of tensors and plain values in HDF5 files. Tensors are datasets, tables that hold tensors are
--- groups, strings and numbers are attributes; what HDF5's attributes cannot tell apart (booleans, tables
--- without tensors) is kept as JSON in the attribute "plain" of its group.
local core = require "neap.core"
local check = require "neap.check"
local json = require "neap.json"

local M = {}

local PLAIN <const> = "plain"

local function holds_tensors(t, seen)
  if seen[t] then check.fail("INVALID", "neap.save: a table contains itself") end
  seen[t] = true
  for _, v in pairs(t) do
    if check.is_tensor(v) or type(v) == "table" and not getmetatable(v) and holds_tensors(v, seen) then
      seen[t] = nil
      return true
    end
  end
  seen[t] = nil
  return false
end

local function item_name(key, path)
  local name = tostring(key)
  if type(key) ~= "string" and math.type(key) ~= "integer" then
    check.fail("INVALID", "neap.save: %s has the key %s, expected strings or integers", path, name)
  end
  if name == "" or name == "." or name == "attributes" or name:find("/", 1, true) then
    check.fail("INVALID", "neap.save: %s has the key %q, which cannot be a name in the file", path, name)
  end
  return name
end

local function is_attribute(v)
  return type(v) == "number" or type(v) == "string" and v ~= "" and not v:find("\0", 1, true)
end

--- The same table as core.hdf5.write takes it.
local function group(t, path)
  local out, attributes, plain, names = {}, {}, {}, {}
  for key, v in pairs(t) do
    local name = item_name(key, path)
    if names[name] then
      check.fail("INVALID", "neap.save: %s has both the key %s and the string %q, which are one name in the file", path,
                 name, name)
    end
    names[name] = true
    if check.is_tensor(v) then
      out[name] = v
    elseif type(v) == "table" and not getmetatable(v) and holds_tensors(v, {}) then
      out[name] = group(v, path .. "." .. name)
    elseif is_attribute(v) and name ~= PLAIN and type(key) == "string" then
      attributes[name] = v
    else
      plain[name] = v
    end
  end
  if next(plain) then attributes[PLAIN] = json.encode(plain, path) end
  if next(attributes) then out.attributes = attributes end
  return out
end

--- "1" to "n" as positions again.
local function with_positions(t)
  local n = 0
  for _ in pairs(t) do n = n + 1 end
  for i = 1, n do
    if t[tostring(i)] == nil then return t end
  end
  local list = {}
  for i = 1, n do list[i] = t[tostring(i)] end
  return list
end

local function ungroup(t)
  local out = {}
  for name, v in pairs(t) do
    if name ~= "attributes" then out[name] = check.is_tensor(v) and v or ungroup(v) end
  end
  for name, v in pairs(t.attributes or {}) do
    if name ~= PLAIN then out[name] = v end
  end
  local plain = t.attributes and t.attributes[PLAIN]
  for name, v in pairs(plain and json.decode(plain) or {}) do out[name] = v end
  return with_positions(out)
end

--- Writes a table of tensors, plain values and such tables to an HDF5 file, whole or not at all. h5py reads it:
--- tensors are datasets, tables of them groups, the rest attributes.
---@param path string
---@param t table keys are strings, or 1 to n
---@return true? ok nil when the file could not be written; what was there stays
---@return neap.Error? err
function M.save(path, t)
  check.value("neap.save", "the path", path, {kind = "string"})
  check.value("neap.save", "what to save", t, {kind = "table"})
  return core.hdf5.write(path, group(t, "the table"))
end

--- Reads what `neap.save` wrote.
---@param path string
---@return table? t nil when there is no such file, or it is damaged
---@return neap.Error? err
function M.load(path)
  check.value("neap.load", "the path", path, {kind = "string"})
  local t, err = core.hdf5.read(path)
  if not t then return nil, err end
  return ungroup(t)
end

return M
