package luagen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// keptKeyParams are those that most calls use again: of a key that needs nothing else, the one that was used last is
// kept.
var keptKeyParams = map[string]bool{"lane_id": true, "flow_id": true, "worker_instance_id": true}

// keys writes the key builders of the Lua side. The common beginning of all keys of a family in one partition,
// and the keys that need nothing else, are built once for each partition: see call.place.
func keys(l *header.Library) string {
	var b strings.Builder
	b.WriteString(luaHeader)
	b.WriteString("-- Each builder takes the call's context, which contains its place, and the parameters in order.\n")
	b.WriteString("-- The common beginnings of keys, and keys without parameters, are cached with the place at their first use;\n")
	b.WriteString("-- of the keys for lanes, flows and workers, the last used one is cached.\n")
	b.WriteByte('\n')
	b.WriteString("local function keep(at, name, text)\n  at[name] = text\n  return text\nend\n")
	for _, t := range l.Templates {
		params := append([]string{"c"}, t.Params()...)
		name, head, tail := luaHead(t)
		expr := fmt.Sprintf("at.%s or keep(at, '%s', at.prefix .. %s)", name, name, luaConcat(head))
		if len(tail) > 0 {
			expr = "(" + expr + ") .. " + luaConcat(tail)
		}
		body := "return " + expr
		if own := t.Params(); len(own) == 1 && keptKeyParams[own[0]] {
			body = fmt.Sprintf("if at.%[1]s_of == %[2]s then return at.%[1]s end\n  local text = %[3]s\n"+
				"  at.%[1]s_of, at.%[1]s = %[2]s, text\n  return text", luaKeyName(t), own[0], expr)
		}
		fmt.Fprintf(&b, "\nfunction key.%s(%s)\n  local at = c.at\n  %s\nend\n", luaKeyName(t), strings.Join(params, ", "), body)
	}
	return b.String()
}

func luaKeyName(t *header.Template) string { return strings.ReplaceAll(t.Name, ".", "_") }

// luaHead cuts a key at its first parameter besides the tag. The name of the first part is made of its words; a key
// without parameters keeps its own.
func luaHead(t *header.Template) (name string, head, tail []header.TemplatePart) {
	if len(t.Params()) == 0 {
		return luaKeyName(t), t.Parts, nil
	}
	cut := slices.IndexFunc(t.Parts, func(p header.TemplatePart) bool { return p.Param != "" && p.Param != "tag" })
	var words []string
	for _, p := range t.Parts[:cut] {
		words = append(words, strings.FieldsFunc(p.Literal, func(r rune) bool { return r == ':' })...)
	}
	return "of_" + strings.Join(words, "_"), t.Parts[:cut], t.Parts[cut:]
}

// luaConcat is the expression of some parts of a key. The first part of a key follows the prefix and a colon.
func luaConcat(parts []header.TemplatePart) string {
	var out []string
	text := ""
	if parts[0].Param == "" {
		text = ":"
	}
	for _, p := range parts {
		if p.Param == "" {
			text += p.Literal
			continue
		}
		if text != "" {
			out = append(out, luaQuote(text))
			text = ""
		}
		switch {
		case p.Param == "tag":
			out = append(out, "at.tag")
		case p.Escaped:
			out = append(out, "key.escape("+p.Param+")")
		default:
			out = append(out, p.Param)
		}
	}
	if text != "" {
		out = append(out, luaQuote(text))
	}
	return strings.Join(out, " .. ")
}
