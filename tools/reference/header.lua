--- Reads engine/neap.h: sections, and declarations with the comments above them.
local M = {}

---@class reference.Declaration
---@field name string
---@field code string[]
---@field text string[] of the comment
---@field joined boolean it follows the one before without a gap, and what is said of that is said of both

---@class reference.Section
---@field title string
---@field text string[]
---@field declarations reference.Declaration[]

local function stripped(line)
  return (line:gsub("^%s*/?%*+/?%s?", ""):gsub("%s*%*/%s*$", ""))
end

--- "/* --- engines ---..." begins a section.
local function section_title(line) return line:match "^/%* %-%-%- (.-) %-%-%-+" end

--- Reads a comment from line i on: its lines, and the number of the line after it.
local function read_comment(lines, i)
  local text = {}
  while true do
    text[#text + 1] = stripped(lines[i])
    if lines[i]:find "%*/%s*$" then return text, i + 1 end
    i = i + 1
  end
end

--- A declaration ends where brackets are closed and a line ends in ';', or '}' of a function, or no '\' of a macro.
local function read_code(lines, i)
  local code, depth = {}, 0
  local macro = lines[i]:find "^#define"
  while true do
    local line = lines[i]
    code[#code + 1] = line
    local bare = line:gsub("/%*.-%*/", "")
    if bare:find "/%*" then -- a comment goes on below
      bare = bare:gsub("/%*.*", "")
    end
    depth = depth + select(2, bare:gsub("[{(]", "")) - select(2, bare:gsub("[})]", ""))
    local ended
    if macro then ended = not line:find "\\$" else ended = depth == 0 and bare:find "[;}]%s*$" end
    if ended then return code, i + 1 end
    i = i + 1
  end
end

local function name_of(code)
  local text = table.concat(code, "\n")
  return text:match "^#define ([%w_]+)" or text:match "^typedef [^;]-%(%*([%w_]+)%)"
    or text:match "^typedef enum ([%w_]+)" or text:match "^typedef struct ([%w_]+)"
    or text:match "([%w_]+)%(" or text:match "enum { ([%w_]+)" or text
end

local function is_declaration(line)
  return line:find "^NEAP_API" or line:find "^typedef" or line:find "^static inline" or line:find "^enum"
    or line:find "^#define NEAP_[%u_]+[%( ]%S" and not line:find "^#define NEAP_API"
end

--- What an editor needs and a reader does not.
local function shown(code)
  local out = {}
  for i, line in ipairs(code) do out[i] = line:gsub("^NEAP_API ", "") end
  return out
end

local function take_declaration(section, lines, i, text)
  local code, after = read_code(lines, i)
  local list = section.declarations
  local joined = #list > 0 and #text == 0 and lines[i - 1] ~= ""
  list[#list + 1] = {name = name_of(code), code = shown(code), text = text, joined = joined}
  return after
end

--- Sections of a header, the first of which (what stands before any title) is "basics".
---@param path string
---@return reference.Section[]
function M.read(path)
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  local section = {title = "basics", text = {}, declarations = {}}
  local sections, i, text = {section}, 1, {}
  while i <= #lines do
    local line = lines[i]
    local title = section_title(line)
    if title then
      local comment
      comment, i = read_comment(lines, i)
      section = {title = title, text = table.move(comment, 2, #comment, 1, {}), declarations = {}}
      sections[#sections + 1], text = section, {}
    elseif line:find "^/%*" then
      text, i = read_comment(lines, i)
    elseif is_declaration(line) then
      i = take_declaration(section, lines, i, text)
      text = {}
    else
      if line == "" then text = {} end
      i = i + 1
    end
  end
  return sections
end

return M
