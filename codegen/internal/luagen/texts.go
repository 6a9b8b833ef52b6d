package luagen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// The modules of the generated functions that write and read texts in Lua.
const (
	messageModule = "message"
	encodeModule  = "encode"
	decodeModule  = "decode"
)

// usedTexts writes the functions of the Lua side that write messages and texts and read texts, as far as the library
// calls them.
func usedTexts(l *header.Library) string {
	return Texts(l, func(function string) bool {
		return slices.ContainsFunc(l.Files, func(f header.SourceFile) bool { return strings.Contains(f.Text, function+"(") })
	})
}

// Texts writes the functions that are used.
func Texts(l *header.Library, used func(function string) bool) string {
	var b strings.Builder
	b.WriteString(luaHeader)
	b.WriteString("-- message and encode write messages and texts from their parameters in order. decode reads texts: the parameters in order,\n")
	b.WriteString("-- as texts, a mark as a boolean, and of JSON and bytes at the end the position where they begin; nil for another text.\n")
	for _, m := range l.Forms {
		if m.Kind == header.FormDigits {
			emitLuaDigits(&b, m)
		}
		for _, f := range luaFunctions(m) {
			if used(f.name) {
				b.WriteByte('\n')
				f.emit(&b, f.name, m)
			}
		}
	}
	return b.String()
}

func emitLuaDigits(b *strings.Builder, m *header.Form) {
	digits, _ := m.Digits() // checked
	b.WriteByte('\n')
	for _, d := range digits {
		fmt.Fprintf(b, "%s.%s = %d\n", decodeModule, strings.ToUpper(d.Name), d.Value)
	}
}

// luaFunction is a generated function for a message or text.
type luaFunction struct {
	name string
	emit func(b *strings.Builder, name string, m *header.Form)
}

func luaFunctions(m *header.Form) []luaFunction {
	switch m.Kind {
	case header.FormMessage:
		return []luaFunction{{messageModule + "." + m.Name, emitLuaEncoder}}
	case header.FormText:
		list := []luaFunction{
			{encodeModule + "." + m.Name, emitLuaEncoder}, {decodeModule + "." + m.Name, emitLuaDecoder},
		}
		if names, _ := luaFaults(m); len(names) > 0 {
			list = append(list, luaFunction{encodeModule + "." + m.Name + "_fault", emitLuaFault})
		}
		return list
	case header.FormList:
		list := []luaFunction{{decodeModule + "." + m.Name + "_list", emitLuaList}}
		if m.Params()[0].Typ.Kind == header.KindPartition {
			list = append(list, luaFunction{decodeModule + "." + m.Name + "_of", emitLuaLookup})
		}
		return list
	case header.FormSet:
		return []luaFunction{{decodeModule + ".has_" + m.Name, emitLuaSet}}
	}
	return nil
}

// luaString quotes a text with its line feeds.
func luaString(s string) string { return "'" + strings.ReplaceAll(s, "\n", `\n`) + "'" }

func luaParams(m *header.Form) string {
	var names []string
	for _, x := range m.Params() {
		names = append(names, x.Param)
	}
	return strings.Join(names, ", ")
}

func emitLuaEncoder(b *strings.Builder, name string, m *header.Form) {
	var terms []string
	last := m.Parts[len(m.Parts)-1]
	parts := m.Parts
	if last.Optional {
		parts = parts[:len(parts)-2]
	}
	for _, x := range parts {
		switch {
		case x.Param == "":
			terms = append(terms, luaString(x.Literal))
		case x.Mark != "":
			terms = append(terms, fmt.Sprintf("(%s and %s or '')", x.Param, luaString(x.Mark)))
		default:
			terms = append(terms, x.Param)
		}
	}
	text := strings.Join(terms, " .. ")
	if !last.Optional {
		fmt.Fprintf(b, "function %s(%s) return %s end\n", name, luaParams(m), text)
		return
	}
	fmt.Fprintf(b, "function %s(%s)\n  if not is_set(%s) then return %s end\n  return %s .. %s .. %s\nend\n",
		name, luaParams(m), last.Param, text, text, luaString(m.Parts[len(m.Parts)-2].Literal), last.Param)
}

// emitLuaFault writes a function that names the first parameter whose value would not be read back.
func emitLuaFault(b *strings.Builder, name string, m *header.Form) {
	names, tests := luaFaults(m)
	fmt.Fprintf(b, "function %s(%s)\n%s  return nil\nend\n", name, strings.Join(names, ", "), strings.Join(tests, ""))
}

// luaFaults lists the parameters that something ends, with the statement that checks each.
func luaFaults(m *header.Form) (names, tests []string) {
	for i, x := range m.Parts {
		behind := m.Terminator(i)
		if x.Param == "" || x.Mark != "" || behind == "" {
			continue
		}
		names = append(names, x.Param)
		switch x.Typ.Kind {
		case header.KindInt, header.KindMillis, header.KindTime:
			tests = append(tests, fmt.Sprintf("  if %s and not string.find(%s, '^%%-?%%d+$') then return '%s' end\n",
				x.Param, x.Param, x.Param))
		default:
			tests = append(tests, fmt.Sprintf("  if %s and string.find(%s, %s, 1, true) then return '%s' end\n",
				x.Param, x.Param, luaString(behind), x.Param))
		}
	}
	return names, tests
}

func emitLuaDecoder(b *strings.Builder, name string, m *header.Form) {
	params := m.Params()
	fmt.Fprintf(b, "function %s(text)\n", name)
	i := -1
	for at, x := range params {
		if x.Mark != "" {
			i = at
		}
	}
	if i < 0 {
		fmt.Fprintf(b, "  return string.match(text, %s)\nend\n", luaPattern(m, true))
		return
	}
	x := params[i]
	first := params[0].Param
	if i == 0 {
		first = params[1].Param
	}
	fmt.Fprintf(b, "  local %s = string.match(text, %s)\n", luaParams(m), luaPattern(m, true))
	fmt.Fprintf(b, "  if not %s or %s ~= '' and %s ~= %s then return nil end\n", first, x.Param, x.Param,
		luaString(x.Mark))
	var names []string
	for at, p := range params {
		if at == i {
			names = append(names, p.Param+" ~= ''")
		} else {
			names = append(names, p.Param)
		}
	}
	fmt.Fprintf(b, "  return %s\nend\n", strings.Join(names, ", "))
}

// emitLuaSet writes a function that returns whether a set has an element.
func emitLuaSet(b *strings.Builder, name string, _ *header.Form) {
	fmt.Fprintf(b, "function %s(set, element) return string.find(set, '\\n' .. element .. '\\n', 1, true) ~= nil end\n",
		name)
}

// emitLuaList writes an iterator over the elements of a list.
func emitLuaList(b *strings.Builder, name string, m *header.Form) {
	fmt.Fprintf(b, "function %s(text) return string.gmatch(text, %s) end\n", name, luaPattern(m, false))
}

// emitLuaLookup writes a function that finds the element of a partition in a list.
func emitLuaLookup(b *strings.Builder, name string, m *header.Form) {
	params := m.Params()
	found := *m
	found.Parts = nil
	for _, x := range m.Parts {
		if x.Param == params[0].Param {
			x = header.TextPart{Literal: "\x00"}
		}
		found.Parts = append(found.Parts, x)
	}
	pattern := strings.ReplaceAll(luaPattern(&found, false), "%\x00", "\x00")
	pattern = strings.ReplaceAll(pattern, "\x00", "' .. "+params[0].Param+" .. '")
	fmt.Fprintf(b, "function %s(text, %s) return string.match(text, %s) end\n", name, params[0].Param, pattern)
}

// luaPattern is the pattern of a text as a Lua string, for a whole text or for a part of one.
func luaPattern(m *header.Form, whole bool) string {
	var b strings.Builder
	if whole {
		b.WriteByte('^')
	}
	open := false
	for i, x := range m.Parts {
		last := i == len(m.Parts)-1
		switch behind := m.Terminator(i); {
		case x.Param == "":
			b.WriteString(luaEscape(x.Literal))
			if !last && m.Parts[i+1].Optional {
				b.WriteByte('?')
			}
		case x.Mark != "" && i == 0:
			b.WriteString("([" + luaEscape(x.Mark) + "]*)")
		case x.Mark != "":
			b.WriteString("(.*)")
		case x.Typ.Kind == header.KindInt, x.Typ.Kind == header.KindMillis, x.Typ.Kind == header.KindTime:
			b.WriteString(`(%-?%d+)`)
		case x.Typ.Kind == header.KindPartition:
			b.WriteString(`(%d+)`)
		case x.Typ.Kind == header.KindAnyPartition:
			b.WriteString(`([qb]?%d+)`)
		case last && x.Typ.Kind == header.KindBytes:
			b.WriteString("()")
			open = true
		case last:
			b.WriteString("(.*)")
		case len(behind) == 1:
			b.WriteString("([^" + luaEscape(behind) + "]*)")
		default:
			b.WriteString("(.-)")
		}
	}
	if whole && !open {
		b.WriteByte('$')
	}
	return luaString(b.String())
}

// luaEscape makes a text one that a pattern finds as it is.
func luaEscape(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r > ' ' && r < 0x7f && !(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			b.WriteByte('%')
		}
		b.WriteRune(r)
	}
	return b.String()
}
