local neap = require "neap"
local core = require "neap.core"
local expect = require "support.expect"

local function raises(code, fn, ...) return expect.fails(code, {...}, fn) end

describe("a tensor", function()
  it("is made of nested tables, numbers being fp32", function()
    local t = neap.tensor {{1, 2, 3}, {4, 5, 6.5}}
    assert.are.same({2, 3}, t.shape)
    assert.are.equal("fp32", t.dtype)
    assert.are.equal(2, t.ndim)
    assert.are.equal(6, t:numel())
    assert.are.same({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.5}}, t:totable())
    assert.are.equal("float", math.type(t:totable()[1][1]))
  end)

  it("is bool when all its elements are booleans", function()
    local t = neap.tensor {true, false}
    assert.are.equal("bool", t.dtype)
    assert.are.same({true, false}, t:totable())
  end)

  it("takes a dtype and a shape", function()
    local t = neap.tensor({1, 2, 3, 4}, {dtype = "int64", shape = {2, 2}})
    assert.are.same({{1, 2}, {3, 4}}, t:totable())
    assert.are.equal("integer", math.type(t:totable()[2][1]))
  end)

  it("has dtypes by both of their names", function()
    assert.are.equal("fp64", neap.zeros(1, {dtype = "float64"}).dtype)
    assert.are.equal("uint8", neap.zeros(1, {dtype = "uint8"}).dtype)
  end)

  it("may be a scalar or empty", function()
    local scalar = neap.tensor(2.5)
    assert.are.same({}, scalar.shape)
    assert.are.equal(2.5, scalar:item())
    assert.are.equal(2.5, scalar:totable())
    assert.are.same({0}, neap.tensor {}.shape)
    assert.are.same({2, 0}, neap.zeros(2, 0).shape)
    assert.are.same({{}, {}}, neap.zeros(2, 0):totable())
  end)

  it("keeps the values that its dtype can hold", function()
    local big = neap.tensor({math.maxinteger, math.mininteger}, {dtype = "int64"})
    assert.are.same({math.maxinteger, math.mininteger}, big:totable())
    assert.are.equal(1 / 3, neap.tensor(1 / 3, {dtype = "fp64"}):item())
    assert.are_not.equal(1 / 3, neap.tensor(1 / 3):item())
    local specials = neap.tensor {0 / 0, math.huge, -math.huge}:totable()
    assert.are_not.equal(specials[1], specials[1])
    assert.are.same({math.huge, -math.huge}, {specials[2], specials[3]})
  end)

  it("survives the trip to bytes and back", function()
    local t = neap.tensor {{1, -2}, {0.5, 3}}
    local bytes = t:tobytes()
    assert.are.equal(16, #bytes)
    assert.are.same(t:totable(), neap.from_bytes(bytes, {dtype = "fp32", shape = {2, 2}}):totable())
    assert.are.same({1, 0, 255}, neap.from_bytes("\1\0\255", {dtype = "uint8"}):totable())
  end)

  it("is large enough to need more than one staging buffer", function()
    local n = 5000
    local values = {}
    for i = 1, n do values[i] = (i * 7919) % 1000 + 0.5 end
    assert.are.same(values, neap.tensor(values):totable())
    assert.are.same(values, neap.from_bytes(neap.tensor(values):tobytes()):totable())
  end)

  it("refuses ragged tables and strange elements, naming the place", function()
    raises("SHAPE", function() return neap.tensor {{1, 2}, {3}} end, "[2]", "1 entries", "2")
    raises("SHAPE", function() return neap.tensor {{1, 2}, 3} end, "[2]", "3")
    raises("SHAPE", function() return neap.tensor {1, {2}} end, "[2]", "a table")
    raises("DTYPE", function() return neap.tensor {{1, 2}, {3, "x"}} end, "[2][2]", "'x'")
    raises("DTYPE", function() return neap.tensor {true, 1} end, "[2]", "mixed")
    raises("DTYPE", function() return neap.tensor {neap.zeros(2)} end, "neap.stack")
    raises("DTYPE", function() return neap.tensor(nil) end, "nil")
    raises("INVALID", function() return neap.tensor {x = 1} end, "named keys")
  end)

  it("refuses values that its dtype cannot hold", function()
    raises("RANGE", function() return neap.tensor({1, 3.5}, {dtype = "int64"}) end, "[2]", "3.5", "int64")
    raises("RANGE", function() return neap.tensor({256}, {dtype = "uint8"}) end, "256", "uint8")
    raises("RANGE", function() return neap.tensor({1 << 31}, {dtype = "int32"}) end, "int32")
    raises("RANGE", function() return neap.tensor({2}, {dtype = "bool"}) end, "bool")
    raises("RANGE", function() return neap.from_bytes("\2", {dtype = "bool"}) end, "byte 1")
    assert.are.same({3}, neap.tensor({3.0}, {dtype = "int64"}):totable())
  end)

  it("refuses sizes that make no sense before it reserves anything", function()
    local before = neap.memory().in_use
    raises("RANGE", function() return neap.zeros(0 / 0) end, "zeros", "NaN")
    raises("RANGE", function() return neap.zeros(2.5) end, "2.5")
    raises("SHAPE", function() return neap.zeros(2, -1) end, "-1")
    raises("RANGE", function() return neap.zeros(1 << 40, 1 << 40) end, "zeros", "2^62")
    raises("RANGE", function() return neap.randn {math.maxinteger} end, "randn")
    raises("SHAPE", function() return neap.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1) end, "8 dimensions")
    raises("INVALID", function() return neap.zeros("2") end, "'2'")
    raises("INVALID", function() return neap.zeros {2, dtype = "int64"} end, "'dtype'")
    raises("SHAPE", function() return neap.tensor({1, 2, 3}, {shape = {2, 2}}) end, "[2, 2]", "3 elements")
    raises("SHAPE", function() return neap.from_bytes("abc", {dtype = "fp32", shape = {1}}) end, "3 bytes", "4")
    assert.are.equal(before, neap.memory().in_use)
  end)

  it("refuses unknown options and dtypes by name", function()
    raises("INVALID", function() return neap.zeros(2, {type = "fp32"}) end, "'type'", "dtype")
    raises("DTYPE", function() return neap.zeros(2, {dtype = "float"}) end, "'float'", "fp32")
  end)

  it("prints its values when it is small, and what it is when it is large", function()
    assert.are.equal("tensor fp32 [2, 2] {{1, 2}, {3, 4.5}}", tostring(neap.tensor {{1, 2}, {3, 4.5}}))
    assert.are.equal("tensor bool [1] {true}", tostring(neap.tensor {true}))
    assert.are.equal("tensor fp32 [50, 50]", tostring(neap.zeros(50, 50)))
  end)
end)

describe("making tensors", function()
  it("fills with zeros, ones and any value", function()
    assert.are.same({{0, 0}, {0, 0}}, neap.zeros(2, 2):totable())
    assert.are.same({1, 1, 1}, neap.ones({3}, {dtype = "int32"}):totable())
    assert.are.same({2.5, 2.5}, neap.full({2}, 2.5):totable())
    assert.are.same({true, true}, neap.full({2}, true):totable())
    local like = neap.zeros_like(neap.tensor({1, 2}, {dtype = "int64"}))
    assert.are.same({"int64", {0, 0}}, {like.dtype, like:totable()})
    assert.are.same({1, 1}, neap.ones_like(neap.zeros(2)):totable())
  end)

  it("counts with arange", function()
    assert.are.same({0, 1, 2}, neap.arange(3):totable())
    assert.are.equal("int64", neap.arange(3).dtype)
    assert.are.same({1, 3}, neap.arange(1, 5, 2):totable())
    assert.are.same({5, 4, 3}, neap.arange(5, 2, -1):totable())
    assert.are.same({0, 0.5, 1}, neap.arange(0, 1.5, 0.5):totable())
    assert.are.equal("fp32", neap.arange(0, 1.5, 0.5).dtype)
    assert.are.same({}, neap.arange(3, 1):totable())
    raises("RANGE", function() return neap.arange(1, 2, 0) end, "step")
  end)

  it("draws numbers that the seed decides", function()
    neap.manual_seed(7)
    local a, b = neap.rand(1000), neap.randn(1000)
    neap.manual_seed(7)
    assert.are.same(a:totable(), neap.rand(1000):totable())
    assert.are.same(b:totable(), neap.randn(1000):totable())
    neap.manual_seed(8)
    assert.are_not.same(a:totable(), neap.rand(1000):totable())
  end)

  it("draws from the distributions it says", function()
    neap.manual_seed(1)
    local n, low, high, sum, square = 20000, math.huge, -math.huge, 0, 0
    for _, x in ipairs(neap.rand(n):totable()) do low, high, sum = math.min(low, x), math.max(high, x), sum + x end
    assert.is_true(low >= 0 and low < 0.01 and high < 1 and high > 0.99)
    assert.is_true(math.abs(sum / n - 0.5) < 0.01)
    sum = 0
    for _, x in ipairs(neap.randn(n):totable()) do sum, square = sum + x, square + x * x end
    assert.is_true(math.abs(sum / n) < 0.03 and math.abs(square / n - 1) < 0.05)
    raises("DTYPE", function() return neap.rand(2, {dtype = "int64"}) end, "int64")
  end)
end)

describe("indexing", function()
  local t
  before_each(function() t = neap.arange(24):reshape(2, 3, 4) end)

  it("selects by position, from the end when negative", function()
    assert.are.same({{12, 13, 14, 15}, {16, 17, 18, 19}, {20, 21, 22, 23}}, t[2]:totable())
    assert.are.same(t[2]:totable(), t[-1]:totable())
    assert.are.same(t[2]:totable(), t[2.0]:totable())
    assert.are.equal(6, t[{1, 2, 3}]:item())
  end)

  it("takes ranges with both ends, and everything", function()
    assert.are.same({{1, 2}, {5, 6}, {9, 10}}, t[{1, {}, {2, 3}}]:totable())
    assert.are.same({2, 2, 4}, t[{{}, {-2, -1}}].shape)
    assert.are.same({{3}, {15}}, t[{{}, {1, 1}, 4}]:totable())
    assert.are.same({2, 0, 4}, t[{{}, {2, 1}}].shape)
  end)

  it("shares storage along the first dimension and copies along others", function()
    local first, column = t[1], t[{{}, 1, 1}]
    t[{1, 1, 1}] = 100
    assert.are.equal(100, first[{1, 1}]:item())
    assert.are.equal(0, column[1]:item())
  end)

  it("says that positions start at 1", function()
    raises("RANGE", function() return t[0] end, "position 0", "start at 1", "labels")
    raises("RANGE", function() return t:select(2, 0) end, "select", "start at 1")
    raises("RANGE", function() return t:sum(0) end, "sum", "start at 1")
  end)

  it("refuses what is outside", function()
    raises("RANGE", function() return t[3] end, "3", "dimension 1", "2 entries")
    raises("RANGE", function() return t[{1, -4}] end, "-4", "dimension 2", "3 entries")
    raises("RANGE", function() return t[1.5] end, "1.5")
    raises("RANGE", function() return t[{{3, 1}}] end, "3")
    raises("RANGE", function() return t[{{}, {3, 1}}] end, "backwards")
    raises("INVALID", function() return t[{{1, 2, 3}}] end, "3 entries")
    raises("INVALID", function() return t[true] end, "true")
    raises("SHAPE", function() return t[{1, 1, 1, 1}] end, "4 positions", "[2, 3, 4]")
    raises("RANGE", function() return t:narrow(3, 4, 2) end, "narrow", "position 4", "dimension 3")
  end)

  it("assigns numbers and tensors, broadcast", function()
    local m = neap.zeros(2, 3)
    m[1] = 5
    m[{2, {2, 3}}] = neap.tensor {7, 8}
    assert.are.same({{5, 5, 5}, {0, 7, 8}}, m:totable())
    m[{{}, 1}] = neap.tensor {1, 2}
    assert.are.same({{1, 5, 5}, {2, 7, 8}}, m:totable())
    m[{}] = neap.tensor({1, 2, 3}, {dtype = "int64"})
    assert.are.same({{1, 2, 3}, {1, 2, 3}}, m:totable())
    raises("SHAPE", function() m[1] = neap.tensor {1, 2} end, "[2]", "[3]")
    raises("INVALID", function() m[1] = "x" end, "'x'")
    raises("INVALID", function() m.name = 1 end, "name")
  end)

  it("copies overlapping parts of itself as if they were apart", function()
    local v = neap.arange(5)
    v[{{2, 5}}] = v[{{1, 4}}]
    assert.are.same({0, 0, 1, 2, 3}, v:totable())
  end)
end)

describe("copies", function()
  it("clone has storage of its own, detach has not", function()
    local t = neap.tensor {1, 2}
    local clone, same = t:clone(), t:detach()
    t[1] = 9
    assert.are.same({1, 2}, clone:totable())
    assert.are.same({9, 2}, same:totable())
  end)

  it("copy_ writes values, converting and broadcasting", function()
    local t = neap.zeros(2, 2)
    assert.are.equal(t, t:copy_(neap.tensor({1, 2}, {dtype = "int64"})))
    assert.are.same({{1, 2}, {1, 2}}, t:totable())
    raises("SHAPE", function() t:copy_(neap.zeros(3)) end, "[3]", "[2, 2]")
  end)
end)

describe("closing", function()
  it("gives the bytes back at once and makes later use an error", function()
    local before = neap.memory().in_use
    local t = neap.zeros(1000)
    local view = t:reshape(10, 100)
    assert.is_true(neap.memory().in_use >= before + 4000)
    t:close()
    t:close()
    assert.are.equal(before, neap.memory().in_use)
    raises("CLOSED", function() return t + 1 end, "closed", "[1000]")
    raises("CLOSED", function() return view:sum() end, "closed")
    raises("CLOSED", function() return t:totable() end, "closed")
    assert.is_truthy(tostring(t):find("closed", 1, true))
  end)

  it("of a view leaves the tensor alone", function()
    local t = neap.tensor {1, 2}
    t[1]:close()
    assert.are.same({1, 2}, t:totable())
  end)

  it("happens at the end of a scope", function()
    collectgarbage()
    collectgarbage()
    local before = neap.memory().in_use
    do
      local t <close> = neap.zeros(1000)
      assert.is_true(neap.memory().in_use > before)
      assert.are.equal(1000, t:numel())
    end
    assert.are.equal(before, neap.memory().in_use)
  end)
end)

describe("memory", function()
  it("is given back by the collector, which sees the bytes of tensors", function()
    collectgarbage()
    local before, highest = neap.memory().in_use, 0
    for _ = 1, 400 do
      local t = neap.zeros(256, 1024)
      assert.are.equal(262144, t:numel())
      highest = math.max(highest, neap.memory().in_use - before)
    end
    assert.is_true(highest < 200 * 1048576, ("%d bytes were held by dead tensors"):format(highest))
  end)

  it("is collected before a request is refused", function()
    collectgarbage()
    local base = neap.memory().in_use
    neap.set_memory_limit(base + (24 << 20), "now")
    finally(function() neap.set_memory_limit(nil) end)
    collectgarbage("stop")
    for _ = 1, 20 do assert.are.equal(1 << 20, neap.zeros(1 << 20):numel()) end
    collectgarbage("restart")
    raises("OOM", function() return neap.zeros(64 << 20) end, "zeros")
    assert.are.same({1, 1}, neap.ones(2):totable())
  end)

  it("says how many bytes an OOM asked for", function()
    local base = neap.memory().in_use
    neap.set_memory_limit(base + (1 << 20))
    finally(function() neap.set_memory_limit(nil) end)
    local ok, err = pcall(neap.zeros, 1 << 20)
    assert.is_false(ok)
    assert.are.equal("OOM", err.code)
    assert.are.equal(4 << 20, err.bytes)
  end)

  it("is counted by owner", function()
    local kept = neap.zeros(1000)
    local m = neap.memory()
    assert.is_nil(m.budget)
    local sum = 0
    for _, bytes in pairs(m.by_owner) do sum = sum + bytes end
    assert.are.equal(m.in_use, sum)
    assert.is_true(m.peak >= m.in_use and m.reserved >= m.in_use and m.third_party >= 0)
    local holders = core.memory_holders()
    for i = 2, #holders do assert.is_true(holders[i - 1].bytes >= holders[i].bytes) end
    assert.are.equal(1000, kept:numel())
  end)

  it("takes limits as numbers and as text, and refuses others", function()
    finally(function() neap.set_memory_limit(nil) end)
    neap.set_memory_limit("1GiB")
    assert.are.equal(1 << 30, neap.memory().budget)
    neap.set_memory_limit(2 << 30, "next")
    assert.are.equal(2 << 30, neap.memory().budget)
    neap.set_memory_limit(nil)
    assert.is_nil(neap.memory().budget)
    raises("RANGE", function() neap.set_memory_limit(-1) end, "-1")
    raises("RANGE", function() neap.set_memory_limit("64 elephants") end, "64 elephants")
    raises("INVALID", function() neap.set_memory_limit(1 << 30, "later") end, "'later'")
  end)

  it("moves parameters under their own name", function()
    local before = neap.memory().by_owner.parameters
    local t = core.parameter(neap.zeros(1000))
    assert.is_true(core.is_parameter(t))
    assert.is_false(core.is_parameter(neap.zeros(1)))
    assert.are.equal(before + 4032, neap.memory().by_owner.parameters)
    assert.are.same({0, 0}, t[{{1, 2}}]:totable())
    raises("INVALID", function() core.parameter(t[{{1, 2}}]) end, "clone")
    raises("DTYPE", function() core.parameter(neap.zeros(2, {dtype = "int64"})) end, "int64")
  end)
end)
