local neap = require "neap"
local expect = require "support.expect"
local data = neap.data

local function numbers(n)
  return data.tensors {x = neap.arange(1, n + 1, 1):reshape {n, 1}, y = neap.arange(0, n, 1, {dtype = "int64"})}
end

--- Sizes of the batches, and the samples in the order in which they came.
local function walk(loader, epoch)
  local sizes, seen = {}, {}
  for batch in loader:epoch(epoch) do
    sizes[#sizes + 1] = batch.size
    for _, v in ipairs(expect.values(batch.x)) do seen[#seen + 1] = v // 1 | 0 end
  end
  return sizes, seen
end

local function sorted(list)
  local copy = table.move(list, 1, #list, 1, {})
  table.sort(copy)
  return copy
end

describe("A dataset", function()
  after_each(expect.remove_files)

  it("of tensors gives rows, together or picked", function()
    local set = numbers(5)
    assert.equal(5, set.size)
    local batch = set:fetch {2, 3}
    assert.same({{2.0}, {3.0}}, batch.x:totable())
    assert.same({1, 2}, batch.y:totable())
    batch = set:fetch {5, 1}
    assert.same({{5.0}, {1.0}}, batch.x:totable())
    assert.same({4, 0}, batch.y:totable())
  end)

  it("in a file is read when asked for", function()
    local path = expect.path()
    local labels = neap.tensor({7, 8, 9}, {dtype = "uint8"})
    assert(neap.save(path, {train = {x = neap.arange(0, 6, 1):reshape {3, 2}, y = labels}}))
    local set = assert(data.hdf5(path, {x = "train/x", y = "train/y"}))
    assert.equal(3, set.size)
    local batch = set:fetch {3, 1}
    assert.same({{4.0, 5.0}, {0.0, 1.0}}, batch.x:totable())
    assert.same({9, 7}, batch.y:totable())
    assert.same({{2.0, 3.0}, {4.0, 5.0}}, set:fetch({2, 3}).x:totable())
  end)

  it("in a missing file, or of a missing item, is an error that names it", function()
    expect.fails("NOT_FOUND", {"/nowhere/at.h5"}, data.hdf5, "/nowhere/at.h5", {x = "x"})
    local path = expect.path()
    assert(neap.save(path, {x = neap.zeros(2)}))
    expect.fails("NOT_FOUND", {"labels"}, data.hdf5, path, {x = "x", y = "labels"})
  end)

  it("written in Lua stacks tensors and makes vectors of numbers", function()
    local set = data.dataset {size = 3, get = function(i) return {x = neap.full({2}, i), y = i - 1, w = i / 2} end}
    local batch = set:fetch {3, 1}
    assert.same({{3.0, 3.0}, {1.0, 1.0}}, batch.x:totable())
    assert.same({2, 0}, batch.y:totable())
    assert.equal("int64", batch.y.dtype)
    assert.same({1.5, 0.5}, batch.w:totable())
    assert.equal("fp32", batch.w.dtype)
  end)

  it("is refused when its fields do not fit together", function()
    expect.fails("SHAPE", {'"x"', "3", '"y"', "2"}, data.tensors, {x = neap.zeros(3), y = neap.zeros(2)})
    expect.fails("SHAPE", {'"x"', "one value"}, data.tensors, {x = neap.tensor(1)})
    expect.fails("INVALID", {"x", "string"}, data.tensors, {x = "a"})
    expect.fails("INVALID", {"size"}, data.tensors, {size = neap.zeros(3)})
    expect.fails("INVALID", {"no fields"}, data.tensors, {})
    expect.fails("INVALID", {"size"}, data.dataset, {get = print})
  end)

  it("written in Lua is refused at the sample that is wrong", function()
    local function fetch(get) return data.dataset({size = 3, get = get}):fetch {1, 2} end
    expect.fails("INVALID", {"get(1)", "nil"}, fetch, function() end)
    expect.fails("INVALID", {"get(1).x", "string"}, fetch, function() return {x = "a"} end)
    expect.fails("SHAPE", {"get(2).x", "[2]", "[1]"}, fetch, function(i) return {x = neap.zeros(i)} end)
    expect.fails("INVALID", {"get(2).y", "missing"}, fetch, function(i) return {x = 1, y = i == 1 and 1 or nil} end)
    expect.fails("INVALID", {"get(2).x"}, fetch, function(i) return {x = i == 1 and 1 or neap.zeros(1)} end)
  end)
end)

describe("A loader", function()
  it("gives every sample once, the rest last", function()
    local sizes, seen = walk(data.loader {dataset = numbers(7), batch_size = 3}, 1)
    assert.same({3, 3, 1}, sizes)
    assert.same({1, 2, 3, 4, 5, 6, 7}, seen)
  end)

  it("drops the rest when asked to", function()
    local sizes = walk(data.loader {dataset = numbers(7), batch_size = 3, drop_last = true}, 1)
    assert.same({3, 3}, sizes)
  end)

  it("shuffles in an order that seed and epoch decide, and nothing else", function()
    local function order(seed, epoch, batch_size)
      local o = {dataset = numbers(20), batch_size = batch_size, shuffle = true, seed = seed}
      return select(2, walk(data.loader(o), epoch))
    end
    local first = order(1, 1, 3)
    assert.same(first, order(1, 1, 3))
    assert.same(first, order(1, 1, 7))
    assert.are_not.same(first, order(1, 2, 3))
    assert.are_not.same(first, order(2, 1, 3))
    assert.are_not.same(sorted(first), first)
    assert.same({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, sorted(first))
  end)

  it("puts each sample at each place about equally often", function()
    local loader, at_first = data.loader {dataset = numbers(4), batch_size = 1, shuffle = true}, {0, 0, 0, 0}
    for epoch = 1, 400 do
      loader:epoch(epoch)
      local k = loader:next().indices[1]
      at_first[k] = at_first[k] + 1
    end
    -- 100 each are expected; 5 standard deviations are 43.
    for _, n in ipairs(at_first) do assert.is_true(n > 57 and n < 143) end
  end)

  it("tells which samples a batch has", function()
    local loader = data.loader {dataset = numbers(5), batch_size = 2, shuffle = true, seed = 3}
    for batch in loader:epoch(2) do
      assert.equal(2, batch.epoch)
      for i, k in ipairs(batch.indices) do assert.equal(k, batch.x:totable()[i][1] // 1 | 0) end
    end
  end)

  it("ends each epoch of next() with one nil", function()
    local loader, sizes = data.loader {dataset = numbers(3), batch_size = 2}, {}
    for i = 1, 6 do
      local batch = loader:next()
      sizes[i] = batch and batch.size or 0
    end
    assert.same({2, 1, 0, 2, 1, 0}, sizes)
    assert.equal(3, loader:state().epoch)
  end)

  it("keeps every sample once when the batch size changes in the middle", function()
    local loader, seen = data.loader {dataset = numbers(20), batch_size = 8, shuffle = true}, {}
    for batch in loader:epoch(1) do
      for _, k in ipairs(batch.indices) do seen[#seen + 1] = k end
      loader:set_batch_size(3)
    end
    assert.equal(20, #seen)
    for i, k in ipairs(sorted(seen)) do assert.equal(i, k) end
  end)

  it("looks at the next batch without taking it", function()
    local loader = data.loader {dataset = numbers(3), batch_size = 2}
    assert.same({1, 2}, loader:peek().indices)
    assert.same({1, 2}, loader:next().indices)
    assert.same({3}, loader:peek().indices)
    loader:next()
    assert.is_nil(loader:peek())
    assert.same({epoch = 1, position = 3, batch_size = 2, seed = 0}, loader:state())
  end)

  it("knows better than a transform where a batch lies", function()
    local function lie(batch)
      batch.size, batch.position, batch.epoch, batch.indices = 7, 100, 9, {}
    end
    for _, transform in ipairs {lie, function(batch) lie(batch) return {x = batch.x, size = 7} end} do
      local loader = data.loader {dataset = numbers(5), batch_size = 2, transform = transform}
      loader:next()
      local batch = loader:next()
      assert.same({2, 2, 1, {3, 4}}, {batch.size, batch.position, batch.epoch, batch.indices})
      assert.equal(4, loader:state().position)
    end
  end)

  it("takes a batch again that was put back, in another size", function()
    local loader = data.loader {dataset = numbers(6), batch_size = 4}
    local batch = loader:next()
    loader:put_back(batch)
    loader:set_batch_size(2)
    assert.same({1, 2}, loader:next().indices)
    expect.fails("INVALID", "taken last", loader.put_back, loader, batch)
  end)

  it("goes on from its state", function()
    local function make() return data.loader {dataset = numbers(10), batch_size = 3, shuffle = true, seed = 5} end
    local loader = make()
    for _ = 1, 6 do loader:next() end
    local state = loader:state()
    local other = make()
    other:load_state(state)
    for _ = 1, 5 do
      local a, b = loader:next(), other:next()
      assert.same(a and a.indices, b and b.indices)
    end
  end)

  it("goes on in the middle of epoch(n) after load_state, and else begins it anew", function()
    local loader = data.loader {dataset = numbers(4), batch_size = 2}
    loader:load_state {epoch = 1, position = 2, batch_size = 2, seed = 0}
    assert.same({2}, (walk(loader, 1)))
    assert.same({2, 2}, (walk(loader, 1)))
  end)

  it("lets transform change or replace a batch", function()
    local loader = data.loader {
      dataset = numbers(4), batch_size = 2, transform = function(batch) batch.x = batch.x * 10 end,
    }
    assert.same({{10.0}, {20.0}}, loader:next().x:totable())
    loader = data.loader {dataset = numbers(4), batch_size = 2, transform = function(b) return {x = b.x, z = b.y} end}
    local batch = loader:next()
    assert.equal(2, batch.size)
    assert.same({0, 1}, batch.z:totable())
  end)

  it("refuses bad options by name", function()
    local set = numbers(3)
    expect.fails("INVALID", {"batch_size", "0"}, data.loader, {dataset = set, batch_size = 0})
    expect.fails("INVALID", {"batch_size", "2.5"}, data.loader, {dataset = set, batch_size = 2.5})
    expect.fails("INVALID", {"batchsize", "batch_size"}, data.loader, {dataset = set, batchsize = 2})
    expect.fails("INVALID", {"dataset"}, data.loader, {})
    expect.fails("INVALID", {"dataset", "fetch"}, data.loader, {dataset = {1, 2}})
    expect.fails("UNSUPPORTED", {"workers", "2"}, data.loader, {dataset = set, workers = 2})
    expect.fails("INVALID", {"epoch", "0"}, function() data.loader({dataset = set}):epoch(0) end)
    expect.fails("RANGE", {"position", "9", "3"}, function()
      data.loader({dataset = set}):load_state {epoch = 1, position = 9, batch_size = 1, seed = 0}
    end)
  end)
end)

describe("neap.save", function()
  --- A table in tables, `depth` of them, with v in the innermost.
  local function nested(depth, v)
    for _ = 1, depth do v = {x = v} end
    return v
  end

  it("refuses what could not be loaded again, and writes nothing then", function()
    local path = expect.path()
    assert(neap.save(path, {deep = nested(98, 1)}))
    assert.same({deep = nested(98, 1)}, neap.load(path))
    expect.fails("INVALID", {"nested deeper"}, neap.save, path, {deep = nested(99, {})})
    expect.fails("INVALID", {"nested deeper"}, neap.save, path, nested(66, neap.ones(1)))
    assert.same({deep = nested(98, 1)}, neap.load(path))
    assert.is_nil((neap.save(path, nested(65, neap.ones(1)))))
    assert.same({deep = nested(98, 1)}, neap.load(path))
    assert(neap.save(path, nested(64, neap.ones(1))))
    assert(neap.load(path))
  end)

  after_each(expect.remove_files)

  it("brings back tensors, nested tables and plain values", function()
    local path = expect.path()
    local t = {
      weights = {a = neap.tensor {1, 2}, list = {neap.zeros(1), neap.tensor({3}, {dtype = "int64"})}},
      name = "a net", rate = 0.1, steps = 3, whole = 2.0, done = true, sizes = {784, 10}, empty = "",
    }
    assert(neap.save(path, t))
    local back = assert(neap.load(path))
    assert.same({1.0, 2.0}, back.weights.a:totable())
    assert.same({3}, back.weights.list[2]:totable())
    assert.equal("int64", back.weights.list[2].dtype)
    assert.equal("a net", back.name)
    assert.equal(0.1, back.rate)
    assert.equal("integer", math.type(back.steps))
    assert.equal("float", math.type(back.whole))
    assert.is_true(back.done)
    assert.same({784, 10}, back.sizes)
    assert.equal("", back.empty)
  end)

  it("gives nil and an error for a file that is not there", function()
    local t, err = neap.load "/nowhere/at.h5"
    assert.is_nil(t)
    assert.truthy(tostring(err):find("/nowhere/at.h5", 1, true))
  end)

  it("refuses what is no plain data, by its name", function()
    expect.fails("INVALID", {"fn", "function"}, neap.save, expect.path(), {fn = print})
    expect.fails("INVALID", {"a/b"}, neap.save, expect.path(), {["a/b"] = 1})
    expect.fails("INVALID", {"path", "nil"}, neap.save, nil, {})
    local one = neap.ones(1)
    expect.fails("INVALID", {"the key 1", '"1"'}, neap.save, expect.path(), {[1] = one, ["1"] = one})
    expect.fails("INVALID", {"the table.a", '"2"'}, neap.save, expect.path(), {a = {one, 1, ["2"] = true}})
  end)
end)

describe("JSON", function()
  local json = require "neap.json"

  it("keeps plain data apart as they are", function()
    local t = {a = {1, 2.5, "x\n\"\\\1é", true}, b = {c = -3, d = 1e300}, e = 2.0, f = 0.1}
    local back = json.decode(json.encode(t))
    assert.same(t, back)
    assert.equal("integer", math.type(back.b.c))
    assert.equal("float", math.type(back.e))
  end)

  it("reads what others write", function()
    local text = ' { "a" : [1, 2, {}], "b": "\\u00e9\\ud83d\\ude00\\/", "c": null } '
    assert.same({a = {1, 2, {}}, b = "é😀/"}, json.decode(text))
    assert.equal(math.huge, json.decode "Infinity")
    assert.is_true(json.decode("NaN") ~= json.decode "NaN")
  end)

  it("says where text is wrong", function()
    local bad = {"", "{", "[1,", "[1 2]", '{"a" 1}', '"abc', "tru", "1 2", '"\\x"', "{1:2}", "-", ("["):rep(200)}
    for _, text in ipairs(bad) do
      expect.fails("CORRUPT", "JSON", json.decode, text)
    end
  end)

  it("refuses what it cannot hold", function()
    local cyclic = {}
    cyclic.a = cyclic
    expect.fails("INVALID", "contains itself", json.encode, cyclic)
    expect.fails("INVALID", {"t.a", "function"}, json.encode, {a = print}, "t")
    expect.fails("INVALID", {"t.a", "key 3"}, json.encode, {a = {[3] = 1}}, "t")
  end)
end)

describe("Sizes in bytes", function()
  local report = require "neap.report"

  it("are read with units", function()
    assert.equal(67108864, neap.parse_bytes "64MiB")
    assert.equal(1500000000, neap.parse_bytes "1.5 GB")
    assert.equal(2048, neap.parse_bytes "2k")
    assert.equal(77, neap.parse_bytes(77))
    for _, bad in ipairs {"", "MiB", "12 parsecs", "-3", -3, 1.5, "1.2.3", "1e400"} do
      assert.has_error(function() neap.parse_bytes(bad) end)
    end
  end)

  it("are told in human units", function()
    assert.equal("0 B", report.bytes(0))
    assert.equal("1023 B", report.bytes(1023))
    assert.equal("1.0 KiB", report.bytes(1024))
    assert.equal("1.0 MiB", report.bytes(1024 * 1024 - 1))
    assert.equal("64.0 MiB", report.bytes(64 << 20))
    assert.equal("1,234,567", report.count(1234567))
    assert.equal("12", report.count(12.7))
  end)

  it("are summed up by owner", function()
    local kept = neap.zeros(1000)
    local text = neap.memory_summary()
    assert.truthy(text:find "tensors")
    assert.truthy(text:find "in use")
    assert.equal(1000, kept:numel())
  end)
end)
