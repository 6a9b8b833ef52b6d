package gogen

import (
	"fmt"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/goname"
	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// emitGoKeys writes the key builders of the Go side: for each template an exported method that takes the
// partition, or the execution id that carries it, and for tagged ones an unexported one that takes the tag.
func emitGoKeys(l *header.Library) (string, error) {
	var g goSource
	for _, t := range l.Templates {
		var names, decls []string
		var concat = []string{"k.prefix"}
		for _, param := range t.Params() {
			typ := header.ParamType(param)
			name := goname.Unexported(param)
			names = append(names, name)
			decls = append(decls, name+" "+typ.GoType)
		}
		text := ":"
		for _, p := range t.Parts {
			if p.Param == "" {
				text += p.Literal
				continue
			}
			if text != "" {
				concat = append(concat, fmt.Sprintf("%q", text))
				text = ""
			}
			concat = append(concat, keyPart(p))
		}
		if text != "" {
			concat = append(concat, fmt.Sprintf("%q", text))
		}
		expr := strings.Join(concat, " + ")
		method := goname.Exported(t.Name)
		if !t.Tagged() {
			g.comment("", fmt.Sprintf("%s is <prefix>:%s.", method, t.Pattern()))
			g.line("func (k Keys) %s(%s) string {\n\treturn %s\n}\n", method, strings.Join(decls, ", "), expr)
			continue
		}
		inner := goname.LowerFirst(method)
		if inner == method || inner == "prefix" {
			inner += "Key"
		}
		tag := "partition.Tag()"
		outer := append([]string{"partition keyspace.Partition"}, decls...)
		note := ""
		if t.TagFromExecution() {
			tag, outer = "executionID.Tag()", decls
			note = " The tag comes from the execution id."
		}
		g.comment("", fmt.Sprintf("%s is <prefix>:%s.%s", method, t.Pattern(), note))
		g.line("func (k Keys) %s(%s) string {", method, strings.Join(outer, ", "))
		g.line("\treturn k.%s(%s)\n}\n", inner, strings.Join(append([]string{tag}, names...), ", "))
		g.line("func (k Keys) %s(%s) string {", inner, strings.Join(append([]string{"tag string"}, decls...), ", "))
		g.line("\treturn %s\n}\n", expr)
	}
	for _, t := range l.Templates {
		if t.Parsed {
			emitKeyParser(&g, t)
		}
	}
	return g.file("enginerpc", "strconv", "strings")
}

// emitKeyParser writes the method that takes a key of a template apart.
func emitKeyParser(g *goSource, t *header.Template) {
	method := goname.Exported(t.Name)
	var results, none, values []string
	for _, param := range t.Params() {
		typ := header.ParamType(param)
		results = append(results, goname.Unexported(param)+" "+typ.GoType)
		none = append(none, `""`)
	}
	refuse := func(call string) {
		g.line("\t%s\n\tif !ok {\n\t\treturn \"\", %s, false\n\t}", call, strings.Join(none, ", "))
	}
	g.comment("",
		fmt.Sprintf("Parse%s returns the hash tag and the parameters of a key that %s returned, false for any other.",
			method, method))
	g.line("func (k Keys) Parse%s(key string) (tag string, %s, ok bool) {", method, strings.Join(results, ", "))
	refuse(fmt.Sprintf("tag, rest, ok := k.cutTag(key, %q)", ":"+t.Parts[0].Literal))
	parts := t.Parts[2:]
	refuse(fmt.Sprintf("rest, ok = strings.CutPrefix(rest, %q)", parts[0].Literal))
	parts = parts[1:]
	if last := parts[len(parts)-1]; last.Param == "" {
		refuse(fmt.Sprintf("rest, ok = strings.CutSuffix(rest, %q)", last.Literal))
		parts = parts[:len(parts)-1]
	}
	for i := 0; i < len(parts); i += 2 {
		name := "rest"
		if i+1 < len(parts) {
			name = goname.Unexported(parts[i].Param) + "Part"
			refuse(fmt.Sprintf("%s, rest, ok := strings.Cut(rest, %q)", name, parts[i+1].Literal))
		}
		if parts[i].Escaped {
			name = "unescapePart(" + name + ")"
		}
		if typ := header.ParamType(parts[i].Param); typ.GoType != "string" {
			name = typ.GoType + "(" + name + ")"
		}
		values = append(values, name)
	}
	g.line("\treturn tag, %s, true\n}\n", strings.Join(values, ", "))
}

func keyPart(p header.TemplatePart) string {
	if p.Param == "tag" {
		return "tag"
	}
	t, name := header.ParamType(p.Param), goname.Unexported(p.Param)
	switch {
	case p.Escaped && t.GoType == "string":
		return "escapePart(" + name + ")"
	case p.Escaped:
		return "escapePart(string(" + name + "))"
	case t.GoType == "string":
		return name
	case t.Kind == header.KindInt:
		return "strconv.FormatInt(int64(" + name + "), 10)"
	}
	return "string(" + name + ")"
}

// keyMethod is the unexported builder of a tagged template.
func keyMethod(t *header.Template) string {
	s := goname.LowerFirst(goname.Exported(t.Name))
	if s == "prefix" {
		return "prefixKey"
	}
	return s
}
