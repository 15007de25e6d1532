--- Runs the code of the documentation: each ```lua block is a script of its own, each ```c block a program built
--- against the headers and the library. usage: build/neap tests/docs/run.lua [FILE.md...]
---
--- A comment `--> text` tells a line that the block prints. When there is one, all that is printed is told, in
--- order; a text that ends in `...` tells how its line begins, and a last `...` alone allows any rest. Blocks run
--- in folders of their own that are gone afterwards, with data, models and scripts beside them.

local function capture(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  return (text:gsub("\n$", ""))
end

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function interpreter()
  local i = -1
  while arg[i - 1] do i = i - 1 end
  return capture("command -v " .. quote(arg[i]))
end

local function read_lines(path)
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  return lines
end

local function write(path, text)
  local f <close> = assert(io.open(path, "w"))
  f:write(text)
end

local root, folder = capture "pwd", capture "mktemp -d"
local neap = capture("realpath " .. quote(interpreter()))
local build = neap:match "^(.*)/[^/]*$"

--- The fenced blocks of a file that name exactly a language which is run, with the line each begins at.
local function blocks(path)
  local list, block = {}, nil
  for n, line in ipairs(read_lines(path)) do
    local info = line:match "^```%s*(.-)%s*$"
    if block and info then
      if block.info == "lua" or block.info == "c" then list[#list + 1] = block end
      block = nil
    elseif info then
      block = {info = info, line = n, text = {}}
    elseif block then
      block.text[#block.text + 1] = line
    end
  end
  if block then error(("%s:%d: the block has no end"):format(path, block.line), 0) end
  return list
end

local commands = {
  lua = quote(neap) .. " example.lua",
  c = ("cc -std=c11 -Wall -Wextra -Werror -I%s -o example example.c -L%s -lneap -Wl,-rpath,%s && ./example"):format(
    quote(root .. "/engine"), quote(build .. "/lib"), quote(build .. "/lib")),
}

--- Runs a block in a fresh folder; whether it ended well, and the lines of its output and of its errors.
local function execute(block, place)
  local text = table.concat(block.text, "\n") .. "\n"
  assert(os.execute(("mkdir %s && ln -s %s/data %s/models %s/scripts %s"):format(
    quote(place), quote(root), quote(root), quote(root), quote(place))))
  write(place .. "/example." .. block.info, text)
  local ok = os.execute(("cd %s && { %s; } >out 2>err </dev/null"):format(quote(place), commands[block.info]))
  return ok, read_lines(place .. "/out"), read_lines(place .. "/err")
end

local function trimmed(line) return (line:gsub("%s+$", "")) end

local function told(block)
  local list = {}
  for _, line in ipairs(block.text) do
    local text = line:match "%-%->%s?(.*)$"
    if text then list[#list + 1] = trimmed(text) end
  end
  return list
end

local function is_as_told(line, text)
  local beginning = text:match "^(.+)%.%.%.$"
  return line == text or beginning and line:sub(1, #beginning) == beginning
end

--- What differs between what a block tells and what it printed, in words; nil when nothing does.
local function difference(texts, printed)
  if #texts == 0 then return nil end
  for i, text in ipairs(texts) do
    if text == "..." and i == #texts then return nil end
    if not printed[i] then return ("told %q, but nothing more was printed"):format(text) end
    if not is_as_told(trimmed(printed[i]), text) then
      return ("told %q, but %q was printed"):format(text, printed[i])
    end
  end
  if #printed > #texts then return ("%q was printed, but not told"):format(printed[#texts + 1]) end
end

local function run(block, name, place)
  local ok, printed, errors = execute(block, place)
  local problem = not ok and "it failed" or difference(told(block), printed)
  print(("%s  %s"):format(problem and "FAILED" or "ok    ", name))
  if not problem then return true end
  print("        " .. problem)
  for _, lines in ipairs {printed, errors} do
    for _, line in ipairs(lines) do print("        | " .. line) end
  end
end

local function run_all(files)
  local passed, failed = 0, 0
  for _, path in ipairs(files) do
    for _, block in ipairs(blocks(path)) do
      local name = ("%s:%d (%s)"):format(path, block.line, block.info)
      local ok = run(block, name, ("%s/%d"):format(folder, passed + failed))
      if ok then passed = passed + 1 else failed = failed + 1 end
    end
  end
  return passed, failed
end

local files = {table.unpack(arg)}
if #files == 0 then
  for path in capture("ls README.md docs/reference/*.md 2>/dev/null"):gmatch "[^\n]+" do files[#files + 1] = path end
end
local finished, passed, failed = pcall(run_all, files)
os.execute("rm -rf " .. quote(folder))
if not finished then error(passed, 0) end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and passed > 0 and 0 or 1)
