--- Writes grey images as PNG files (ISO/IEC 15948), uncompressed, in plain Lua.
local M = {}

local crc_of_byte = {}
for i = 0, 255 do
  local c = i
  for _ = 1, 8 do c = c & 1 == 1 and 0xEDB88320 ~ (c >> 1) or c >> 1 end
  crc_of_byte[i] = c
end

local function crc32(data)
  local c = 0xFFFFFFFF
  for i = 1, #data do c = crc_of_byte[(c ~ data:byte(i)) & 255] ~ (c >> 8) end
  return c ~ 0xFFFFFFFF
end

local function adler32(data)
  local a, b = 1, 0
  for i = 1, #data do
    a = (a + data:byte(i)) % 65521
    b = (b + a) % 65521
  end
  return b << 16 | a
end

local function chunk(name, data)
  return string.pack(">I4", #data) .. name .. data .. string.pack(">I4", crc32(name .. data))
end

local STORED <const> = 65535 -- bytes a stored block of deflate (RFC 1951) holds at most

--- data as a zlib stream (RFC 1950) of stored blocks.
local function stored(data)
  local parts = {"\x78\x01"}
  for first = 1, #data, STORED do
    local piece = data:sub(first, first + STORED - 1)
    local last = first + STORED > #data and 1 or 0
    parts[#parts + 1] = string.pack("<I1I2I2", last, #piece, ~#piece & 0xFFFF) .. piece
  end
  parts[#parts + 1] = string.pack(">I4", adler32(data))
  return table.concat(parts)
end

--- The bytes of a PNG file of `rows`: strings of one byte a pixel, 0 black, 255 white, all of one length.
---@param rows string[]
---@return string
function M.encode(rows)
  local width, lines = #rows[1], {}
  for i, row in ipairs(rows) do lines[i] = "\0" .. row end -- 0: no filter
  return "\x89PNG\r\n\x1a\n" .. chunk("IHDR", string.pack(">I4I4I1I1I1I1I1", width, #rows, 8, 0, 0, 0, 0))
    .. chunk("IDAT", stored(table.concat(lines))) .. chunk("IEND", "")
end

local function grey(v)
  return math.floor(math.max(0, math.min(1, v)) * 255 + 0.5)
end

--- Images side by side, `across` to a line, each with a black edge.
---@param images number[][][] nested tables (count, height, width) of values from 0 to 1
---@param across integer
---@return string[] rows for encode
function M.sheet(images, across)
  local height, width, rows = #images[1], #images[1][1], {}
  local blank = ("\0"):rep(across * (width + 2))
  for first = 1, #images, across do
    rows[#rows + 1] = blank
    for y = 1, height do
      local line = {}
      for i = first, math.min(first + across - 1, #images) do
        local pixels = {}
        for x = 1, width do pixels[x] = grey(images[i][y][x]) end
        line[#line + 1] = "\0" .. string.char(table.unpack(pixels)) .. "\0"
      end
      local row = table.concat(line)
      rows[#rows + 1] = row .. blank:sub(#row + 1)
    end
    rows[#rows + 1] = blank
  end
  return rows
end

return M
