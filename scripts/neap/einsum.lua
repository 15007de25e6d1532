--- Einstein's sums, out of transposes, matrix products and sums: neap.einsum("bij,bjk->bik", a, b).
--- Operands are joined from left to right. Letters name dimensions; "..." stands for the others.
local core = require "neap.core"
local check = require "neap.check"

local WHAT <const> = "neap.einsum"

-- Labels -----------------------------------------------------------------------------------------------

--- The labels of one term: letters, and ".1", ".2" from the right for what the dots stand for.
local function labels_of(term, ndim, which)
  local before, dots, after = term:match "^(%a*)(%.?%.?%.?)(%a*)$"
  if not before or dots ~= "" and dots ~= "..." then
    check.fail("INVALID", "%s: term %q, expected letters and at most one \"...\"", WHAT, term)
  end
  local hidden = ndim - #before - #after
  if hidden < 0 or dots == "" and hidden > 0 then
    check.fail("SHAPE", "%s: term %q names %d dimensions, but input %d has %d", WHAT, term, #before + #after, which,
      ndim)
  end
  local labels = {}
  for letter in before:gmatch "." do labels[#labels + 1] = letter end
  for i = hidden, 1, -1 do labels[#labels + 1] = "." .. i end
  for letter in after:gmatch "." do labels[#labels + 1] = letter end
  return labels, dots ~= "" and hidden or 0
end

local function set_of(...)
  local set = {}
  for _, list in ipairs {...} do
    for _, label in ipairs(list) do set[label] = true end
  end
  return set
end

--- Without "->": what the dots stand for, then the letters that occur once, sorted.
local function implied_output(operands, hidden)
  local counts, output, letters = {}, {}, {}
  for _, operand in ipairs(operands) do
    for _, label in ipairs(operand.labels) do counts[label] = (counts[label] or 0) + 1 end
  end
  for i = hidden, 1, -1 do output[#output + 1] = "." .. i end
  for label, n in pairs(counts) do
    if n == 1 and label:match "^%a$" then letters[#letters + 1] = label end
  end
  table.sort(letters)
  return table.move(letters, 1, #letters, #output + 1, output)
end

local function check_output(output, operands)
  local known, seen = {}, {}
  for _, operand in ipairs(operands) do
    for _, label in ipairs(operand.labels) do known[label] = true end
  end
  for _, label in ipairs(output) do
    if not known[label] then check.fail("INVALID", "%s: the output names %q, which no input has", WHAT, label) end
    if seen[label] then check.fail("INVALID", "%s: the output names %q twice", WHAT, label) end
    seen[label] = true
  end
end

local function parse(equation, tensors)
  check.value(WHAT, "the equation", equation, {kind = "string"})
  local text = equation:gsub("%s", "")
  local left, right = text:match "^(.-)%->(.*)$"
  left = left or text
  local operands, hidden = {}, 0
  for term in (left .. ","):gmatch "([^,]*)," do
    local which = #operands + 1
    local x = tensors[which]
    if not check.is_tensor(x) then
      check.fail("INVALID", "%s: input %d of %q is %s, expected a tensor", WHAT, which, equation, check.describe(x))
    end
    local labels, dots = labels_of(term, x.ndim, which)
    operands[which], hidden = {x = x, labels = labels}, math.max(hidden, dots)
  end
  if tensors.n > #operands then
    check.fail("INVALID", "%s: %q has %d terms, but there are %d inputs", WHAT, equation, #operands, tensors.n)
  end
  local output = implied_output(operands, hidden)
  if right then
    local letters = #right:gsub("%.", "")
    output = labels_of(right, letters + (right:find(".", 1, true) and hidden or 0), 0)
  end
  check_output(output, operands)
  return operands, output
end

-- One operand ------------------------------------------------------------------------------------------

local function find(list, label)
  for i, v in ipairs(list) do
    if v == label then return i end
  end
end

--- The operand with its dimensions in the order of `labels`, which are its own.
local function arrange(operand, labels)
  local dims, same = {}, true
  for i, label in ipairs(labels) do
    dims[i] = find(operand.labels, label)
    same = same and dims[i] == i
  end
  return same and operand.x or core.permute(operand.x, dims)
end

local function without(labels, gone)
  local kept = {}
  for _, label in ipairs(labels) do
    if not gone[label] then kept[#kept + 1] = label end
  end
  return kept
end

--- The diagonal of dimensions i < j, in the place of i: with one more column than rows, it lies in the first column.
local function diagonal(operand, i, j)
  local labels, order = operand.labels, {}
  for d = 1, #labels do
    if d ~= i and d ~= j then order[#order + 1] = d end
  end
  local rest = #order
  order[rest + 1], order[rest + 2] = i, j
  local x = core.permute(operand.x, order)
  local shape = x.shape
  local n, m = shape[rest + 1], shape[rest + 2]
  if n ~= m then
    check.fail("SHAPE", "%s: %q names dimensions of %d and %d entries in one input", WHAT, labels[i], n, m)
  end
  local flat = table.move(shape, 1, rest, 1, {})
  flat[rest + 1] = n * n
  x = core.pad(core.reshape(x, flat), {0, n})
  flat[rest + 1], flat[rest + 2] = n, n + 1
  x = core.narrow(core.reshape(x, flat), -1, 1, 1)
  flat[rest + 2] = nil
  local kept = {}
  for _, d in ipairs(order) do kept[#kept + 1] = labels[d] end
  kept[#kept] = nil
  return {x = core.reshape(x, flat), labels = kept}
end

local function without_repeats(operand)
  for j = 2, #operand.labels do
    local i = find(operand.labels, operand.labels[j])
    if i < j then return without_repeats(diagonal(operand, i, j)) end
  end
  return operand
end

--- Sizes by label, and operands without the dimensions of 1 that are spread over larger ones.
local function agree(operands)
  local sizes = {}
  for _, operand in ipairs(operands) do
    for d, label in ipairs(operand.labels) do
      local size = operand.x.shape[d]
      if (sizes[label] or 1) ~= 1 and size ~= 1 and size ~= sizes[label] then
        check.fail("SHAPE", "%s: %q is %d in one input and %d in another", WHAT, label, sizes[label], size)
      end
      if (sizes[label] or 1) == 1 then sizes[label] = size end
    end
  end
  for _, operand in ipairs(operands) do
    local gone, shape = {}, {}
    for d, label in ipairs(operand.labels) do
      local size = operand.x.shape[d]
      gone[label] = size ~= sizes[label]
      if not gone[label] then shape[#shape + 1] = size end
    end
    if #shape < #operand.labels then
      operand.x, operand.labels = core.reshape(operand.x, shape), without(operand.labels, gone)
    end
  end
  return sizes
end

local function sum_out(operand, needed)
  local dims, gone = {}, {}
  for d, label in ipairs(operand.labels) do
    if not needed[label] then
      dims[#dims + 1], gone[label] = d, true
    end
  end
  if #dims == 0 then return operand end
  return {x = core.sum(operand.x, {dim = dims}), labels = without(operand.labels, gone)}
end

-- Two operands -----------------------------------------------------------------------------------------

local function concat(...)
  local out = {}
  for _, list in ipairs {...} do table.move(list, 1, #list, #out + 1, out) end
  return out
end

local function sizes_of(labels, sizes)
  local out = {}
  for i, label in ipairs(labels) do out[i] = sizes[label] end
  return out
end

local function product_of(list)
  local n = 1
  for _, v in ipairs(list) do n = n * v end
  return n
end

--- Labels that both have and are needed later, that both have and are not, that only one has.
local function groups(a, b, needed)
  local in_a, in_b = set_of(a.labels), set_of(b.labels)
  local both, summed, only_a, only_b = {}, {}, {}, {}
  for _, label in ipairs(a.labels) do
    local to = not in_b[label] and only_a or needed[label] and both or summed
    to[#to + 1] = label
  end
  for _, label in ipairs(b.labels) do
    if not in_a[label] then only_b[#only_b + 1] = label end
  end
  return both, summed, only_a, only_b
end

--- Nothing is summed: elements multiply, each operand spread over what only the other has.
local function multiply(a, b, both, only_a, only_b, sizes)
  local shape = sizes_of(concat(both, only_a), sizes)
  for _ = 1, #only_b do shape[#shape + 1] = 1 end
  local x = core.reshape(arrange(a, concat(both, only_a)), shape)
  shape = sizes_of(both, sizes)
  for _ = 1, #only_a do shape[#shape + 1] = 1 end
  local y = core.reshape(arrange(b, concat(both, only_b)), concat(shape, sizes_of(only_b, sizes)))
  return core.mul(x, y)
end

local function join(a, b, needed, sizes)
  local both, summed, only_a, only_b = groups(a, b, needed)
  local labels = concat(both, only_a, only_b)
  if #summed == 0 then return {x = multiply(a, b, both, only_a, only_b, sizes), labels = labels} end
  local front = sizes_of(both, sizes)
  local m, k, n = sizes_of(only_a, sizes), sizes_of(summed, sizes), sizes_of(only_b, sizes)
  -- (both..., m, k) and (both..., k, n)
  local left = core.reshape(arrange(a, concat(both, only_a, summed)), concat(front, {product_of(m), product_of(k)}))
  local right = core.reshape(arrange(b, concat(both, summed, only_b)), concat(front, {product_of(k), product_of(n)}))
  return {x = core.reshape(core.matmul(left, right), concat(front, m, n)), labels = labels}
end

-- All --------------------------------------------------------------------------------------------------

--- What is named in the output or later than operand i.
local function needed_after(operands, i, output)
  local needed = set_of(output)
  for later = i + 1, #operands do
    for _, label in ipairs(operands[later].labels) do needed[label] = true end
  end
  return needed
end

--- Labels that are needed or that the operand beside has.
local function kept_beside(needed, labels)
  local kept = set_of(labels)
  for label in pairs(needed) do kept[label] = true end
  return kept
end

--- Einstein's sums: products of tensors by letters for their dimensions, summed over those that the output does not
--- have. They become transposes, matrix products and sums, from the left to the right.
---@param equation string "bij,bjk->bik"; without "->" the output has the letters that occur once, sorted
---@param ... neap.Tensor
---@return neap.Tensor
local function einsum(equation, ...)
  local operands, output = parse(equation, table.pack(...))
  for i, operand in ipairs(operands) do operands[i] = without_repeats(operand) end
  local sizes = agree(operands)
  local result = operands[1]
  for i = 2, #operands do
    local needed = needed_after(operands, i, output)
    result = sum_out(result, kept_beside(needed, operands[i].labels))
    local other = sum_out(operands[i], kept_beside(needed, result.labels))
    result = join(result, other, needed, sizes)
  end
  return arrange(sum_out(result, set_of(output)), output)
end

return einsum
