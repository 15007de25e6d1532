-- What runs the examples of the documentation notices when one is wrong.

local function interpreter()
  local i = -1
  while arg[i - 1] do i = i - 1 end
  return arg[i]
end

--- What the runner prints for a page with these lines, and its exit code.
local function run(...)
  local path = os.tmpname()
  local f = assert(io.open(path, "w"))
  f:write(table.concat({...}, "\n"), "\n")
  f:close()
  local pipe = assert(io.popen(("'%s' tests/docs/run.lua %s 2>&1"):format(interpreter(), path)))
  local text = pipe:read "a"
  local _, _, code = pipe:close()
  os.remove(path)
  return text, code
end

local function exists(path)
  local f = io.open(path)
  if f then f:close() end
  return f ~= nil
end

describe("examples in the documentation", function()
  it("pass when they print what they tell", function()
    local text, code = run(
      "```lua", "print(1 + 1)  --> 2", "for i = 1, 2 do print(i) end  --> 1", "--> 2", "```",
      "```lua", "print 'no comment'", "```",
      "```lua", "print 'abc'  --> ab...", "print 'x'", "--> ...", "```")
    assert.equal(0, code, text)
    assert.truthy(text:find("3 passed, 0 failed", 1, true))
  end)

  it("fail when a line is other than told, missing or too many", function()
    for _, lines in ipairs {
      {"print(1 + 1)  --> 3"}, {"print 'a'  --> a", "--> b"}, {"print 'a'  --> a", "print 'b'"},
      {"print 'ab'  --> b..."}, {"error 'no'"},
    } do
      local text, code = run("```lua", table.concat(lines, "\n"), "```")
      assert.equal(1, code, text)
      assert.truthy(text:find("0 passed, 1 failed", 1, true))
    end
  end)

  it("fail when a file has none, or a block has no end", function()
    assert.equal(1, select(2, run("no blocks", "```sh", "false", "```")))
    local text, code = run("```lua", "print(1)")
    assert.equal(1, code)
    assert.truthy(text:find("has no end", 1, true))
  end)

  it("leave nothing behind", function()
    local text, code = run("```lua", "io.open('left.behind', 'w'):close()", "```")
    assert.equal(0, code, text)
    assert.falsy(exists "left.behind")
  end)
end)

describe("the reference", function()
  it("notices a public name that no page tells of", function()
    local add = [[require("neap").not_told_of = function() end]]
    local command = "'%s' -e '%s' tools/reference/main.lua --check 2>&1"
    local pipe = assert(io.popen(command:format(interpreter(), add)))
    local text = pipe:read "a"
    local _, _, code = pipe:close()
    assert.equal(1, code, text)
    assert.truthy(text:find("neap.not_told_of is in no page", 1, true), text)
  end)
end)
