--- JSON (RFC 8259) for journals and the plain tables of checkpoints. Integers and floats stay apart and
--- floats keep every bit; NaN and infinities are written as Python's json module reads them.
local check = require "neap.check"

local M = {}

local MAX_DEPTH <const> = 100 -- of values in values, both ways

local escapes = {['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t"}

local function quote(text)
  return '"' .. text:gsub('[%c"\\\127]', function(c)
    return escapes[c] or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

local function number(v)
  if math.type(v) == "integer" then return tostring(v) end
  if v ~= v then return "NaN" end
  if v == math.huge then return "Infinity" end
  if v == -math.huge then return "-Infinity" end
  local text = ("%.17g"):format(v)
  return text:find("[.eE]") and text or text .. ".0"
end

local encode

local function is_list(t)
  local n = 0
  for _ in pairs(t) do n = n + 1 end
  return n > 0 and n == #t
end

local function object(t, path, seen, depth)
  local parts = {}
  for key in pairs(t) do
    if type(key) ~= "string" then
      check.fail("INVALID", "%s has the key %s; keys are strings, or 1 to n without gaps", path, tostring(key))
    end
  end
  for _, key in ipairs(check.sorted_keys(t)) do
    parts[#parts + 1] = quote(key) .. ":" .. encode(t[key], path .. "." .. key, seen, depth)
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

local function list(t, path, seen, depth)
  local parts = {}
  for i, v in ipairs(t) do parts[i] = encode(v, ("%s[%d]"):format(path, i), seen, depth) end
  return "[" .. table.concat(parts, ",") .. "]"
end

function encode(v, path, seen, depth)
  if depth > MAX_DEPTH then
    check.fail("INVALID", "%s... is nested deeper than %d tables", path:sub(1, 60), MAX_DEPTH - 1)
  end
  local kind = type(v)
  if kind == "string" then return quote(v) end
  if kind == "number" then return number(v) end
  if kind == "boolean" then return tostring(v) end
  if kind ~= "table" or getmetatable(v) then
    check.fail("INVALID", "%s is %s; plain data are numbers, strings, booleans and tables of them", path,
               check.describe(v))
  end
  if seen[v] then check.fail("INVALID", "%s contains itself", path) end
  seen[v] = true
  local text = (is_list(v) and list or object)(v, path, seen, depth + 1)
  seen[v] = nil
  return text
end

--- Plain data as JSON. Keys are in alphabetical order, so equal tables give equal text.
---@param v any
---@param name? string what to call v in errors
---@return string
function M.encode(v, name)
  return encode(v, name or "the value", {}, 1)
end

local Reader = {}
Reader.__index = Reader

function Reader:fail(what)
  check.fail("CORRUPT", "JSON: %s at byte %d of %q", what, self.at, self.text:sub(1, 60))
end

function Reader:space()
  self.at = self.text:find("[^ \t\r\n]", self.at) or #self.text + 1
end

function Reader:take(pattern)
  local first, last, capture = self.text:find("^" .. pattern, self.at)
  if not first then return nil end
  self.at = last + 1
  return capture or self.text:sub(first, last)
end

local unescapes = {b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/"}

function Reader:unicode()
  local code = tonumber(self:take("u(%x%x%x%x)") or self:fail("a bad \\u escape"), 16)
  if code >= 0xD800 and code < 0xDC00 then
    local low = self:take("\\u([dD][c-fC-F]%x%x)")
    if not low then self:fail("half a surrogate pair") end
    code = 0x10000 + (code - 0xD800) * 0x400 + (tonumber(low, 16) - 0xDC00)
  end
  return utf8.char(code)
end

function Reader:string()
  local parts = {}
  while true do
    parts[#parts + 1] = self:take('[^"\\\0-\31]*')
    if self:take('"') then return table.concat(parts) end
    if not self:take("\\") then self:fail("an unfinished string") end
    local c = self:take('[bfnrt"\\/]')
    parts[#parts + 1] = c and unescapes[c] or self:unicode()
  end
end

function Reader:items(close, item)
  self:space()
  if self:take(close) then return end
  repeat
    item()
    self:space()
    if self:take(close) then return end
  until not self:take(",")
  self:fail("expected ',' or '" .. close:sub(-1) .. "'")
end

function Reader:object()
  local t = {}
  self:items("}", function()
    self:space()
    if not self:take('"') then self:fail("expected a key") end
    local key = self:string()
    self:space()
    if not self:take(":") then self:fail("expected ':'") end
    t[key] = self:value()
  end)
  return t
end

function Reader:list()
  local t = {}
  self:items("%]", function() t[#t + 1] = self:value() end)
  return t
end

local words = {["true"] = true, ["false"] = false, NaN = 0 / 0, Infinity = math.huge, ["-Infinity"] = -math.huge}

function Reader:value()
  self.depth = self.depth + 1
  if self.depth > MAX_DEPTH then self:fail("nested too deep") end
  self:space()
  local v
  if self:take("{") then v = self:object()
  elseif self:take("%[") then v = self:list()
  elseif self:take('"') then v = self:string()
  elseif not self:take("null") then
    v = words[self:take("-?%a+")]
    if v == nil then v = tonumber(self:take("-?%d+%.?%d*[eE]?[+-]?%d*") or "") end
    if v == nil then self:fail("expected a value") end
  end
  self.depth = self.depth - 1
  return v
end

--- JSON as plain data; null is nil. Bad text raises an error which says where.
---@param text string
---@return any
function M.decode(text)
  local reader = setmetatable({text = text, at = 1, depth = 0}, Reader)
  local v = reader:value()
  reader:space()
  if reader.at <= #text then reader:fail("something follows the value") end
  return v
end

return M
