local neap = require "neap"
local expect = require "support.expect"
local nn = neap.nn

--- A model with a slow copy of its weight that follows it, written at each commit.
local function teacher_and_student()
  local model = nn.Linear(3, 2)
  local student = model:parameters()[1]
  local teacher = student:clone()
  local update = neap.update {
    loss = function(x, y)
      neap.assign(teacher, teacher * 0.9 + student * 0.1)
      return neap.mse_loss(model(x), y)
    end,
    optimizer = neap.optim.sgd {params = model:parameters(), lr = 0.5},
  }
  return update, student, teacher
end

describe("neap.assign in an update", function()
  local input, target = neap.ones(4, 3), neap.zeros(4, 2)

  it("writes when the update commits, from the values the update began with", function()
    local update, student, teacher = teacher_and_student()
    local before = student:clone()
    update(input, target)
    assert.are_not.same(before:totable(), student:totable())
    local expected = before * 0.9 + before * 0.1
    assert.are.same(expected:totable(), teacher:totable())
    local followed, at = teacher:clone(), student:clone()
    update(input, target)
    assert.are.same((followed * 0.9 + at * 0.1):totable(), teacher:totable())
  end)

  it("writes nothing when the update is dropped", function()
    local update, _, teacher = teacher_and_student()
    update(input, target)
    local before = teacher:tobytes()
    update:step(0, input, target)
    update:drop()
    assert.are.equal(before, teacher:tobytes())
  end)

  it("is seen by what reads the tensor later, as outside of a trace", function()
    local function twice(count, sum, v)
      neap.assign(count, count + 1)
      neap.assign(sum, sum + count * v)
      neap.assign(count, count * 2)
      return count + sum
    end
    local count, sum = neap.ones(2), neap.zeros(2)
    local outside = {twice(count, sum, neap.tensor {3, 4}), count, sum}
    local traced_count, traced_sum = neap.ones(2), neap.zeros(2)
    local f = neap.compile(function(v) return twice(traced_count, traced_sum, v) end)
    local traced = {f(neap.tensor {3, 4}), traced_count, traced_sum}
    for i, t in ipairs(outside) do assert.are.same(t:totable(), traced[i]:totable()) end
    assert.are.same({4, 4}, traced_count:totable())
  end)

  it("moves running statistics once for each call of a layer", function()
    local function loop(run)
      local norm = nn.BatchNorm1d(2)
      local a, b = neap.tensor {{1, 2}, {3, 6}, {8, 1}}, neap.tensor {{0, -2}, {5, 6}, {1, 1}}
      run(norm, a, b)
      return norm.running_mean:totable(), norm.running_var:totable()
    end
    local mean, var = loop(function(norm, a, b) norm(a) norm(b) end)
    for _, run in ipairs {
      function(norm, a, b) neap.compile(function(u, v) return norm(u) + norm(v) end)(a, b) end,
      function(norm, a, b)
        neap.nn.value_and_grad(norm, function(u, v) return (norm(u) * norm(v)):sum() end)(a, b)
      end,
      function(norm, a, b)
        neap.update {
          loss = function(u, v) return (norm(u) * norm(v)):sum() end,
          optimizer = neap.optim.sgd {params = norm:parameters(), lr = 0.1},
        }(a, b)
      end,
    } do
      local m, v = loop(run)
      for i = 1, 2 do
        expect.near(mean[i], m[i])
        expect.near(var[i], v[i])
      end
    end
  end)

  it("broadcasts and converts in a trace as outside", function()
    local inside, outside = neap.zeros(2, 3), neap.zeros(2, 3)
    neap.compile(function(row)
      neap.assign(inside, row)
      return row:sum()
    end)(neap.tensor({1, 2, 3}, {dtype = "int64"}))
    neap.assign(outside, neap.tensor({1, 2, 3}, {dtype = "int64"}))
    assert.are.same(outside:totable(), inside:totable())
    neap.compile(function(u)
      neap.assign(inside, 0.5)
      return u
    end)(neap.ones(1))
    assert.are.same({{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}}, inside:totable())
    expect.fails("SHAPE", {"assign", "[2]", "[2, 3]"}, neap.compile(function(u)
      neap.assign(inside, u)
      return u
    end), neap.ones(2))
  end)

  it("is not mixed up with reads through another view", function()
    local t = neap.zeros(2, 3)
    local row = t[1]
    expect.fails("UNSUPPORTED", {"[2, 3]", "[3]", "another view", "assign_spec.lua"}, neap.compile(function(u)
      neap.assign(t, u)
      return row + 1
    end), neap.ones(2, 3))
    local other = t[2]
    local got = neap.compile(function(u) -- views that share no element are apart
      neap.assign(row, u)
      return other + row
    end)(neap.ones(3))
    assert.are.same({1, 1, 1}, got:totable())
    assert.are.same({{1, 1, 1}, {0, 0, 0}}, t:totable())
  end)

  it("writes at once outside of a trace", function()
    local t = neap.zeros(2)
    neap.assign(t, neap.tensor {1, 2})
    assert.are.same({1, 2}, t:totable())
  end)
end)

describe("Writing to a tensor's elements", function()
  it("is refused in a trace, with a hint at what to use", function()
    for _, write in ipairs {
      function(x) x[1] = 0 end, function(x) x[{1, {}}] = x:select(1, 2) end, function(x) x[{{}, {1, 2}}] = 3 end,
    } do
      local f = neap.compile(function(x)
        write(x)
        return x
      end)
      expect.fails("INVALID", {"t[...] = v", "neap.where", "neap.cat", "t:narrow"}, f, neap.ones(3, 3))
    end
  end)
end)

describe("Gradients of", function()
  local forms = {
    {"a row", function(t) return t[2] end, {0, 0, 0, 1, 1, 1, 0, 0, 0}},
    {"a row from the end", function(t) return t[-1] end, {0, 0, 0, 0, 0, 0, 1, 1, 1}},
    {"an element", function(t) return t[{1, 3}] end, {0, 0, 1, 0, 0, 0, 0, 0, 0}},
    {"a part of a row", function(t) return t[{2, {1, 2}}] end, {0, 0, 0, 1, 1, 0, 0, 0, 0}},
    {"columns from the end", function(t) return t[{{}, {-2, -1}}] end, {0, 1, 1, 0, 1, 1, 0, 1, 1}},
    {"a part of a column", function(t) return t[{{2, 3}, 1}] end, {0, 0, 0, 1, 0, 0, 1, 0, 0}},
  }
  for _, form in ipairs(forms) do
    it(form[1] .. " are where it was taken from", function()
      local _, grads = neap.value_and_grad(function(t) return (form[2](t) * 1):sum() end)(neap.ones(3, 3))
      expect.near_all(form[3], grads[1])
    end)
  end
end)
