--- The run's journal: a JSON line for each event, with the version of its fields.
local core = require "neap.core"
local check = require "neap.check"
local json = require "neap.json"

local M = {}

local VERSION <const> = 1

local Journal = {}
Journal.__index = Journal

--- Appends to the file at path; without a path it writes nothing.
---@param path string?
function M.open(path)
  if not path then return setmetatable({}, Journal) end
  -- A host may give its scripts no files.
  if not io then check.fail("UNSUPPORTED", "the journal %q cannot be written: there is no io library here", path) end
  local file, err = io.open(path, "a")
  if not file then check.fail("IO", "the journal cannot be written: %s", err) end
  return setmetatable({file = file, path = path}, Journal)
end

---@param event table plain data
function Journal:write(event)
  if not self.file then return end
  local line = {v = VERSION, clock = core.clock()}
  for key, v in pairs(event) do line[key] = v end
  local ok, err = self.file:write(json.encode(line, "an event"), "\n")
  if ok then ok, err = self.file:flush() end
  if not ok then check.fail("IO", "a line of the journal %q could not be written: %s", self.path, err) end
end

return M
