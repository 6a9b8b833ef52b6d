package embedded

import (
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/command"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/glob"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/script"
)

func functionCommands() []engineCommand {
	return []engineCommand{
		{"fcall", -3, command.NoScript, func(c *call) resp.Reply { return c.fcall(false) }},
		{"fcall_ro", -3, command.NoScript, func(c *call) resp.Reply { return c.fcall(true) }},
		{"function", -2, command.NoScript | command.AnyTime, cmdFunctionSub},
	}
}

func (c *call) fcall(readOnly bool) resp.Reply {
	fn := c.e.lua.Function(c.Args[1])
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
	case readOnly && !fn.NoWrites:
		return resp.Err("Can not execute a script with write flag using *_ro command.")
	}
	return c.e.lua.Run(fn, c.Args[3:3+n], c.Args[3+n:])
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
		name, err := l.Load(c.Args[len(c.Args)-1], replace)
		if err != nil {
			return resp.Err(err.Error())
		}
		return resp.Bulk(name)
	case "LIST":
		return listLibraries(l, c.Args[2:])
	case "DELETE":
		if len(c.Args) != 3 {
			return resp.Err("wrong number of arguments for 'function|delete' command")
		}
		if !l.Unload(c.Args[2]) {
			return resp.Err("Library not found")
		}
		return resp.OK
	case "FLUSH":
		for _, lib := range l.Libraries() {
			l.Unload(lib.Name)
		}
		return resp.OK
	case "KILL":
		return resp.Error("NOTBUSY No scripts in execution right now.")
	case "STATS":
		return resp.Reply{Kind: resp.KindMap, Elems: []resp.Reply{
			resp.Bulk("running_script"), resp.Nil,
			resp.Bulk("engines"), {Kind: resp.KindMap, Elems: []resp.Reply{
				resp.Bulk("LUA"), {Kind: resp.KindMap, Elems: []resp.Reply{
					resp.Bulk("libraries_count"), resp.Int(len(l.Libraries())),
					resp.Bulk("functions_count"), resp.Int(l.NumFunctions()),
				}},
			}},
		}}
	}
	return resp.Err("unknown subcommand '" + c.Args[1] + "'. Try FUNCTION HELP.")
}

// listLibraries answers FUNCTION LIST with its options LIBRARYNAME and WITHCODE.
func listLibraries(l *script.Interpreter, options []string) resp.Reply {
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
	var out []resp.Reply
	for _, lib := range l.Libraries() {
		if !glob.Match(pattern, lib.Name) {
			continue
		}
		var fns []resp.Reply
		for _, fn := range lib.Functions {
			desc := resp.Nil
			if fn.Description != "" {
				desc = resp.Bulk(fn.Description)
			}
			fns = append(fns, resp.Reply{Kind: resp.KindMap, Elems: []resp.Reply{
				resp.Bulk("name"), resp.Bulk(fn.Name),
				resp.Bulk("description"), desc,
				resp.Bulk("flags"), {Kind: resp.KindSet, Elems: resp.Bulks(fn.Flags)},
			}})
		}
		item := []resp.Reply{
			resp.Bulk("library_name"), resp.Bulk(lib.Name),
			resp.Bulk("engine"), resp.Bulk("LUA"),
			resp.Bulk("functions"), resp.Array(fns),
		}
		if code {
			item = append(item, resp.Bulk("library_code"), resp.Bulk(lib.Code))
		}
		out = append(out, resp.Reply{Kind: resp.KindMap, Elems: item})
	}
	return resp.Array(out)
}

// scriptHost runs the commands that functions of one engine call.
type scriptHost struct {
	e    *Engine
	call call
}

// Call implements script.Host.
func (h *scriptHost) Call(args []string, readOnly bool) (reply resp.Reply, wrote bool, fault string) {
	cmd := h.e.command(args[0])
	switch {
	case cmd == nil:
		return resp.Reply{}, false, "Unknown Redis command called from script"
	case !cmd.ArityOK(len(args)):
		return resp.Reply{}, false, "Wrong number of args calling Redis command from script"
	case cmd.Flags&command.NoScript != 0:
		return resp.Reply{}, false, "This Redis command is not allowed from script"
	case cmd.Flags&command.Write != 0 && readOnly:
		return resp.Reply{}, false, "Write commands are not allowed from read-only scripts."
	}
	h.call.Args = args
	before := h.e.store.Dirty
	reply = h.e.run(&h.call, cmd)
	return reply, h.e.store.Dirty != before, ""
}
