package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/luatext"
)

// resolve replaces references to records, argument sets and error sets by their definitions.
func resolve(l *library, p *problems) {
	for _, f := range l.functions {
		for i := range f.args {
			a := &f.args[i]
			switch {
			case a.kind == argInclude:
				if s := l.argumentSet(a.set); s != nil {
					a.fields = s.fields
				} else {
					p.add(a.pos, "no @arguments %s", a.set)
				}
			case a.set != "":
				if r := l.record(a.set); r != nil {
					a.fields = r.fields
				} else {
					p.add(a.pos, "no @record %s", a.set)
				}
			}
		}
		var errs []errorDecl
		for _, e := range f.errors {
			name, isSet := strings.CutPrefix(e.code, "set:")
			if !isSet {
				errs = append(errs, e)
				continue
			}
			s := l.errorSet(name)
			if s == nil {
				p.add(e.pos, "no @errors %s", name)
				continue
			}
			for _, x := range s.errors {
				x.pos = e.pos
				errs = append(errs, x)
			}
		}
		f.errors = nil
		for _, e := range errs {
			if !slices.ContainsFunc(f.errors, func(o errorDecl) bool { return o.code == e.code }) {
				f.errors = append(f.errors, e)
			}
		}
	}
}

// check reports everything in the headers that contradicts itself or the code below them.
func check(l *library, p *problems) {
	for _, r := range l.records {
		checkFields(l, r.pos, r.fields, p)
	}
	for _, t := range l.templates {
		for _, param := range t.params() {
			if paramType(param).kind == kindBytes {
				p.add(t.pos, "parameter %s of template %s is not a text", param, t.name)
			}
		}
		if param := t.unescaped(); param != "" {
			p.add(t.pos, "parameter %s of template %s is free text with other parts after it: write {%s%s}", param,
				t.name, param, escapedMark)
		}
	}
	seen := map[string]*function{}
	goNames := map[string]*function{}
	for _, f := range l.functions {
		if o := seen[f.name]; o != nil {
			p.add(f.pos, "function %s is declared at %s:%d already", f.name, o.pos.file, o.pos.line)
		}
		seen[f.name] = f
		if o := goNames[f.goName]; o != nil && o.name != f.name {
			p.add(f.pos, "%s and %s are both %s in Go; give one of them a @go name", f.name, o.name, f.goName)
		}
		goNames[f.goName] = f
		checkFunction(l, f, p)
	}
	checkErrorCodes(l, p)
}

// startsComposite reports whether a key may be the first of a composite call.
func startsComposite(l *library, k key) bool {
	t := l.template(k.template)
	return k.template == "ffx.partition" || t != nil && t.family() != flowFamily
}

func checkFunction(l *library, f *function, p *problems) {
	if !strings.HasPrefix(f.name, "ff_") && !strings.HasPrefix(f.name, "ffx_") {
		p.add(f.pos, "function %s begins with neither ff_ nor ffx_", f.name)
	}
	if f.summary == "" {
		p.add(f.pos, "function %s has no @summary", f.name)
	}
	if len(f.replies) == 0 {
		p.add(f.pos, "function %s has no @reply", f.name)
	}
	if f.composite() && len(f.keys) > 0 && !startsComposite(l, f.keys[0]) {
		p.add(f.keys[0].pos, "the first key of a composite call is ffx.partition, or one of a budget or quota")
	}
	checkKeys(l, f, p)
	checkArguments(l, f, p)
	checkReplies(l, f, p)
	checkBody(f, p)
	for _, w := range f.writesOn {
		if !slices.ContainsFunc(f.errors, func(e errorDecl) bool { return e.code == w.code }) && !statusName.MatchString(w.code) {
			p.add(w.pos, "@writes_on %s: %s does not declare that error", w.code, f.name)
		}
		for _, k := range w.keys {
			named := func(t *template) bool { return t.name == k || strings.HasSuffix(t.name, "."+k) }
			if !slices.ContainsFunc(f.keys, func(x key) bool { return x.role == k }) && !slices.ContainsFunc(l.templates, named) {
				p.add(w.pos, "@writes_on %s: %s is neither a key role nor a template", w.code, k)
			}
		}
	}
}

func checkKeys(l *library, f *function, p *problems) {
	roles := map[string]bool{}
	for _, k := range f.keys {
		if roles[k.role] {
			p.add(k.pos, "key role %s is declared twice", k.role)
		}
		roles[k.role] = true
		t := l.template(k.template)
		if t == nil {
			p.add(k.pos, "unknown template %s", k.template)
			continue
		}
		if !t.tagged() {
			p.add(k.pos, "template %s has no {tag}: a key without one may live in another slot", k.template)
		}
		params := t.params()
		for b := range k.bindings {
			if !slices.Contains(params, b) {
				p.add(k.pos, "template %s has no parameter %s", k.template, b)
			}
		}
		if k.many && len(params) == 0 {
			p.add(k.pos, "template %s has no parameter that could vary", k.template)
		}
	}
}

func checkArguments(l *library, f *function, p *problems) {
	names := map[string]bool{}
	use := func(pos position, name string) {
		if names[name] {
			p.add(pos, "argument %s is declared twice", name)
		}
		names[name] = true
	}
	for _, a := range f.args {
		switch a.kind {
		case argScalar, argRest:
			use(a.pos, a.name)
			if a.field.shape != scalar {
				p.add(a.pos, "argument %s is not a scalar; use @group or @columns", a.name)
			}
			if a.field.optional && a.field.scalar == "attempt_index" {
				p.add(a.pos, "an attempt_index cannot be optional: 0 is the first attempt")
			}
			checkFallback(a.pos, a.field, p)
		case argInclude:
			for _, x := range a.fields {
				use(a.pos, x.name)
				checkFallback(a.pos, x, p)
			}
		case argGroup, argColumns:
			use(a.pos, a.name)
			for _, x := range a.fields {
				if x.shape != scalar {
					p.add(a.pos, "field %s of group %s is not a scalar", x.name, a.name)
				}
			}
		}
	}
	for _, k := range f.keys {
		if k.chosenBy != "" && !names[k.chosenBy] {
			p.add(k.pos, "key %s: chosen_by %s is not an argument", k.role, k.chosenBy)
		}
	}
	if f.tag != "" && f.tag != "partition" && !names[f.tag] {
		p.add(f.pos, "@tag %s is not an argument", f.tag)
	}
}

// checkFallback reports faults of the fallback of an optional argument: only texts and whole numbers have one.
func checkFallback(pos position, x field, p *problems) {
	if x.fallback == "" {
		return
	}
	t, _ := scalarNamed(x.scalar)
	switch t.kind {
	case kindText:
	case kindInt, kindMillis:
		if _, err := strconv.ParseInt(x.fallback, 10, 64); err != nil {
			p.add(pos, "argument %s: %q is not a whole number", x.name, x.fallback)
		}
	default:
		p.add(pos, "argument %s: a %s has no fallback", x.name, x.scalar)
	}
}

func checkReplies(l *library, f *function, p *problems) {
	types := map[string]field{}
	for i, r := range f.replies {
		if r.form == replyRaw && len(f.replies) > 1 {
			p.add(r.pos, "a raw reply must be the only one")
		}
		if r.form != f.replies[0].form {
			p.add(r.pos, "replies of one function have one form")
		}
		checkFields(l, r.pos, r.fields, p)
		for _, x := range r.fields {
			o, ok := types[x.name]
			if ok && (o.shape != x.shape || o.scalar != x.scalar || o.record != x.record ||
				len(o.inline) != len(x.inline)) {
				p.add(r.pos, "field %s has another type in an earlier reply", x.name)
			}
			types[x.name] = x
		}
		for _, o := range f.replies[:i] {
			if o.status == r.status && len(o.fields) == len(r.fields) {
				p.add(r.pos, "two replies %s with the same number of fields cannot be distinguished", r.status)
			}
		}
	}
}

func checkFields(l *library, pos position, fields []field, p *problems) {
	for i, x := range fields {
		if (x.shape == restOf || x.shape == groupOf) && i != len(fields)-1 {
			p.add(pos, "field %s takes the rest of the reply and must be the last", x.name)
		}
		if x.record != "" && l.record(x.record) == nil {
			p.add(pos, "field %s: no @record %s and no type of that name", x.name, x.record)
		}
		if i > 0 && fields[i-1].optional && !x.optional {
			p.add(pos, "field %s follows an optional one: only the end of a reply can be missing", x.name)
		}
		checkFields(l, pos, x.inline, p)
	}
}

var (
	useOfKey      = regexp.MustCompile(`\bK\.([a-z_][a-z0-9_]*)`)
	useOfArgument = regexp.MustCompile(`\bA\.([a-z_][a-z0-9_]*)`)
	errCall       = regexp.MustCompile(`\breply\.err\(\s*['"]([a-z_]+)`)
	codeLiteral   = regexp.MustCompile(`['"]([a-z_]+):?['"]`)
)

// checkBody compares the names used in the function with those declared in its header.
func checkBody(f *function, p *problems) {
	keys := map[string]bool{}
	for _, k := range f.keys {
		keys[k.role] = true
	}
	args := map[string]bool{}
	for _, a := range f.args {
		args[a.name] = a.kind != argInclude
		if a.kind == argGroup || a.kind == argColumns {
			args[a.name+"_count"] = true
		}
	}
	for _, x := range f.flatArgs() {
		args[x.name] = true
	}
	for i, line := range strings.Split(luatext.WithoutStrings(luatext.WithoutComments(f.body)), "\n") {
		pos := position{f.pos.file, f.bodyLine + i}
		for _, m := range useOfKey.FindAllStringSubmatch(line, -1) {
			if !keys[m[1]] {
				p.add(pos, "%s uses K.%s, which its header does not declare", f.name, m[1])
			}
		}
		for _, m := range useOfArgument.FindAllStringSubmatch(line, -1) {
			if !args[m[1]] {
				p.add(pos, "%s uses A.%s, which its header does not declare", f.name, m[1])
			}
		}
	}
}

// checkErrorCodes compares the codes in the code with those in the headers.
func checkErrorCodes(l *library, p *problems) {
	declared := map[string]position{}
	for _, f := range l.functions {
		for _, e := range f.errors {
			if _, ok := declared[e.code]; !ok {
				declared[e.code] = e.pos
			}
		}
	}
	used := map[string]bool{}
	for _, file := range l.files {
		for i, line := range strings.Split(luatext.WithoutComments(file.text), "\n") {
			for _, m := range errCall.FindAllStringSubmatch(line, -1) {
				if _, ok := declared[m[1]]; !ok {
					p.add(position{file.name, i + 1}, "error code %s is declared by no header", m[1])
				}
			}
			for _, m := range codeLiteral.FindAllStringSubmatch(line, -1) {
				used[m[1]] = true
			}
		}
	}
	for code, pos := range declared {
		if !used[code] {
			p.add(pos, "error code %s is declared but occurs nowhere in the code", code)
		}
	}
	details := map[string]errorDecl{}
	for _, f := range l.functions {
		for _, e := range f.errors {
			o, ok := details[e.code]
			if !ok {
				details[e.code] = e
				continue
			}
			for i := range min(len(o.details), len(e.details)) {
				if o.details[i].name != e.details[i].name {
					p.add(e.pos, "detail %d of %s is %s here and %s at %s:%d",
						i+1, e.code, e.details[i].name, o.details[i].name, o.pos.file, o.pos.line)
				}
			}
			if len(e.details) > len(o.details) {
				details[e.code] = e
			}
		}
	}
}
