package embedded

import (
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/command"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/glob"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

func functionCommands() []engineCommand {
	return []engineCommand{
		{"fcall", -3, command.NoScript, func(c *call) resp.Reply { return c.fcall(false) }},
		{"fcall_ro", -3, command.NoScript, func(c *call) resp.Reply { return c.fcall(true) }},
		{"function", -2, command.NoScript | command.AnyTime, cmdFunctionSub},
	}
}

func (c *call) fcall(readOnly bool) resp.Reply {
	fn := c.e.lua.functions[c.Args[1]]
	if fn == nil {
		return resp.Err("Function not found")
	}
	n, ok := numfmt.ParseInt(c.Args[2])
	switch {
	case !ok:
		return resp.Err("Bad number of keys provided")
	case n > int64(len(c.Args)-3):
		return resp.Err("Number of keys can't be greater than number of args")
	case n < 0:
		return resp.Err("Number of keys can't be negative")
	case readOnly && !fn.noWrites:
		return resp.Err("Can not execute a script with write flag using *_ro command.")
	}
	return c.e.lua.run(fn, c.Args[3:3+n], c.Args[3+n:])
}

func cmdFunctionSub(c *call) resp.Reply {
	l := c.e.lua
	switch strings.ToUpper(c.Args[1]) {
	case "LOAD":
		replace := false
		for _, word := range c.Args[2:max(len(c.Args)-1, 2)] {
			if !command.Is(word, "REPLACE") {
				return resp.Err("Unknown option given: " + word)
			}
			replace = true
		}
		if len(c.Args) < 3 {
			return resp.Err("wrong number of arguments for 'function|load' command")
		}
		name, err := l.load(c.Args[len(c.Args)-1], replace)
		if err != nil {
			return resp.Err(err.Error())
		}
		return resp.Bulk(name)
	case "LIST":
		return l.list(c.Args[2:])
	case "DELETE":
		if len(c.Args) != 3 {
			return resp.Err("wrong number of arguments for 'function|delete' command")
		}
		if !l.unload(c.Args[2]) {
			return resp.Err("Library not found")
		}
		return resp.OK
	case "FLUSH":
		for name := range l.libraries {
			l.unload(name)
		}
		return resp.OK
	case "KILL":
		return resp.Error("NOTBUSY No scripts in execution right now.")
	case "STATS":
		return resp.Reply{Kind: resp.KindMap, Elems: []resp.Reply{
			resp.Bulk("running_script"), resp.Nil,
			resp.Bulk("engines"), {Kind: resp.KindMap, Elems: []resp.Reply{
				resp.Bulk("LUA"), {Kind: resp.KindMap, Elems: []resp.Reply{
					resp.Bulk("libraries_count"), resp.Int(len(l.libraries)),
					resp.Bulk("functions_count"), resp.Int(len(l.functions)),
				}},
			}},
		}}
	}
	return resp.Err("unknown subcommand '" + c.Args[1] + "'. Try FUNCTION HELP.")
}

// list answers FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE].
func (l *luaEngine) list(options []string) resp.Reply {
	pattern, code := "*", false
	for i := 0; i < len(options); i++ {
		switch {
		case command.Is(options[i], "WITHCODE"):
			code = true
		case command.Is(options[i], "LIBRARYNAME") && i+1 < len(options):
			i++
			pattern = options[i]
		default:
			return resp.Err("Unknown argument " + options[i])
		}
	}
	var names []string
	for name := range l.libraries {
		if glob.Match(pattern, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []resp.Reply
	for _, name := range names {
		lib := l.libraries[name]
		var fns []resp.Reply
		for _, fn := range lib.functions {
			desc := resp.Nil
			if fn.description != "" {
				desc = resp.Bulk(fn.description)
			}
			fns = append(fns, resp.Reply{Kind: resp.KindMap, Elems: []resp.Reply{
				resp.Bulk("name"), resp.Bulk(fn.name),
				resp.Bulk("description"), desc,
				resp.Bulk("flags"), {Kind: resp.KindSet, Elems: resp.Bulks(fn.flags)},
			}})
		}
		item := []resp.Reply{
			resp.Bulk("library_name"), resp.Bulk(name),
			resp.Bulk("engine"), resp.Bulk("LUA"),
			resp.Bulk("functions"), resp.Array(fns),
		}
		if code {
			item = append(item, resp.Bulk("library_code"), resp.Bulk(lib.code))
		}
		out = append(out, resp.Reply{Kind: resp.KindMap, Elems: item})
	}
	return resp.Array(out)
}
