--- Entries as Markdown.
local M = {}

--- The anchor that a heading gets: lower case, punctuation gone, spaces as hyphens.
local function anchor(heading)
  return (heading:lower():gsub("[^%w%s_-]", ""):gsub("%s", "-"))
end

local function append(lines, more)
  for _, line in ipairs(more) do lines[#lines + 1] = line end
end

local function cell(text) return (text:gsub("|", "\\|")) end

--- A type in a table or a list; pipes would end a cell.
local function code(text) return "`" .. text .. "`" end

--- "text (default 0.5)" as text and "0.5".
local function split_default(text)
  local rest, default = text:match "^(.-)%s*%(default (.*)%)$"
  if not rest then return text, nil end
  return rest, default
end

--- "[N, C]"s are no links.
local function plain(text) return (text:gsub("%]%(", "] (")) end

local function option_row(f)
  local text, default = split_default(f.text)
  if not default then default = f.optional and "" or "required" else default = code(default) end
  return ("| `%s` | %s | %s | %s |"):format(f.name, cell(code(f.type)), cell(default), cell(plain(text)))
end

--- A class of options as a table.
---@param class reference.Block
---@return string[]
function M.options(class)
  local lines = {"| option | type | default | |", "|---|---|---|---|"}
  for _, f in ipairs(class.fields) do lines[#lines + 1] = option_row(f) end
  return lines
end

--- The fields of an object as a table.
---@param class reference.Block
---@return string[]
function M.fields(class)
  local lines = {"| field | type | |", "|---|---|---|"}
  for _, f in ipairs(class.fields) do
    lines[#lines + 1] = ("| `%s` | %s | %s |"):format(f.name, cell(code(f.type .. (f.optional and "?" or ""))),
                                                      cell(plain(f.text)))
  end
  return lines
end

--- "f(a, b[, c])"
---@param name string
---@param block reference.Block
---@return string
function M.signature(name, block)
  local text, open = "", 0
  for i, p in ipairs(block.params) do
    local separator = i > 1 and ", " or ""
    if p.optional then
      text, open = text .. "[" .. separator .. p.name, open + 1
    else
      text = text .. separator .. p.name
    end
  end
  return ("%s(%s%s)"):format(name, text, ("]"):rep(open))
end

--- The class of options that a parameter takes, if its type names one.
local function options_class(p, classes)
  local name = p.type:match "^(neap[%w_.]*Options)$"
  return name and classes[name]
end

local function param_lines(lines, p, classes)
  local class = options_class(p, classes)
  local kind = class and "table" or p.type
  local text, default = split_default(p.text)
  local note = p.optional and (default and "default " .. code(default) or "optional") or nil
  lines[#lines + 1] = ("- `%s` %s%s%s"):format(p.name, code(kind), note and " (" .. note .. ")" or "",
                                               text ~= "" and ": " .. plain(text) or "")
  if class then
    lines[#lines + 1] = ""
    append(lines, M.options(class))
    lines[#lines + 1] = ""
  end
end

--- What results are, where types and names do not say it.
local function returns_lines(lines, block)
  local parts, told = {}, false
  for i, r in ipairs(block.returns) do
    parts[i] = code(r.type) .. (r.text ~= "" and " " .. plain(r.text) or "")
    told = told or r.text:find " "
  end
  if told then append(lines, {"", "Returns " .. table.concat(parts, ", ") .. "."}) end
end

--- "`f(a[, b])` → `neap.Tensor`"
local function call_line(name, block)
  local types = {}
  for i, r in ipairs(block.returns) do
    local called = r.text ~= "" and not r.text:find " " and r.text
    types[i] = called == "self" and "itself" or code(r.type) .. (called and " " .. called or "")
  end
  return code(M.signature(name, block)) .. (#types > 0 and " → " .. table.concat(types, ", ") or "")
end

local function trimmed(text)
  local first, last = 1, #text
  while first <= last and text[first] == "" do first = first + 1 end
  while last >= first and text[last] == "" do last = last - 1 end
  return table.move(text, first, last, 1, {})
end

--- An entry: heading, signature, description, parameters, results.
---@param heading string
---@param name string as it is written in a call
---@param block reference.Block
---@param classes table<string, reference.Block>
---@return string[]
function M.entry(heading, name, block, classes)
  local lines = {"### " .. heading, ""}
  local callable = #block.params + #block.returns > 0 or block.code:find "^%s*[%w ]*function"
  if callable then append(lines, {call_line(name, block), ""}) end
  append(lines, trimmed(block.text))
  if #block.params > 0 then lines[#lines + 1] = "" end
  for _, p in ipairs(block.params) do param_lines(lines, p, classes) end
  returns_lines(lines, block)
  return lines
end

--- A page's table of contents: for each section its entries.
---@param lines string[] of the page
---@return string[]
function M.contents(lines)
  local out, section, fenced = {}, nil, false
  for _, line in ipairs(lines) do
    if line:find "^```" then fenced = not fenced end
    local level, heading = line:match "^(##+) (.+)$"
    if fenced then level = nil end
    if level == "##" then
      section = {}
      out[#out + 1] = {heading, section}
    elseif level == "###" and section then
      section[#section + 1] = ("[%s](#%s)"):format(heading, anchor(heading))
    end
  end
  for i, item in ipairs(out) do
    local heading, entries = item[1], item[2]
    out[i] = ("- [%s](#%s)%s%s"):format(heading, anchor(heading), #entries > 0 and ": " or "",
                                        table.concat(entries, ", "))
  end
  return out
end

--- Without blank lines in a row, and one newline at the end.
---@param lines string[]
---@return string
function M.text(lines)
  local out, fenced = {}, false
  for _, line in ipairs(lines) do
    if line:find "^```" then fenced = not fenced end
    if fenced or line ~= "" or (#out > 0 and out[#out] ~= "") then out[#out + 1] = line end
  end
  while out[#out] == "" do out[#out] = nil end
  return table.concat(out, "\n") .. "\n"
end

return M
