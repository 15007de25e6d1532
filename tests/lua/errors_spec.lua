local neap = require "neap"
local core = require "neap.core"
local expect = require "support.expect"

local function fail() return neap.ones(2, 3):matmul(neap.ones(2, 3)) end

describe("an error object", function()
  it("names op, shapes and the script's line", function()
    local err = expect.error_of(fail)
    assert.are.equal("SHAPE", err.code)
    assert.are.equal("matmul", err.op)
    assert.is_truthy(err.where:match("errors_spec%.lua:5$"), err.where)
    assert.is_truthy(err.shapes:find("[2, 3]", 1, true))
    assert.are.equal("string", type(err.message))
  end)

  it("prints well by itself and joined to strings", function()
    local err = expect.error_of(fail)
    local text = tostring(err)
    assert.is_truthy(text:match("^.*errors_spec%.lua:5: matmul: "), text)
    assert.are.equal("saw " .. text, "saw " .. err)
    assert.are.equal(text .. "!", err .. "!")
    assert.are.equal(text .. text, err .. err)
  end)

  it("does not say the op twice", function()
    local text = tostring(expect.error_of(function() return neap.ones(2):softmax() end))
    local _, times = text:gsub("softmax", "")
    assert.are.equal(1, times, text)
  end)

  it("is made by core.error with fields of its own", function()
    local err = core.error("STOPPED", "enough", {exit_code = 3})
    assert.are.same({"STOPPED", "enough", 3}, {err.code, err.message, err.exit_code})
    assert.is_truthy(tostring(err):match("errors_spec%.lua:%d+: enough$"))
    assert.are.equal("nowhere: x: m", tostring(core.error("X", "m", {op = "x", where = "nowhere"})))
    expect.fails("INVALID", "the message", core.error, "X")
  end)

  it("keeps no tensor alive", function()
    collectgarbage()
    collectgarbage()
    local before, kept = neap.memory().in_use, {}
    for i = 1, 5 do kept[i] = expect.error_of(function() return neap.ones(1000):matmul(neap.ones(1001)) end) end
    collectgarbage()
    collectgarbage()
    assert.are.equal(5, #kept)
    assert.are.equal(before, neap.memory().in_use)
  end)

  it("has the line of the user, not of the library, however deep it comes from", function()
    local function deep(n)
      if n == 0 then return neap.zeros(-1) end
      return (deep(n - 1))
    end
    assert.is_truthy(expect.error_of(deep, 20).where:match("errors_spec%.lua:%d+$"))
  end)

  it("passes through coroutines", function()
    local co = coroutine.create(function()
      coroutine.yield(neap.ones(2):sum():item())
      fail()
    end)
    local _, sum = coroutine.resume(co)
    assert.are.equal(2, sum)
    local ok, err = coroutine.resume(co)
    assert.is_false(ok)
    assert.are.equal("SHAPE", err.code)
  end)
end)

describe("userdata", function()
  it("keep their finalizers to themselves", function()
    assert.are.equal("neap.tensor", getmetatable(neap.ones(1)))
  end)

  it("are told apart", function()
    expect.fails("INVALID", {"sum", "a userdata"}, function() return neap.sum(io.stdout) end)
    expect.fails("INVALID", {"argument 1", "a tensor", "neap.graph"}, core.run, neap.ones(1))
    assert.is_true(core.is_tensor(neap.ones(1)))
    assert.is_false(core.is_tensor(io.stdout))
    assert.is_false(core.is_tensor({}))
  end)

  it("stay what they are when the library is loaded anew", function()
    local t, before = neap.ones(2), package.loaded["neap.core"]
    finally(function() package.loaded["neap.core"] = before end)
    package.loaded["neap.core"] = nil
    assert.are.equal(core, require "neap.core")
    assert.are.same({2, 2}, (t + neap.ones(2)):totable())
  end)

  it("survive finalizers that make tensors while the collector runs", function()
    local sum = 0
    for i = 1, 20 do
      setmetatable({}, {__gc = function() sum = sum + neap.full({10}, i):sum():item() end})
    end
    collectgarbage()
    collectgarbage()
    assert.are.equal(2100, sum)
  end)
end)

describe("files", function()
  after_each(expect.remove_files)

  it("that are not there are nil and an error", function()
    local t, err = core.hdf5.read("/nowhere/at/all.h5")
    assert.is_nil(t)
    assert.are.equal("NOT_FOUND", err.code)
    assert.is_truthy(tostring(err):find("/nowhere/at/all.h5", 1, true))
    local file, why = core.hdf5.open("/nowhere/at/all.h5")
    assert.is_nil(file)
    assert.are.equal("NOT_FOUND", why.code)
  end)

  it("that are damaged are nil and an error", function()
    local path = expect.path()
    local f = assert(io.open(path, "w"))
    f:write("this is no HDF5 file")
    f:close()
    local t, err = core.hdf5.read(path)
    assert.is_nil(t)
    assert.are.equal("CORRUPT", err.code)
  end)

  it("come back as they were written", function()
    local path = expect.path()
    assert.is_true(core.hdf5.write(path, {
      model = {["fc1.weight"] = neap.tensor {{1, 2}, {3, 4}}, steps = neap.tensor(7, {dtype = "int64"})},
      list = {neap.ones(1), neap.zeros(2)},
      attributes = {name = "run", epoch = 3, loss = 0.5, done = true, sizes = {1, 2}, rates = {0.1, 2}},
      empty = {},
    }))
    local t = assert(core.hdf5.read(path))
    assert.are.same({{1, 2}, {3, 4}}, t.model["fc1.weight"]:totable())
    assert.are.same({"int64", 7}, {t.model.steps.dtype, t.model.steps:item()})
    assert.are.same({1}, t.list["1"]:totable())
    assert.are.same({name = "run", epoch = 3, loss = 0.5, done = 1, sizes = {1, 2}, rates = {0.1, 2}}, t.attributes)
    assert.are.same({}, t.empty)
  end)

  it("give rows, in order or listed", function()
    local path = expect.path()
    local x = neap.arange(20):reshape(10, 2)
    assert(core.hdf5.write(path, {train = {x = x}}))
    local file <close> = assert(core.hdf5.open(path))
    assert.are.same({"train/x"}, file:items())
    local d = assert(file:dataset("train/x"))
    assert.are.same({{10, 2}, "int64"}, {d.shape, d.dtype})
    assert.are.same({{4, 5}, {6, 7}}, d:rows(3, 2):totable())
    assert.are.same({{18, 19}, {0, 1}, {2, 3}}, d:gather({10, 1, 2}):totable())
    assert.are.same({0, 2}, d:rows(11, 0).shape)
    expect.fails("RANGE", {"the first row", "0"}, d.rows, d, 0, 1)
    expect.fails("RANGE", {"the number of rows", "3"}, d.rows, d, 9, 3)
    expect.fails("RANGE", {"row 2 of the list", "11"}, d.gather, d, {1, 11})
    local none, err = file:dataset("train/y")
    assert.is_nil(none)
    assert.are.equal("NOT_FOUND", err.code)
    file:close()
    expect.fails("CLOSED", "closed", d.rows, d, 1, 1)
  end)

  it("are not written when the table holds what cannot be, and the old one stays", function()
    local path = expect.path()
    assert(core.hdf5.write(path, {x = neap.ones(2)}))
    expect.fails("DTYPE", {"group/n", "1", "attributes"}, core.hdf5.write, path, {group = {n = 1}})
    expect.fails("INVALID", "a/b", core.hdf5.write, path, {["a/b"] = neap.ones(1)})
    expect.fails("DTYPE", {"'f'", "a function"}, core.hdf5.write, path, {attributes = {f = print}})
    local circle = {}
    circle.again = circle
    expect.fails("INVALID", "circle", core.hdf5.write, path, circle)
    assert.are.same({1, 1}, assert(core.hdf5.read(path)).x:totable())
    local ok, err = core.hdf5.write("/nowhere/at/all.h5", {})
    assert.is_nil(ok)
    assert.is_truthy(tostring(err):find("/nowhere/at", 1, true))
  end)

  it("names the op that was called, when one it is made of finds bad data", function()
    local x, y = neap.ones(2, 3), neap.tensor({0, 7}, {dtype = "int64"})
    local program = neap.compile(function(a, b) return neap.cross_entropy(a, b) end)
    assert.are.equal("cross_entropy", expect.error_of(program, x, y).op)
    assert.are.equal("cross_entropy", expect.error_of(neap.cross_entropy, x, y).op)
    assert.are.equal("index_select", expect.error_of(neap.index_select, x, y, {dim = 1}).op)
  end)

  it("counts dims from 1, as scripts do", function()
    expect.fails("INVALID", "dim 1 is given twice", neap.sum, neap.ones(2, 2), {dim = {1, -2}})
    expect.fails("INVALID", "dim 2 is given twice", neap.permute, neap.ones(2, 2), {dims = {2, 2}})
  end)

  it("names who uses a tensor that was closed", function()
    local w = neap.ones(4, 3)
    local program = neap.compile(function(x) return neap.linear(x, w):sum() end)
    program(neap.ones(2, 3))
    w:close()
    local err = expect.fails("CLOSED", "fp32 [4, 3]", program, neap.ones(2, 3))
    assert.are.equal("linear", err.op)
    assert.is_truthy(err.where:match("errors_spec%.lua:%d+$"), err.where)
  end)

  it("refuses to slice a scalar, be it a tensor or a number", function()
    for _, x in ipairs {neap.full({}, 3), 3, 2147483647} do
      for _, dim in ipairs {1, -1} do
        expect.fails("SHAPE", "scalar", neap.narrow, x, {dim = dim, start = 1, length = 1})
        expect.fails("SHAPE", "scalar", neap.select, x, {dim = dim, index = 1})
        expect.fails("SHAPE", "scalar", neap.compile(function() return neap.select(x, dim, 1) end))
      end
    end
  end)

  it("refuses names that hold a zero byte", function()
    expect.fails("INVALID", "zero byte", neap.load, "a\0b.h5")
    expect.fails("INVALID", "zero byte", neap.save, "a\0b.h5", {})
  end)
end)
