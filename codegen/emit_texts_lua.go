package main

import (
	"fmt"
	"slices"
	"strings"
)

// The modules of the generated functions that write and read texts in Lua.
const (
	messageModule = "message"
	encodeModule  = "encode"
	decodeModule  = "decode"
)

// emitLuaTexts writes the functions of the Lua side that write messages and texts and read texts, as far as the library
// calls them.
func emitLuaTexts(l *library) string {
	return emitLuaTextsIf(l, func(function string) bool {
		return slices.ContainsFunc(l.files, func(f sourceFile) bool { return strings.Contains(f.text, function+"(") })
	})
}

// emitLuaTextsIf writes the functions that are used.
func emitLuaTextsIf(l *library, used func(function string) bool) string {
	var b strings.Builder
	b.WriteString(luaHeader)
	b.WriteString("-- message and encode write messages and texts from their parameters in order. decode reads texts: the parameters in order,\n")
	b.WriteString("-- as texts, a mark as a boolean, and of JSON and bytes at the end the position where they begin; nil for another text.\n")
	for _, m := range l.forms {
		if m.kind == formDigits {
			emitLuaDigits(&b, m)
		}
		for _, f := range m.luaFunctions() {
			if used(f.name) {
				b.WriteByte('\n')
				f.emit(&b, f.name, m)
			}
		}
	}
	return b.String()
}

func emitLuaDigits(b *strings.Builder, m *textForm) {
	digits, _ := m.digits() // checked
	b.WriteByte('\n')
	for _, d := range digits {
		fmt.Fprintf(b, "%s.%s = %d\n", decodeModule, strings.ToUpper(d.name), d.value)
	}
}

// luaFunction is a generated function for a message or text.
type luaFunction struct {
	name string
	emit func(b *strings.Builder, name string, m *textForm)
}

func (m *textForm) luaFunctions() []luaFunction {
	switch m.kind {
	case formMessage:
		return []luaFunction{{messageModule + "." + m.name, emitLuaEncoder}}
	case formText:
		list := []luaFunction{
			{encodeModule + "." + m.name, emitLuaEncoder}, {decodeModule + "." + m.name, emitLuaDecoder},
		}
		if names, _ := m.luaFaults(); len(names) > 0 {
			list = append(list, luaFunction{encodeModule + "." + m.name + "_fault", emitLuaFault})
		}
		return list
	case formList:
		list := []luaFunction{{decodeModule + "." + m.name + "_list", emitLuaList}}
		if m.params()[0].typ.kind == kindPartition {
			list = append(list, luaFunction{decodeModule + "." + m.name + "_of", emitLuaLookup})
		}
		return list
	case formSet:
		return []luaFunction{{decodeModule + ".has_" + m.name, emitLuaSet}}
	}
	return nil
}

// luaString quotes a text with its line feeds.
func luaString(s string) string { return "'" + strings.ReplaceAll(s, "\n", `\n`) + "'" }

func (m *textForm) luaParams() string {
	var names []string
	for _, x := range m.params() {
		names = append(names, x.param)
	}
	return strings.Join(names, ", ")
}

func emitLuaEncoder(b *strings.Builder, name string, m *textForm) {
	var terms []string
	last := m.parts[len(m.parts)-1]
	parts := m.parts
	if last.optional {
		parts = parts[:len(parts)-2]
	}
	for _, x := range parts {
		switch {
		case x.param == "":
			terms = append(terms, luaString(x.literal))
		case x.mark != "":
			terms = append(terms, fmt.Sprintf("(%s and %s or '')", x.param, luaString(x.mark)))
		default:
			terms = append(terms, x.param)
		}
	}
	text := strings.Join(terms, " .. ")
	if !last.optional {
		fmt.Fprintf(b, "function %s(%s) return %s end\n", name, m.luaParams(), text)
		return
	}
	fmt.Fprintf(b, "function %s(%s)\n  if not is_set(%s) then return %s end\n  return %s .. %s .. %s\nend\n",
		name, m.luaParams(), last.param, text, text, luaString(m.parts[len(m.parts)-2].literal), last.param)
}

// emitLuaFault writes a function that names the first parameter whose value would not be read back.
func emitLuaFault(b *strings.Builder, name string, m *textForm) {
	names, tests := m.luaFaults()
	fmt.Fprintf(b, "function %s(%s)\n%s  return nil\nend\n", name, strings.Join(names, ", "), strings.Join(tests, ""))
}

// luaFaults lists the parameters that something ends, with the statement that checks each.
func (m *textForm) luaFaults() (names, tests []string) {
	for i, x := range m.parts {
		behind := m.terminator(i)
		if x.param == "" || x.mark != "" || behind == "" {
			continue
		}
		names = append(names, x.param)
		switch x.typ.kind {
		case kindInt, kindMillis, kindTime:
			tests = append(tests, fmt.Sprintf("  if %s and not string.find(%s, '^%%-?%%d+$') then return '%s' end\n",
				x.param, x.param, x.param))
		default:
			tests = append(tests, fmt.Sprintf("  if %s and string.find(%s, %s, 1, true) then return '%s' end\n",
				x.param, x.param, luaString(behind), x.param))
		}
	}
	return names, tests
}

func emitLuaDecoder(b *strings.Builder, name string, m *textForm) {
	params := m.params()
	fmt.Fprintf(b, "function %s(text)\n", name)
	i := -1
	for at, x := range params {
		if x.mark != "" {
			i = at
		}
	}
	if i < 0 {
		fmt.Fprintf(b, "  return string.match(text, %s)\nend\n", m.luaPattern(true))
		return
	}
	x := params[i]
	first := params[0].param
	if i == 0 {
		first = params[1].param
	}
	fmt.Fprintf(b, "  local %s = string.match(text, %s)\n", m.luaParams(), m.luaPattern(true))
	fmt.Fprintf(b, "  if not %s or %s ~= '' and %s ~= %s then return nil end\n", first, x.param, x.param,
		luaString(x.mark))
	var names []string
	for at, p := range params {
		if at == i {
			names = append(names, p.param+" ~= ''")
		} else {
			names = append(names, p.param)
		}
	}
	fmt.Fprintf(b, "  return %s\nend\n", strings.Join(names, ", "))
}

// emitLuaSet writes a function that returns whether a set has an element.
func emitLuaSet(b *strings.Builder, name string, _ *textForm) {
	fmt.Fprintf(b, "function %s(set, element) return string.find(set, '\\n' .. element .. '\\n', 1, true) ~= nil end\n",
		name)
}

// emitLuaList writes an iterator over the elements of a list.
func emitLuaList(b *strings.Builder, name string, m *textForm) {
	fmt.Fprintf(b, "function %s(text) return string.gmatch(text, %s) end\n", name, m.luaPattern(false))
}

// emitLuaLookup writes a function that finds the element of a partition in a list.
func emitLuaLookup(b *strings.Builder, name string, m *textForm) {
	params := m.params()
	found := *m
	found.parts = nil
	for _, x := range m.parts {
		if x.param == params[0].param {
			x = textPart{literal: "\x00"}
		}
		found.parts = append(found.parts, x)
	}
	pattern := strings.ReplaceAll(found.luaPattern(false), "%\x00", "\x00")
	pattern = strings.ReplaceAll(pattern, "\x00", "' .. "+params[0].param+" .. '")
	fmt.Fprintf(b, "function %s(text, %s) return string.match(text, %s) end\n", name, params[0].param, pattern)
}

// luaPattern is the pattern of a text as a Lua string, for a whole text or for a part of one.
func (m *textForm) luaPattern(whole bool) string {
	var b strings.Builder
	if whole {
		b.WriteByte('^')
	}
	open := false
	for i, x := range m.parts {
		last := i == len(m.parts)-1
		switch behind := m.terminator(i); {
		case x.param == "":
			b.WriteString(luaEscape(x.literal))
			if !last && m.parts[i+1].optional {
				b.WriteByte('?')
			}
		case x.mark != "" && i == 0:
			b.WriteString("([" + luaEscape(x.mark) + "]*)")
		case x.mark != "":
			b.WriteString("(.*)")
		case x.typ.kind == kindInt, x.typ.kind == kindMillis, x.typ.kind == kindTime:
			b.WriteString(`(%-?%d+)`)
		case x.typ.kind == kindPartition:
			b.WriteString(`(%d+)`)
		case x.typ.kind == kindAnyPartition:
			b.WriteString(`([qb]?%d+)`)
		case last && x.typ.kind == kindBytes:
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
