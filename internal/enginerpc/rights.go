package enginerpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// The commands on data that the library and the programs use, each with a sample of its arguments, in which K and L are
// keys. Commands that the library can do without are not among them.
const (
	readCommands = "EXISTS K|GET K|GETRANGE K 0 1|HEXISTS K f|HGET K f|HGETALL K|HKEYS K|HLEN K|HMGET K f|HSCAN K 0|HSTRLEN K f|" +
		"LINDEX K 0|LLEN K|LPOS K e|LRANGE K 0 1|MGET K|PTTL K|SCARD K|SISMEMBER K m|SMEMBERS K|SMISMEMBER K m|" +
		"SRANDMEMBER K|SSCAN K 0|STRLEN K|XLEN K|XRANGE K - +|XREAD STREAMS K 0|XREVRANGE K + -|ZCARD K|ZCOUNT K 0 1|ZRANGE K 0 1|" +
		"ZRANGEBYSCORE K 0 1|ZRANK K m|ZSCAN K 0|ZSCORE K m"
	writeCommands = "COPY K L|DECR K|DEL K|HDEL K f|HINCRBY K f 1|HSET K f v|HSETNX K f v|INCR K|LINSERT K BEFORE e f|LPOP K|" +
		"LPUSH K e|LREM K 1 e|LSET K 0 e|LTRIM K 0 1|MSET K v|PEXPIRE K 1|PERSIST K|PEXPIREAT K 1|RENAME K L|RPOP K|RPUSH K e|SADD K m|SET K v|" +
		"SETRANGE K 0 v|APPEND K v|SPOP K|SREM K m|UNLINK K|XADD K * f v|XDEL K 1|XTRIM K MAXLEN 1|" +
		"ZADD K 1 m|ZPOPMIN K|ZREM K m|ZREMRANGEBYSCORE K 0 1"
	otherCommands = "TIME|SCAN 0"
)

// samples puts keys into a list of commands.
func (conn *Conn) samples(list string) []string {
	key := conn.keys.prefix + ":rights"
	return strings.Split(strings.NewReplacer(" K", " "+key, " L", " "+key+":2").Replace(list), "|")
}

// probeName is a lane, a worker and a slot of the wake ring that do not exist, so that their channels have no
// subscribers.
const probeName = ":rights"

// channels are one of each kind that messages go through.
func (conn *Conn) channels() []string {
	k := conn.keys
	return []string{
		k.ChannelCompletions(), k.ChannelWake(probeName), k.ChannelWakeRing(probeName, probeName), k.ChannelDue(),
		conn.ChannelKeepers(), conn.ChannelStandbyKeepers(),
		k.ChannelDone(probeName), k.ChannelWorker(probeName),
	}
}

// CheckRights verifies on every primary that the user of the connection has all rights on commands, keys and channels
// that the engine uses. The error names the missing rights: it wraps a *RightsError and ErrUnauthorized. It writes
// nothing, and takes one call for each primary. Where the library is another one (Options.ContractOnly), it checks
// channels, one command that reads and one that writes.
func (conn *Conn) CheckRights(ctx context.Context) error {
	if err := conn.connected(); err != nil {
		return err
	}
	return conn.onPrimaries(ctx, func(node rueidis.Client) error { return conn.checkRightsOn(ctx, node) })
}

func (conn *Conn) checkRightsOn(ctx context.Context, node rueidis.Client) error {
	if conn.contractOnly {
		return conn.probeRights(ctx, node)
	}
	read, write := conn.samples(readCommands), conn.samples(writeCommands)
	var publish, subscribe []string
	for _, channel := range conn.channels() {
		publish = append(publish, "PUBLISH "+channel+" m")
		subscribe = append(subscribe, "SUBSCRIBE "+channel)
	}
	other := conn.samples(otherCommands)
	if conn.replication != nil {
		other = append(other, "WAIT 0 0", "INFO replication")
	}
	call := MissingRightsCall{Commands: slices.Concat(read, write, publish, subscribe, other)}
	w := &wire{name: call.info().name}
	call.encode(w)
	reply, err := Decode(ctx, call, node.Do(ctx, w.command(node.B())))
	if server, ok := errors.AsType[*enginecore.ServerError](err); ok &&
		strings.Contains(server.Message, "Function not found") {
		return conn.probeRights(ctx, node) // another program is replacing the library at this moment
	}
	if err != nil {
		return fmt.Errorf("rights of the user: %w", err)
	}
	if len(reply.Missing) == 0 {
		return nil
	}
	rules := newRules(reply.Missing)
	rules.whole(read, "~"+conn.keys.prefix+":*", "+@read")
	rules.whole(write, "~"+conn.keys.prefix+":*", "+@write")
	rules.channels(publish, subscribe, "&"+conn.keys.prefix+":*")
	return &enginecore.RightsError{Missing: reply.Missing, Rules: rules.list()}
}

// ruleBook finds the rules that give the missing rights.
type ruleBook struct {
	missing map[string]bool
	rules   []string
}

func newRules(missing []string) *ruleBook {
	b := &ruleBook{missing: make(map[string]bool, len(missing))}
	for _, command := range missing {
		b.missing[command] = true
	}
	return b
}

func (b *ruleBook) lacksAll(commands []string) bool {
	return !slices.ContainsFunc(commands, func(c string) bool { return !b.missing[c] })
}

// whole adds rules for a group of commands if all of them are missing; each other missing command gets a separate rule.
func (b *ruleBook) whole(commands []string, rules ...string) {
	if !b.lacksAll(commands) {
		return
	}
	b.give(commands, rules...)
}

func (b *ruleBook) give(commands []string, rules ...string) {
	for _, command := range commands {
		delete(b.missing, command)
	}
	for _, rule := range rules {
		if !slices.Contains(b.rules, rule) {
			b.rules = append(b.rules, rule)
		}
	}
}

// channels adds the rule for channels: a right on a channel covers both sending and receiving, so where only one of the
// two is missing, the right on the command is missing.
func (b *ruleBook) channels(publish, subscribe []string, pattern string) {
	for i := range publish {
		if both := []string{publish[i], subscribe[i]}; b.lacksAll(both) {
			b.give(both, pattern)
		}
	}
	if slices.Contains(b.rules, pattern) {
		b.rules = append(b.rules, "+publish", "+subscribe") // which may be missing as well
	}
}

// list returns the rules that were added, and one rule for each command that is still missing.
func (b *ruleBook) list() []string {
	for _, command := range slices.Sorted(maps.Keys(b.missing)) {
		name, _, _ := strings.Cut(command, " ")
		b.give(nil, "+"+strings.ToLower(name))
	}
	return b.rules
}

// probeRights finds out about rights without the library, before it is loaded: with commands that change nothing.
func (conn *Conn) probeRights(ctx context.Context, node rueidis.Client) error {
	key := conn.keys.prefix + ":rights"
	ownKeys, ownChannels := "~"+conn.keys.prefix+":*", "&"+conn.keys.prefix+":*"
	worker := conn.keys.ChannelWorker(probeName)
	wire, release := node.Dedicate()
	defer release()
	defer wire.Close() // with its subscriptions
	b := wire.B()
	rules := newRules(nil)
	var missing []string
	for _, probe := range []struct {
		text    string
		command rueidis.Completed
		rules   []string
	}{
		{"GET " + key, b.Get().Key(key).Build(), []string{ownKeys, "+@read"}},
		{"UNLINK " + key, b.Unlink().Key(key).Build(), []string{ownKeys, "+@write"}},
		{"PUBLISH " + worker, b.Publish().Channel(worker).Message("").Build(), []string{ownChannels, "+publish"}},
		{
			"SUBSCRIBE " + strings.Join(conn.channels(), " "),
			b.Subscribe().Channel(conn.channels()...).Build(), []string{ownChannels, "+subscribe"},
		},
	} {
		err := wire.Do(ctx, probe.command).Error()
		if err == nil || rueidis.IsRedisNil(err) {
			continue
		}
		// A server that answers anything else has let the user pass: rights come first.
		if err = connectError(err); errors.Is(err, enginecore.ErrUnauthorized) {
			missing = append(missing, probe.text)
			rules.give(nil, probe.rules...)
		} else if errors.Is(err, enginecore.ErrNotReachable) || ctx.Err() != nil {
			return fmt.Errorf("rights of the user: %w", err)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &enginecore.RightsError{Missing: missing, Rules: rules.rules}
}
