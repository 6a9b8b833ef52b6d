package embedded

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/aof"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/command"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/datatype"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/glob"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/pubsub"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// serverVersion is the version that the engine reports: the release whose behaviour it follows.
const (
	serverVersion    = "7.0.15"
	serverVersionNum = 7<<16 | 0<<8 | 15
)

func serverCommands() []engineCommand {
	const session = command.NoScript | command.Session | command.AnyTime
	return []engineCommand{
		{"ping", -1, command.PubSub, cmdPing},
		{"echo", 2, command.AnyTime, func(c *call) resp.Reply { return resp.Bulk(c.Args[1]) }},
		{"time", 1, command.AnyTime, cmdTime},
		{"hello", -1, session, cmdHello},
		{"auth", -2, session, cmdAuth},
		{"select", 2, command.AnyTime, cmdSelect},
		{"client", -2, session, cmdClient},
		{"quit", -1, session | command.NoMulti | command.PubSub, cmdQuit},
		{"reset", 1, session | command.NoMulti | command.PubSub, cmdReset},
		{"multi", 1, session | command.NoMulti, cmdMulti},
		{"exec", 1, session | command.NoMulti, cmdExec},
		{"discard", 1, session | command.NoMulti, cmdDiscard},
		{"command", -1, command.NoScript | command.AnyTime, cmdCommand},
		{"info", -1, command.AnyTime, cmdInfo},
		{"config", -2, command.NoScript | command.AnyTime, cmdConfig},
		{"role", 1, command.NoScript | command.AnyTime, cmdRole},
		{"cluster", -2, command.AnyTime, func(*call) resp.Reply { return resp.Err("This instance has cluster support disabled") }},
	}
}

func cmdPing(c *call) resp.Reply {
	if len(c.Args) > 2 {
		return resp.Err("wrong number of arguments for 'ping' command")
	}
	if c.sess != nil && c.sess.resp == 2 && c.sess.subscribed() {
		return resp.Array([]resp.Reply{resp.Bulk("pong"), resp.Bulk(strings.Join(c.Args[1:], ""))})
	}
	if len(c.Args) == 2 {
		return resp.Bulk(c.Args[1])
	}
	return resp.Status("PONG")
}

func cmdTime(c *call) resp.Reply {
	return resp.Array([]resp.Reply{
		resp.Bulk(strconv.FormatInt(c.NowUs/1e6, 10)), resp.Bulk(strconv.FormatInt(c.NowUs%1e6, 10)),
	})
}

const textNoPassword = "AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"

// cmdAuth accepts only the default user, with any password, as a server without passwords does.
func cmdAuth(c *call) resp.Reply {
	switch {
	case len(c.Args) == 2:
		return resp.Err(textNoPassword)
	case len(c.Args) == 3 && c.Args[1] == "default":
		return resp.OK
	case len(c.Args) == 3:
		return resp.Error("WRONGPASS invalid username-password pair or user is disabled.")
	}
	return resp.Err(command.TextSyntax)
}

func cmdHello(c *call) resp.Reply {
	protocol := c.sess.resp
	name, named := "", false
	if len(c.Args) > 1 {
		v, ok := numfmt.ParseInt(c.Args[1])
		if !ok {
			return resp.Err("Protocol version is not an integer or out of range")
		}
		if v != 2 && v != 3 {
			return resp.Error("NOPROTO unsupported protocol version")
		}
		protocol = int(v)
	}
	for i := 2; i < len(c.Args); i++ {
		switch {
		case command.Is(c.Args[i], "AUTH") && i+2 < len(c.Args):
			if c.Args[i+1] != "default" {
				return resp.Error("WRONGPASS invalid username-password pair or user is disabled.")
			}
			i += 2
		case command.Is(c.Args[i], "SETNAME") && i+1 < len(c.Args):
			name, named = c.Args[i+1], true
			i++
		default:
			return resp.Err("Syntax error in HELLO option '" + c.Args[i] + "'")
		}
	}
	c.sess.resp = protocol
	if named {
		c.sess.name = name
	}
	return resp.Reply{Kind: resp.KindMap, Elems: []resp.Reply{
		resp.Bulk("server"), resp.Bulk("redis"),
		resp.Bulk("version"), resp.Bulk(serverVersion),
		resp.Bulk("proto"), resp.Int(protocol),
		resp.Bulk("id"), resp.Int64(c.sess.id),
		resp.Bulk("mode"), resp.Bulk("standalone"),
		resp.Bulk("role"), resp.Bulk("master"),
		resp.Bulk("modules"), resp.Array(nil),
	}}
}

func cmdSelect(c *call) resp.Reply {
	n, ok := numfmt.ParseInt(c.Args[1])
	if !ok {
		return resp.Err(command.TextNotInt)
	}
	if n != 0 {
		return resp.Err("DB index is out of range")
	}
	return resp.OK
}

func cmdClient(c *call) resp.Reply {
	s := c.sess
	switch strings.ToUpper(c.Args[1]) {
	case "SETINFO", "NO-EVICT", "NO-TOUCH", "REPLY", "UNPAUSE":
		return resp.OK
	case "SETNAME":
		if len(c.Args) != 3 {
			return resp.Err("wrong number of arguments for 'client|setname' command")
		}
		s.name = c.Args[2]
		return resp.OK
	case "GETNAME":
		if s.name == "" {
			return resp.Nil
		}
		return resp.Bulk(s.name)
	case "ID":
		return resp.Int64(s.id)
	case "INFO", "LIST":
		return resp.Reply{Kind: resp.KindVerbatim, Str: fmt.Sprintf("id=%d name=%s db=0 sub=%d psub=%d resp=%d\n",
			s.id, s.name, len(s.subs[pubsub.Channel]), len(s.subs[pubsub.Pattern]), s.resp)}
	case "TRACKING":
		return resp.Err("CLIENT TRACKING is not supported by the embedded engine")
	}
	return resp.Err("unknown subcommand '" + c.Args[1] + "'. Try CLIENT HELP.")
}

func cmdQuit(c *call) resp.Reply {
	c.sess.emit(&resp.OK, c.e.position())
	c.sess.replies.End()
	return resp.Reply{Kind: kindNone}
}

func cmdReset(c *call) resp.Reply {
	s := c.sess
	c.e.broker.Drop(s)
	s.subs = [pubsub.NumKinds][]string{}
	s.multi, s.queued, s.badTx = false, nil, false
	s.resp, s.name = 2, ""
	return resp.Status("RESET")
}

func cmdMulti(c *call) resp.Reply {
	if c.sess.multi {
		return resp.Err("MULTI calls can not be nested")
	}
	c.sess.multi = true
	return resp.OK
}

func cmdDiscard(c *call) resp.Reply {
	if !c.sess.multi {
		return resp.Err("DISCARD without MULTI")
	}
	c.sess.multi, c.sess.queued, c.sess.badTx = false, nil, false
	return resp.OK
}

func cmdExec(c *call) resp.Reply {
	s := c.sess
	if !s.multi {
		return resp.Err("EXEC without MULTI")
	}
	queued, bad := s.queued, s.badTx
	s.multi, s.queued, s.badTx = false, nil, false
	if bad {
		return resp.Error("EXECABORT Transaction discarded because of previous errors.")
	}
	if c.e.refused != nil {
		return refusal(c.e.refused)
	}
	out := make([]resp.Reply, len(queued))
	for i, words := range queued {
		cmd := c.e.command(words[0])
		if cmd.Flags&command.Session != 0 && cmd.Flags&command.PubSub != 0 {
			out[i] = resp.Err("Command not allowed inside a transaction")
			continue
		}
		out[i] = c.e.run(&call{Call: command.Call{Store: c.Store, Args: words}, e: c.e, sess: s}, cmd)
	}
	return resp.Array(out)
}

// cmdCommand answers just enough for tools that send COMMAND before they begin.
func cmdCommand(c *call) resp.Reply {
	names := make([]string, 0, len(c.e.commands)/2)
	for name, cmd := range c.e.commands {
		if name == cmd.Name {
			names = append(names, name)
		}
	}
	if len(c.Args) == 1 {
		return resp.Array(nil)
	}
	switch strings.ToUpper(c.Args[1]) {
	case "COUNT":
		return resp.Int(len(names))
	case "LIST":
		slices.Sort(names)
		return resp.Array(resp.Bulks(names))
	case "DOCS":
		return resp.Reply{Kind: resp.KindMap}
	case "INFO":
		out := make([]resp.Reply, max(len(c.Args)-2, 0))
		for i := range out {
			out[i] = resp.Reply{Kind: resp.KindNilArray}
		}
		return resp.Array(out)
	}
	return resp.Err("unknown subcommand '" + c.Args[1] + "'. Try COMMAND HELP.")
}

// cmdInfo has the sections server, clients, memory, commandstats and keyspace.
func cmdInfo(c *call) resp.Reply {
	e := c.e
	want := func(section string) bool {
		if len(c.Args) == 1 {
			return section != "commandstats"
		}
		return slices.ContainsFunc(c.Args[1:], func(a string) bool {
			a = strings.ToLower(a)
			return a == section || a == "all" || a == "everything" || a == "default" && section != "commandstats"
		})
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\r\n", args...) }
	if want("server") {
		line("# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\nflowfabric_embedded:1\r\nprocess_id:%d\r\nrun_id:%s\r\nuptime_in_seconds:%d\r\nserver_time_usec:%d\r\n",
			serverVersion, os.Getpid(), e.runID, int64(time.Since(e.started).Seconds()), c.NowUs)
	}
	if want("clients") {
		e.mu.Lock()
		n := len(e.sessions)
		e.mu.Unlock()
		line("# Clients\r\nconnected_clients:%d\r\n", n)
	}
	if want("memory") {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		line("# Memory\r\nused_memory:%d\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n", m.HeapAlloc)
	}
	if want("persistence") {
		on, status := 0, "ok"
		if e.log != nil {
			on = 1
		}
		if e.refused != nil {
			status = "err"
		}
		line("# Persistence\r\nloading:0\r\naof_enabled:%d\r\naof_last_write_status:%s\r\n", on, status)
	}
	if want("replication") {
		line("# Replication\r\nrole:master\r\nconnected_slaves:0\r\n")
	}
	if want("cluster") {
		line("# Cluster\r\ncluster_enabled:0\r\n")
	}
	if want("commandstats") {
		line("# Commandstats")
		var lines []string
		for name, cmd := range e.commands {
			if name == cmd.Name && cmd.calls > 0 {
				usec := cmd.spent.Microseconds()
				lines = append(lines,
					fmt.Sprintf("cmdstat_%s:calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=0,failed_calls=0",
						name, cmd.calls, usec, float64(usec)/float64(cmd.calls)))
			}
		}
		slices.Sort(lines)
		for _, l := range lines {
			line("%s", l)
		}
		line("")
	}
	if want("keyspace") && e.refused == nil {
		line("# Keyspace")
		if n := e.store.Keys.Len(); n > 0 {
			expires := 0
			e.store.Keys.Each(func(_ string, ent *keyspace.Entry) bool {
				if ent.ExpireAt != 0 {
					expires++
				}
				return true
			})
			line("db0:keys=%d,expires=%d,avg_ttl=0", n, expires)
		}
	}
	return resp.Reply{Kind: resp.KindVerbatim, Str: b.String()}
}

// settings returns the settings that CONFIG GET knows: those which clients and checks request.
func (e *Engine) settings() [][2]string {
	appendOnly, fsync := "no", "no"
	if e.log != nil {
		appendOnly = "yes"
		fsync = map[aof.Policy]string{aof.Always: "always", aof.EverySecond: "everysec",
			aof.Never: "no"}[e.log.Policy()]
	}
	return [][2]string{
		{"appendfsync", fsync},
		{"appendonly", appendOnly},
		{"databases", "1"},
		{"maxmemory", "0"},
		{"maxmemory-policy", "noeviction"},
		{"save", ""},
		{"stream-node-max-bytes", strconv.FormatInt(datatype.StreamNodeBytes, 10)},
		{"stream-node-max-entries", strconv.FormatInt(datatype.StreamNodeEntries, 10)},
	}
}

func cmdConfig(c *call) resp.Reply {
	switch {
	case command.Is(c.Args[1], "GET") && len(c.Args) > 2:
		var out []resp.Reply
		for _, kv := range c.e.settings() {
			if slices.ContainsFunc(c.Args[2:], func(p string) bool { return glob.Match(strings.ToLower(p), kv[0]) }) {
				out = append(out, resp.Bulk(kv[0]), resp.Bulk(kv[1]))
			}
		}
		return resp.Reply{Kind: resp.KindMap, Elems: out}
	case command.Is(c.Args[1], "RESETSTAT"):
		for _, cmd := range c.e.commands {
			cmd.calls, cmd.spent = 0, 0
		}
		return resp.OK
	case command.Is(c.Args[1], "SET"):
		return resp.Err("CONFIG SET is not supported by the embedded engine")
	}
	return resp.Err("unknown subcommand '" + c.Args[1] + "'. Try CONFIG HELP.")
}

func cmdRole(*call) resp.Reply {
	return resp.Array([]resp.Reply{resp.Bulk("master"), resp.Zero, resp.Array(nil)})
}
