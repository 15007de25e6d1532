--- Counter-based random integers in plain Lua: the same on every machine, and apart from the engine's own
--- numbers, so that the order of samples does not depend on what else is drawn.
--- SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
---@class neap.data.random
local M = {}

local GOLDEN <const> = 0x9E3779B97F4A7C15

--- Mixes 64 bits so that each input bit moves about half of the output bits.
---@param z integer
---@return integer
function M.mix(z)
  z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
  z = (z ~ (z >> 27)) * 0x94D049BB133111EB
  return z ~ (z >> 31)
end

--- The n-th number of a stream: 64 random bits.
---@param key integer names the stream
---@param n integer from 1
---@return integer
function M.at(key, n)
  return M.mix(key + n * GOLDEN)
end

--- A stream's key out of integers: a seed, an epoch, ...
---@param ... integer
---@return integer
function M.key(...)
  local key = 0
  for _, n in ipairs {...} do key = M.mix((key ~ n) + GOLDEN) end
  return key
end

--- A key of a text, without the sign bit.
---@param text string
---@param seed integer
---@return integer
function M.hash(text, seed)
  local h = M.key(seed, #text)
  for i = 1, #text do h = M.mix((h ~ text:byte(i)) + GOLDEN) end
  return h & math.maxinteger
end

--- The numbers 1 to n in an order that `key` alone decides (Fisher and Yates).
---@param n integer
---@param key integer
---@return integer[]
function M.permutation(n, key)
  local order = {}
  for i = 1, n do order[i] = i end
  for i = n, 2, -1 do
    -- 63 bits over i: the bias is below i / 2^63.
    local k = (M.at(key, i) & math.maxinteger) % i + 1
    order[i], order[k] = order[k], order[i]
  end
  return order
end

return M
