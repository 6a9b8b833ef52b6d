package luagen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

func luaQuote(s string) string { return "'" + s + "'" }

const luaUnpacking = `
-- A key slot that a caller does not use holds "" or a noop key; both read as "".
local function optional_key(text)
  if text and (string.find(text, '^[a-z0-9-]*:noop:') or string.find(text, 'ff:noop:', 1, true)) then
    return ''
  end
  return text
end

-- Reads a count and count times the fields of an element, which a function makes of args and the position before
-- them, beginning at position at. Returns the list and the position after it. Without a whole, covered count the
-- list is nil and nothing is skipped.
local function group(args, at, width, element)
  local text = args[at]
  if text == '0' then return {}, at + 1 end
  local count = tonumber(text)
  if not count or count < 0 or count % 1 ~= 0 or at + count * width > #args then
    return nil, at + 1
  end
  local list, position = { nil, nil, nil, nil }, at -- with room for a few
  for i = 1, count do
    list[i], position = element(args, position), position + width
  end
  return list, position + 1
end

-- The same for a count followed by all values of the first field, then all of the second, and so on. Values
-- that are missing at the end of args stay nil.
local function columns(args, at, names)
  local count = tonumber(args[at])
  if not count or count < 0 or count % 1 ~= 0 or count > #args then
    return nil, at + 1
  end
  local list = {}
  for i = 1, count do
    local element = {}
    for f = 1, #names do
      element[names[f]] = args[at + (f - 1) * count + i]
    end
    list[i] = element
  end
  return list, at + 1 + count * #names
end

local function rest(list, at)
  local out = {}
  for i = at, #list do
    out[i - at + 1] = list[i]
  end
  return out
end
`

// register writes the registrations of the ff_* functions (composite false) or ffx_* functions.
func register(l *header.Library, composite bool, id Build) string {
	var b strings.Builder
	b.WriteString(luaHeader)
	if !composite {
		fmt.Fprintf(&b, "\ncall.build = '%s'\ncall.protocol = %d\ncall.min_protocol = %d\n", id, id.Protocol, id.MinProtocol)
		b.WriteString(luaUnpacking)
	}
	if composite {
		b.WriteString("\ndo\n") // its locals are not needed after it
	}
	for _, f := range l.Functions {
		if f.Composite() == composite {
			b.WriteByte('\n')
			emitRegistration(&b, f, wireNames(f.Name, id))
		}
	}
	if composite {
		b.WriteString("\nend\n")
	}
	return b.String()
}

// emitRegistration writes the registration of a function. Functions that it needs are local to a block, since the
// interpreter allows few locals in a scope.
func emitRegistration(b *strings.Builder, f *header.Function, names []string) {
	var elements strings.Builder
	emitElements(&elements, f)
	if elements.Len() > 0 {
		b.WriteString("do\n" + elements.String())
		defer b.WriteString("end\n")
	}
	if len(names) > 1 {
		b.WriteString("do\nlocal function served(keys, args)\n")
		emitCallback(b, f)
		b.WriteString("end\n")
		for _, name := range names {
			open, closing := registration(f, name)
			b.WriteString(open + "served" + closing)
		}
		b.WriteString("end\n")
		return
	}
	open, closing := registration(f, names[0])
	b.WriteString(open + "function(keys, args)\n")
	emitCallback(b, f)
	b.WriteString("end" + closing)
}

// registration is the text before and after the callback of a function.
func registration(f *header.Function, name string) (open, closing string) {
	flag := "allow-oom"
	switch {
	case f.Flags["readonly"]:
		flag = "no-writes" // also runs when the memory is full
	case f.Flags["intake"]:
		return fmt.Sprintf("redis.register_function('%s', ", name), ")\n"
	}
	return fmt.Sprintf("redis.register_function{ function_name = '%s', flags = { '%s' }, callback = ", name, flag), " }\n"
}

// emitCallback writes the statements that check and unpack a call and run the function.
func emitCallback(b *strings.Builder, f *header.Function) {
	if n, m := requiredInputs(f); n > 0 || m > 0 {
		fmt.Fprintf(b, "  if #keys < %d or #args < %d then return call.refuse(keys, %d, args, %d%s) end\n", n, m, n, m, requiredNumbers(f))
	}
	writes := !f.Flags["readonly"]
	switch {
	case f.Flags["derives"] && len(f.Keys) > 0:
		b.WriteString("  call.begin(keys[1])\n")
	case writes:
		b.WriteString("  call.begin()\n")
	}
	if f.Flags["positional"] {
		fmt.Fprintf(b, "  return call.finish(F.%s(keys, args))\n", f.Name)
		return
	}
	var keys []string
	for i, k := range f.Keys {
		switch {
		case k.Many:
			keys = append(keys, fmt.Sprintf("%s = rest(keys, %d)", k.Role, i+1))
		case k.Optional:
			keys = append(keys, fmt.Sprintf("%s = optional_key(keys[%d])", k.Role, i+1))
		default:
			keys = append(keys, fmt.Sprintf("%s = keys[%d]", k.Role, i+1))
		}
	}
	args := emitUnpacking(b, f)
	answer := fmt.Sprintf("F.%s(%s, %s)", f.Name, luaTable(keys), luaTable(args))
	if writes {
		answer = "call.finish(" + answer + ")"
	}
	fmt.Fprintf(b, "  return %s\n", answer)
}

// emitElements writes for each group of a function the code that makes an element of it.
func emitElements(b *strings.Builder, f *header.Function) {
	for _, a := range f.Args {
		if a.Kind != header.ArgGroup || f.Flags["positional"] {
			continue
		}
		var entries []string
		for i, x := range a.Fields {
			entries = append(entries, fmt.Sprintf("%s = args[at + %d]", x.Name, i+1))
		}
		fmt.Fprintf(b, "local function %s(args, at)\n  return %s\nend\n\n", luaElement(f, a), luaTable(entries))
	}
}

func luaElement(f *header.Function, a header.Argument) string { return f.Name + "_" + a.Name }

// fixedFields lists the arguments of a function that have a fixed position: all before the first group.
func fixedFields(f *header.Function) []header.Field {
	var out []header.Field
	for _, a := range f.Args {
		switch a.Kind {
		case header.ArgScalar:
			out = append(out, a.Field)
		case header.ArgInclude:
			out = append(out, a.Fields...)
		default:
			return out
		}
	}
	return out
}

// requiredNumbers lists names and positions of the arguments that must be numbers, as further arguments of call.refuse:
// a missing number is reported before other faults.
func requiredNumbers(f *header.Function) string {
	numbers := []string{"ms", "unix_ms", "int"}
	var b strings.Builder
	for i, x := range fixedFields(f) {
		if !x.Optional && !x.Omittable && slices.Contains(numbers, x.Scalar) {
			fmt.Fprintf(&b, ", '%s', %d", x.Name, i+1)
		}
	}
	return b.String()
}

// requiredInputs counts the keys and arguments without which a call is refused: all up to the last one that is
// neither optional nor omittable. The function itself checks the arguments after a group.
func requiredInputs(f *header.Function) (keys, args int) {
	for i, k := range f.Keys {
		if !k.Optional && !k.Many {
			keys = i + 1
		}
	}
	for i, x := range fixedFields(f) {
		if !x.Optional && !x.Omittable {
			args = i + 1
		}
	}
	return keys, args
}

// emitUnpacking writes the statements that cut groups out of args and returns the entries of table A.
func emitUnpacking(b *strings.Builder, f *header.Function) []string {
	var entries []string
	fixed, moving := 1, false // the next position: a constant, or `at` plus a constant
	position := func() string {
		if !moving {
			return fmt.Sprint(fixed)
		}
		if fixed == 0 {
			return "at"
		}
		return fmt.Sprintf("at + %d", fixed)
	}
	groups := 0
	for _, a := range f.Args {
		switch a.Kind {
		case header.ArgScalar:
			entries = append(entries, fmt.Sprintf("%s = args[%s]", a.Name, position()))
			fixed++
		case header.ArgInclude:
			for _, x := range a.Fields {
				entries = append(entries, fmt.Sprintf("%s = args[%s]", x.Name, position()))
				fixed++
			}
		case header.ArgRest:
			entries = append(entries, fmt.Sprintf("%s = rest(args, %s)", a.Name, position()))
		case header.ArgGroup, header.ArgColumns:
			helper, shape := "group", fmt.Sprintf("%d, %s", len(a.Fields), luaElement(f, a))
			if a.Kind == header.ArgColumns {
				var names []string
				for _, x := range a.Fields {
					names = append(names, luaQuote(x.Name))
				}
				helper, shape = "columns", "{ "+strings.Join(names, ", ")+" }"
			}
			// scalars between two groups are read before `at` moves on
			if moving {
				for i, e := range entries {
					if strings.Contains(e, "args[at") {
						name, value, _ := strings.Cut(e, " = ")
						fmt.Fprintf(b, "  local %s = %s\n", name, value)
						entries[i] = fmt.Sprintf("%s = %s", name, name)
					}
				}
			}
			groups++
			at := position()
			fmt.Fprintf(b, "  local %s_count = args[%s]\n", a.Name, at)
			if groups == 1 {
				fmt.Fprintf(b, "  local %s, at = %s(args, %s, %s)\n", a.Name, helper, at, shape)
			} else {
				fmt.Fprintf(b, "  local %s\n  %s, at = %s(args, %s, %s)\n", a.Name, a.Name, helper, at, shape)
			}
			entries = append(entries, fmt.Sprintf("%s = %s", a.Name, a.Name), fmt.Sprintf("%s_count = %s_count", a.Name, a.Name))
			fixed, moving = 0, true
		}
	}
	return entries
}

func luaTable(entries []string) string {
	if len(entries) == 0 {
		return "{}"
	}
	oneLine := "{ " + strings.Join(entries, ", ") + " }"
	if len(oneLine) <= 80 {
		return oneLine
	}
	return "{\n    " + strings.Join(entries, ",\n    ") + ",\n  }"
}

// wireNames lists the names under which a library serves a function.
func wireNames(name string, id Build) []string {
	var out []string
	for protocol := id.MinProtocol; protocol <= id.Protocol; protocol++ {
		if n := header.WireName(name, protocol); len(out) == 0 || n != out[0] {
			out = append(out, n)
		}
	}
	return out
}
