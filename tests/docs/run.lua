--- Runs the code of the documentation: each ```lua block is a script of its own, each ```c block a program
--- built against the headers and the library. usage: build/neap tests/docs/run.lua [FILE...]
local files = #arg > 0 and {table.unpack(arg)} or {"README.md"}
local passed, failed = 0, 0

--- The fenced blocks of a file with the line each begins at.
local function blocks(path)
  local list, block = {}, nil
  local n = 0
  for line in io.lines(path) do
    n = n + 1
    local language = line:match("^```(%w*)")
    if block and line:match("^```") then
      list[#list + 1], block = block, nil
    elseif language then
      block = {language = language, line = n, text = {}}
    elseif block then
      block.text[#block.text + 1] = line
    end
  end
  return list
end

local function write(path, text)
  local f <close> = assert(io.open(path, "w"))
  f:write(text)
end

local runner = arg[-1] or "build/neap"
for i = -1, -20, -1 do if arg[i] then runner = arg[i] end end

local function run(block, name)
  local base = os.tmpname()
  local source, log = base .. "." .. block.language, base .. ".log"
  write(source, table.concat(block.text, "\n") .. "\n")
  local command
  if block.language == "lua" then
    command = ("%s %s >%s 2>&1"):format(runner, source, log)
  else
    local root = runner:match("^(.*)/[^/]*$") or "."
    command = ("cc -std=c11 -Wall -Wextra -Werror -Iengine %s -o %s.exe -L%s/lib -lneap -Wl,-rpath,$(realpath %s/lib)"
      .. " >%s 2>&1 && %s.exe >>%s 2>&1"):format(source, base, root, root, log, base, log)
  end
  local ok = os.execute(command)
  print((ok and "ok    " or "FAILED") .. "  " .. name)
  if not ok then
    for line in io.lines(log) do print("        " .. line) end
  end
  for _, suffix in ipairs {"", "." .. block.language, ".log", ".exe"} do os.remove(base .. suffix) end
  return ok
end

for _, path in ipairs(files) do
  for _, block in ipairs(blocks(path)) do
    if block.language == "lua" or block.language == "c" then
      if run(block, ("%s:%d (%s)"):format(path, block.line, block.language)) then
        passed = passed + 1
      else
        failed = failed + 1
      end
    end
  end
end
for _, path in ipairs {"mlp.h5", "mlp.h5.1"} do os.remove(path) end -- what the README's script saves
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and passed > 0 and 0 or 1)
