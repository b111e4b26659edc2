-- One POST after the other, each with a number of its own in the place of a mark.
require("summary")

local path, body, mark, first
local at = 0

function init(args)
  path = args[1]
  body = io.open(args[2]):read("*a")
  mark = args[3]
  first = args[4]
end

function request()
  at = at + 1
  return wrk.format("POST", path, nil, (body:gsub(mark, first .. "-" .. at)))
end
