package embedded

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// serverVersion is the version that the engine reports: the release whose behaviour it follows.
const (
	serverVersion    = "7.0.15"
	serverVersionNum = 7<<16 | 0<<8 | 15
)

func serverCommands() []command {
	const session = cmdNoScript | cmdSession | cmdAnyTime
	return []command{
		{"ping", -1, cmdPubSub, cmdPing},
		{"echo", 2, cmdAnyTime, func(c *call) Reply { return bulkReply(c.args[1]) }},
		{"time", 1, cmdAnyTime, cmdTime},
		{"hello", -1, session, cmdHello},
		{"auth", -2, session, cmdAuth},
		{"select", 2, cmdAnyTime, cmdSelect},
		{"client", -2, session, cmdClient},
		{"quit", -1, session | cmdNoMulti | cmdPubSub, cmdQuit},
		{"reset", 1, session | cmdNoMulti | cmdPubSub, cmdReset},
		{"multi", 1, session | cmdNoMulti, cmdMulti},
		{"exec", 1, session | cmdNoMulti, cmdExec},
		{"discard", 1, session | cmdNoMulti, cmdDiscard},
		{"command", -1, cmdNoScript | cmdAnyTime, cmdCommand},
		{"info", -1, cmdAnyTime, cmdInfo},
		{"config", -2, cmdNoScript | cmdAnyTime, cmdConfig},
		{"memory", -2, cmdNoScript, cmdMemory},
		{"role", 1, cmdNoScript | cmdAnyTime, cmdRole},
		{"cluster", -2, cmdAnyTime, func(*call) Reply { return errf("This instance has cluster support disabled") }},
	}
}

func cmdPing(c *call) Reply {
	if len(c.args) > 2 {
		return errf("wrong number of arguments for 'ping' command")
	}
	if c.sess != nil && c.sess.resp == 2 && c.sess.subscribed() {
		return arrayReply([]Reply{bulkReply("pong"), bulkReply(strings.Join(c.args[1:], ""))})
	}
	if len(c.args) == 2 {
		return bulkReply(c.args[1])
	}
	return statusReply("PONG")
}

func cmdTime(c *call) Reply {
	return arrayReply([]Reply{bulkReply(itoa(c.nowUs / 1e6)), bulkReply(itoa(c.nowUs % 1e6))})
}

const textNoPassword = "AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"

// cmdAuth accepts only the default user, with any password, as a server without passwords does.
func cmdAuth(c *call) Reply {
	switch {
	case len(c.args) == 2:
		return errf(textNoPassword)
	case len(c.args) == 3 && c.args[1] == "default":
		return replyOK
	case len(c.args) == 3:
		return errorReply("WRONGPASS invalid username-password pair or user is disabled.")
	}
	return errf(textSyntax)
}

func cmdHello(c *call) Reply {
	resp := c.sess.resp
	name, named := "", false
	if len(c.args) > 1 {
		v, ok := intArg(c.args[1])
		if !ok {
			return errf("Protocol version is not an integer or out of range")
		}
		if v != 2 && v != 3 {
			return errorReply("NOPROTO unsupported protocol version")
		}
		resp = int(v)
	}
	for i := 2; i < len(c.args); i++ {
		switch {
		case is(c.args[i], "AUTH") && i+2 < len(c.args):
			if c.args[i+1] != "default" {
				return errorReply("WRONGPASS invalid username-password pair or user is disabled.")
			}
			i += 2
		case is(c.args[i], "SETNAME") && i+1 < len(c.args):
			name, named = c.args[i+1], true
			i++
		default:
			return errf("Syntax error in HELLO option '" + c.args[i] + "'")
		}
	}
	c.sess.resp = resp
	if named {
		c.sess.name = name
	}
	return Reply{Kind: KindMap, Elems: []Reply{
		bulkReply("server"), bulkReply("redis"),
		bulkReply("version"), bulkReply(serverVersion),
		bulkReply("proto"), intReply(resp),
		bulkReply("id"), int64Reply(c.sess.id),
		bulkReply("mode"), bulkReply("standalone"),
		bulkReply("role"), bulkReply("master"),
		bulkReply("modules"), arrayReply(nil),
	}}
}

func cmdSelect(c *call) Reply {
	n, ok := intArg(c.args[1])
	if !ok {
		return errf(textNotInt)
	}
	if n != 0 {
		return errf("DB index is out of range")
	}
	return replyOK
}

func cmdClient(c *call) Reply {
	s := c.sess
	switch strings.ToUpper(c.args[1]) {
	case "SETINFO", "NO-EVICT", "NO-TOUCH", "REPLY", "UNPAUSE":
		return replyOK
	case "SETNAME":
		if len(c.args) != 3 {
			return errf("wrong number of arguments for 'client|setname' command")
		}
		s.name = c.args[2]
		return replyOK
	case "GETNAME":
		if s.name == "" {
			return replyNil
		}
		return bulkReply(s.name)
	case "ID":
		return int64Reply(s.id)
	case "INFO", "LIST":
		return Reply{Kind: KindVerbatim, Str: fmt.Sprintf("id=%d name=%s db=0 sub=%d psub=%d resp=%d\n",
			s.id, s.name, len(s.channels), len(s.patterns), s.resp)}
	case "TRACKING":
		return errf("CLIENT TRACKING is not supported by the embedded engine")
	}
	return errf("unknown subcommand '" + c.args[1] + "'. Try CLIENT HELP.")
}

func cmdQuit(c *call) Reply {
	c.sess.emit(&replyOK, c.e.position())
	c.sess.end()
	return Reply{Kind: kindNone}
}

func cmdReset(c *call) Reply {
	s := c.sess
	c.e.subs.drop(s)
	s.channels, s.patterns, s.shards = nil, nil, nil
	s.multi, s.queued, s.badTx = false, nil, false
	s.resp, s.name = 2, ""
	return statusReply("RESET")
}

func cmdMulti(c *call) Reply {
	if c.sess.multi {
		return errf("MULTI calls can not be nested")
	}
	c.sess.multi = true
	return replyOK
}

func cmdDiscard(c *call) Reply {
	if !c.sess.multi {
		return errf("DISCARD without MULTI")
	}
	c.sess.multi, c.sess.queued, c.sess.badTx = false, nil, false
	return replyOK
}

func cmdExec(c *call) Reply {
	s := c.sess
	if !s.multi {
		return errf("EXEC without MULTI")
	}
	queued, bad := s.queued, s.badTx
	s.multi, s.queued, s.badTx = false, nil, false
	if bad {
		return errorReply("EXECABORT Transaction discarded because of previous errors.")
	}
	if c.e.refused != nil {
		return c.e.refused.reply()
	}
	out := make([]Reply, len(queued))
	for i, words := range queued {
		cmd := c.e.command(words[0])
		if cmd.flags&cmdSession != 0 && cmd.flags&cmdPubSub != 0 {
			out[i] = errf("Command not allowed inside a transaction")
			continue
		}
		out[i] = c.e.run(&call{store: c.store, e: c.e, args: words, sess: s}, cmd)
		s.waiting = nil // nothing blocks in a transaction
	}
	return arrayReply(out)
}

// cmdCommand answers just enough for tools that ask before they begin.
func cmdCommand(c *call) Reply {
	names := make([]string, 0, len(c.e.commands)/2)
	for name, cmd := range c.e.commands {
		if name == cmd.name {
			names = append(names, name)
		}
	}
	if len(c.args) == 1 {
		return arrayReply(nil)
	}
	switch strings.ToUpper(c.args[1]) {
	case "COUNT":
		return intReply(len(names))
	case "LIST":
		slices.Sort(names)
		return arrayReply(bulks(names))
	case "DOCS":
		return Reply{Kind: KindMap}
	case "INFO":
		out := make([]Reply, max(len(c.args)-2, 0))
		for i := range out {
			out[i] = Reply{Kind: KindNilArray}
		}
		return arrayReply(out)
	}
	return errf("unknown subcommand '" + c.args[1] + "'. Try COMMAND HELP.")
}

// cmdInfo has the sections server, clients, memory, commandstats and keyspace.
func cmdInfo(c *call) Reply {
	e := c.e
	want := func(section string) bool {
		if len(c.args) == 1 {
			return section != "commandstats"
		}
		return slices.ContainsFunc(c.args[1:], func(a string) bool {
			a = strings.ToLower(a)
			return a == section || a == "all" || a == "everything" || a == "default" && section != "commandstats"
		})
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\r\n", args...) }
	if want("server") {
		line("# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\nprocess_id:%d\r\nrun_id:%s\r\nuptime_in_seconds:%d\r\nserver_time_usec:%d\r\n",
			serverVersion, os.Getpid(), e.runID, int64(time.Since(e.started).Seconds()), c.nowUs)
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
			if name == cmd.name && cmd.calls > 0 {
				usec := cmd.spent.Microseconds()
				lines = append(lines, fmt.Sprintf("cmdstat_%s:calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=0,failed_calls=0",
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
		if n := e.store.keys.len(); n > 0 {
			expires := 0
			e.store.keys.each(func(_ string, ent *entry) bool {
				if ent.expireAt != 0 {
					expires++
				}
				return true
			})
			line("db0:keys=%d,expires=%d,avg_ttl=0", n, expires)
		}
	}
	return Reply{Kind: KindVerbatim, Str: b.String()}
}

// settings is what CONFIG GET knows, because clients and checks ask for it.
func (e *Engine) settings() [][2]string {
	appendOnly, fsync := "no", "no"
	if e.log != nil {
		appendOnly = "yes"
		fsync = map[Fsync]string{FsyncAlways: "always", FsyncEverySecond: "everysec", FsyncNever: "no"}[e.log.policy]
	}
	return [][2]string{
		{"appendfsync", fsync},
		{"appendonly", appendOnly},
		{"databases", "1"},
		{"maxmemory", "0"},
		{"maxmemory-policy", "noeviction"},
		{"save", ""},
		{"stream-node-max-bytes", itoa(streamNodeBytes)},
		{"stream-node-max-entries", itoa(streamNodeEntries)},
	}
}

func cmdConfig(c *call) Reply {
	switch {
	case is(c.args[1], "GET") && len(c.args) > 2:
		var out []Reply
		for _, kv := range c.e.settings() {
			if slices.ContainsFunc(c.args[2:], func(p string) bool { return globMatch(strings.ToLower(p), kv[0]) }) {
				out = append(out, bulkReply(kv[0]), bulkReply(kv[1]))
			}
		}
		return Reply{Kind: KindMap, Elems: out}
	case is(c.args[1], "RESETSTAT"):
		for _, cmd := range c.e.commands {
			cmd.calls, cmd.spent = 0, 0
		}
		return replyOK
	case is(c.args[1], "SET"):
		return errf("CONFIG SET is not supported by the embedded engine")
	}
	return errf("unknown subcommand '" + c.args[1] + "'. Try CONFIG HELP.")
}

func cmdRole(*call) Reply {
	return arrayReply([]Reply{bulkReply("master"), replyZero, arrayReply(nil)})
}

// cmdMemory estimates: the engine does not count the bytes of a value.
func cmdMemory(c *call) Reply {
	if !is(c.args[1], "USAGE") || len(c.args) < 3 {
		return errf("unknown subcommand '" + c.args[1] + "'. Try MEMORY HELP.")
	}
	ent := c.lookup(c.args[2])
	if ent == nil {
		return replyNil
	}
	return intReply(len(c.args[2]) + sizeOf(ent.val))
}

func sizeOf(val any) int {
	n := 64
	switch v := val.(type) {
	case string:
		n += len(v)
	case *hash:
		v.each(func(f, s string) bool { n += len(f) + len(s) + 56; return true })
	case *set:
		v.each(func(m string, _ struct{}) bool { n += len(m) + 40; return true })
	case *list:
		for _, s := range v.items() {
			n += len(s) + 16
		}
	case *zset:
		v.scores.each(func(m string, _ float64) bool { n += len(m) + 72; return true })
	case *stream:
		for _, node := range v.nodes {
			n += node.bytes
		}
	}
	return n
}
