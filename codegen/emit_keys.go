package main

import (
	"fmt"
	"strings"
)

// emitGoKeys writes the key builders of the Go side: for each template an exported method that takes the
// partition, or the execution id that carries it, and for tagged ones an unexported one that takes the tag.
func emitGoKeys(l *library) (string, error) {
	var g goSource
	for _, t := range l.templates {
		var names, decls []string
		var concat = []string{"k.prefix"}
		for _, param := range t.params() {
			typ := paramType(param)
			name := unexported(param)
			names = append(names, name)
			decls = append(decls, name+" "+typ.goType)
		}
		text := ":"
		for _, p := range t.parts {
			if p.param == "" {
				text += p.literal
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
		method := exported(t.name)
		if !t.tagged() {
			g.comment("", fmt.Sprintf("%s is <prefix>:%s.", method, t.pattern()))
			g.line("func (k Keys) %s(%s) string {\n\treturn %s\n}\n", method, strings.Join(decls, ", "), expr)
			continue
		}
		inner := lowerFirst(method)
		if inner == method || inner == "prefix" {
			inner += "Key"
		}
		tag := "partition.Tag()"
		outer := append([]string{"partition keyspace.Partition"}, decls...)
		note := ""
		if t.tagFromExecution() {
			tag, outer = "executionID.Tag()", decls
			note = " The tag comes from the execution id."
		}
		g.comment("", fmt.Sprintf("%s is <prefix>:%s.%s", method, t.pattern(), note))
		g.line("func (k Keys) %s(%s) string {", method, strings.Join(outer, ", "))
		g.line("\treturn k.%s(%s)\n}\n", inner, strings.Join(append([]string{tag}, names...), ", "))
		g.line("func (k Keys) %s(%s) string {", inner, strings.Join(append([]string{"tag string"}, decls...), ", "))
		g.line("\treturn %s\n}\n", expr)
	}
	for _, t := range l.templates {
		if t.parsed {
			emitKeyParser(&g, t)
		}
	}
	return g.file("enginerpc", "strconv", "strings")
}

// emitKeyParser writes the method that takes a key of a template apart.
func emitKeyParser(g *goSource, t *template) {
	method := exported(t.name)
	var results, none, values []string
	for _, param := range t.params() {
		typ := paramType(param)
		results = append(results, unexported(param)+" "+typ.goType)
		none = append(none, `""`)
	}
	refuse := func(call string) {
		g.line("\t%s\n\tif !ok {\n\t\treturn \"\", %s, false\n\t}", call, strings.Join(none, ", "))
	}
	g.comment("",
		fmt.Sprintf("Parse%s returns the hash tag and the parameters of a key that %s returned, false for any other.",
			method, method))
	g.line("func (k Keys) Parse%s(key string) (tag string, %s, ok bool) {", method, strings.Join(results, ", "))
	refuse(fmt.Sprintf("tag, rest, ok := k.cutTag(key, %q)", ":"+t.parts[0].literal))
	parts := t.parts[2:]
	refuse(fmt.Sprintf("rest, ok = strings.CutPrefix(rest, %q)", parts[0].literal))
	parts = parts[1:]
	if last := parts[len(parts)-1]; last.param == "" {
		refuse(fmt.Sprintf("rest, ok = strings.CutSuffix(rest, %q)", last.literal))
		parts = parts[:len(parts)-1]
	}
	for i := 0; i < len(parts); i += 2 {
		name := "rest"
		if i+1 < len(parts) {
			name = unexported(parts[i].param) + "Part"
			refuse(fmt.Sprintf("%s, rest, ok := strings.Cut(rest, %q)", name, parts[i+1].literal))
		}
		if parts[i].escaped {
			name = "unescapePart(" + name + ")"
		}
		if typ := paramType(parts[i].param); typ.goType != "string" {
			name = typ.goType + "(" + name + ")"
		}
		values = append(values, name)
	}
	g.line("\treturn tag, %s, true\n}\n", strings.Join(values, ", "))
}

func keyPart(p templatePart) string {
	if p.param == "tag" {
		return "tag"
	}
	t, name := paramType(p.param), unexported(p.param)
	switch {
	case p.escaped && t.goType == "string":
		return "escapePart(" + name + ")"
	case p.escaped:
		return "escapePart(string(" + name + "))"
	case t.goType == "string":
		return name
	case t.kind == kindInt:
		return "strconv.FormatInt(int64(" + name + "), 10)"
	}
	return "string(" + name + ")"
}

// keyMethod is the unexported builder of a tagged template.
func keyMethod(t *template) string {
	s := lowerFirst(exported(t.name))
	if s == "prefix" {
		return "prefixKey"
	}
	return s
}
