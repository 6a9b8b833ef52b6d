package embedded

import (
	"slices"
	"strings"
)

func functionCommands() []command {
	return []command{
		{"fcall", -3, cmdNoScript | cmdFunction, func(c *call) Reply { return c.fcall(false) }},
		{"fcall_ro", -3, cmdNoScript | cmdFunction, func(c *call) Reply { return c.fcall(true) }},
		{"function", -2, cmdNoScript | cmdAnyTime, cmdFunctionSub},
	}
}

func (c *call) fcall(readOnly bool) Reply {
	fn := c.e.lua.functions[c.args[1]]
	if fn == nil {
		return errf("Function not found")
	}
	n, ok := intArg(c.args[2])
	switch {
	case !ok:
		return errf("Bad number of keys provided")
	case n > int64(len(c.args)-3):
		return errf("Number of keys can't be greater than number of args")
	case n < 0:
		return errf("Number of keys can't be negative")
	case readOnly && !fn.noWrites:
		return errf("Can not execute a script with write flag using *_ro command.")
	}
	return c.e.lua.run(fn, c.args[3:3+n], c.args[3+n:])
}

func cmdFunctionSub(c *call) Reply {
	l := c.e.lua
	switch strings.ToUpper(c.args[1]) {
	case "LOAD":
		replace := false
		for _, word := range c.args[2:max(len(c.args)-1, 2)] {
			if !is(word, "REPLACE") {
				return errf("Unknown option given: " + word)
			}
			replace = true
		}
		if len(c.args) < 3 {
			return errf("wrong number of arguments for 'function|load' command")
		}
		name, err := l.load(c.args[len(c.args)-1], replace)
		if err != nil {
			return errf(err.Error())
		}
		return bulkReply(name)
	case "LIST":
		return l.list(c.args[2:])
	case "DELETE":
		if len(c.args) != 3 {
			return errf("wrong number of arguments for 'function|delete' command")
		}
		if !l.unload(c.args[2]) {
			return errf("Library not found")
		}
		return replyOK
	case "FLUSH":
		for name := range l.libraries {
			l.unload(name)
		}
		return replyOK
	case "KILL":
		return errorReply("NOTBUSY No scripts in execution right now.")
	case "STATS":
		return Reply{Kind: KindMap, Elems: []Reply{
			bulkReply("running_script"), replyNil,
			bulkReply("engines"), {Kind: KindMap, Elems: []Reply{
				bulkReply("LUA"), {Kind: KindMap, Elems: []Reply{
					bulkReply("libraries_count"), intReply(len(l.libraries)),
					bulkReply("functions_count"), intReply(len(l.functions)),
				}},
			}},
		}}
	}
	return errf("unknown subcommand '" + c.args[1] + "'. Try FUNCTION HELP.")
}

// list answers FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE].
func (l *luaEngine) list(options []string) Reply {
	pattern, code := "*", false
	for i := 0; i < len(options); i++ {
		switch {
		case is(options[i], "WITHCODE"):
			code = true
		case is(options[i], "LIBRARYNAME") && i+1 < len(options):
			i++
			pattern = options[i]
		default:
			return errf("Unknown argument " + options[i])
		}
	}
	var names []string
	for name := range l.libraries {
		if globMatch(pattern, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []Reply
	for _, name := range names {
		lib := l.libraries[name]
		var fns []Reply
		for _, fn := range lib.functions {
			desc := replyNil
			if fn.description != "" {
				desc = bulkReply(fn.description)
			}
			fns = append(fns, Reply{Kind: KindMap, Elems: []Reply{
				bulkReply("name"), bulkReply(fn.name),
				bulkReply("description"), desc,
				bulkReply("flags"), {Kind: KindSet, Elems: bulks(fn.flags)},
			}})
		}
		item := []Reply{
			bulkReply("library_name"), bulkReply(name),
			bulkReply("engine"), bulkReply("LUA"),
			bulkReply("functions"), arrayReply(fns),
		}
		if code {
			item = append(item, bulkReply("library_code"), bulkReply(lib.code))
		}
		out = append(out, Reply{Kind: KindMap, Elems: item})
	}
	return arrayReply(out)
}
