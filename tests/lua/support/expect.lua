--- What the specs of the standard library share.
local M = {}

--- The error that fn raises; fails when it raises none.
function M.error_of(fn, ...)
  local ok, err = pcall(fn, ...)
  assert(not ok, "expected an error, got none")
  return err
end

--- Fails unless fn raises an error object of this code whose text holds all the words.
function M.fails(code, words, fn, ...)
  local err = M.error_of(fn, ...)
  assert(type(err) == "table", "expected an error object, got " .. tostring(err))
  assert(err.code == code, ("expected the code %s, got %s: %s"):format(code, tostring(err.code), tostring(err)))
  for _, word in ipairs(type(words) == "table" and words or {words}) do
    assert(tostring(err):find(word, 1, true), ("expected %q in %q"):format(word, tostring(err)))
  end
  return err
end

--- Fails unless two numbers differ by at most `tolerance` (1e-6 when left out).
function M.near(expected, got, tolerance)
  local off = math.abs(expected - got)
  -- A NaN is never near.
  assert(off == off and off <= (tolerance or 1e-6), ("expected %.9g, got %.9g"):format(expected, got))
end

local function flatten(t, out)
  if type(t) ~= "table" then
    out[#out + 1] = t
    return out
  end
  for _, v in ipairs(t) do flatten(v, out) end
  return out
end

--- The elements of a tensor in one list.
function M.values(t)
  return flatten(t:totable(), {})
end

--- Fails unless the elements of a tensor are near to a list.
function M.near_all(expected, tensor, tolerance)
  local got = M.values(tensor)
  assert(#expected == #got, ("expected %d elements, got %d"):format(#expected, #got))
  for i, v in ipairs(expected) do M.near(v, got[i], tolerance) end
end

--- Whether two tables of tensors by path hold the same bits.
function M.same_bits(a, b)
  local n = 0
  for path, t in pairs(a) do
    n = n + 1
    if t:tobytes() ~= b[path]:tobytes() then return false, path end
  end
  for _ in pairs(b) do n = n - 1 end
  return n == 0
end

--- A path for a file that does not exist yet; removed by M.remove_files.
local made = {}
function M.path(ending)
  local path = os.tmpname()
  os.remove(path)
  made[#made + 1] = path .. (ending or ".h5")
  return made[#made]
end

--- Removes the files at all paths given out, and those that were made beside them.
function M.remove_files()
  for _, path in ipairs(made) do
    for _, more in ipairs {"", ".1", ".2", ".new"} do os.remove(path .. more) end
  end
  made = {}
end

return M
