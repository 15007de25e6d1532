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
  local x, y = neap.ones(4, 3), neap.zeros(4, 2)

  it("writes when the update commits, from the values the update began with", function()
    local update, student, teacher = teacher_and_student()
    local before = student:clone()
    update(x, y)
    assert.are_not.same(before:totable(), student:totable())
    local expected = before * 0.9 + before * 0.1
    assert.are.same(expected:totable(), teacher:totable())
    local followed, at = teacher:clone(), student:clone()
    update(x, y)
    assert.are.same((followed * 0.9 + at * 0.1):totable(), teacher:totable())
  end)

  it("writes nothing when the update is dropped", function()
    local update, _, teacher = teacher_and_student()
    update(x, y)
    local before = teacher:tobytes()
    update:step(0, x, y)
    update:drop()
    assert.are.equal(before, teacher:tobytes())
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
