package contracttest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// badValues take the place of arguments.
var badValues = []string{
	"", "nan", "inf", "-inf", "1e400", "-1", "1.5", "1e300", "1e18", "0x10", " 7 ", "abc", "null", "{}", "[]", "{\"a\":null}",
	"{\"max_retries\":null,\"backoff\":null}", "{\"required_signal_names\":null}", "a\x00b", strings.Repeat("9", 40),
}

// TestRefusedCallsChangeNothing makes calls with valid, bad and missing arguments. A call that is refused or fails with
// an error must leave all keys unchanged, except for the writes that its header declares.
func TestRefusedCallsChangeNothing(t *testing.T) {
	t.Parallel()
	allowed, err := declaredWrites("../../../lua")
	if err != nil {
		t.Fatal(err)
	}
	calls := 1000
	switch {
	case os.Getenv("FLOWFABRIC_SOAK") != "":
		calls = 10_000
	case testing.Short():
		calls = 500
	}
	for _, kind := range testserver.Kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			seed := randseed.Of(t, 0)
			g := newGenerator(newBench(t, kind), seed)
			outcomes := make(map[string]map[string]int)
			for i := range calls {
				if i%250 == 0 {
					g.reset()
					g.submit()
				}
				g.step(t, allowed, outcomes)
			}
			g.report(t, outcomes)
		})
	}
}

// reset empties the keyspace, so that it stays small.
func (g *generator) reset() {
	for _, key := range g.b.list() {
		if key != g.b.keys.FfxWorkers(partition) { // the library caches its content
			g.b.do("DEL", key)
		}
	}
}

// submit replaces two executions and one flow by the nodes and the flow of a new run.
func (g *generator) submit() {
	s := g.b.submit()
	g.executions[0], g.executions[1], g.flows[0] = s.first, s.second, s.flow
}

// declared is the name of a function in its header: composite ones go by others in each protocol.
func declared(function string) string {
	return regexp.MustCompile(`^ffx[0-9]*_`).ReplaceAllString(function, "ffx_")
}

func (g *generator) step(t *testing.T, allowed map[string][]string, outcomes map[string]map[string]int) {
	t.Helper()
	kind := pick(g.r, g.kinds...)
	f := g.prepare(kind.name)
	function, keys, args, err := kind.make(g, f)
	if err != nil {
		t.Fatalf("%s: %v", kind.name, err)
	}
	bad := g.r.IntN(2) == 0
	if bad {
		keys, args = g.spoil(keys, args)
	}
	before := g.snapshot()
	code, scriptError := refusalOf(g.b.raw(t.Context(), function, keys, args))
	outcome := "ok"
	switch {
	case scriptError != "":
		outcome = "error"
		if !bad {
			t.Errorf("%s %q\n%s", function, args, scriptError)
		}
	case code != "":
		outcome = code
	}
	if outcomes[function] == nil {
		outcomes[function] = make(map[string]int)
	}
	outcomes[function][outcome]++
	if outcome == "ok" {
		return
	}
	family, _, _ := strings.Cut(code, ":")
	for _, change := range g.changes(before, g.snapshot(), allowed[declared(function)+" "+family]) {
		t.Errorf("%s answers %s%s and changes %s\nkeys %q\nargs %q", function, code, scriptError, change, keys, args)
	}
}

// spoil makes some arguments bad, or leaves the last arguments or keys out.
func (g *generator) spoil(keys, args []string) (k, a []string) {
	k, a = slices.Clone(keys), slices.Clone(args)
	switch {
	case g.r.IntN(8) == 0 && len(k) > 1:
		k = k[:1+g.r.IntN(len(k)-1)]
	case g.r.IntN(6) == 0 && len(a) > 0:
		a = a[:g.r.IntN(len(a))]
	}
	for range 1 + g.r.IntN(3) {
		if len(a) > 0 {
			a[g.r.IntN(len(a))] = pick(g.r, badValues...)
		}
	}
	return k, a
}

// stored is the content of a key, and its expiry.
type stored struct {
	dump    string
	expires int64
}

func (g *generator) snapshot() map[string]stored {
	b := g.b
	keys := b.match(b.prefix + ":*")
	types := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		types[i] = b.client.B().Type().Key(key).Build()
	}
	commands := make([]rueidis.Completed, 0, 2*len(keys))
	for i, result := range b.client.DoMulti(context.Background(), types...) {
		kind, err := result.ToString()
		if err != nil {
			b.tb.Fatal(err)
		}
		commands = append(commands, contentCommand(b.client, kind, keys[i]), b.client.B().Pexpiretime().Key(keys[i]).Build())
	}
	results := b.client.DoMulti(context.Background(), commands...)
	out := make(map[string]stored, len(keys))
	for i, key := range keys {
		content, err := contentOf(results[2*i])
		if rueidis.IsRedisNil(err) {
			continue // removed in between
		}
		expires, expiresErr := results[2*i+1].AsInt64()
		if expires == noSuchKey {
			continue
		}
		if err := errors.Join(err, expiresErr); err != nil {
			b.tb.Fatal(err)
		}
		out[key] = stored{dump: content, expires: expires}
	}
	return out
}

// noSuchKey is the reply of PEXPIRETIME for a key that has expired since it was listed.
const noSuchKey = -2

// contentCommand reads a key. Sets and hashes are read by member: a server reorganises a large one in memory even when
// it is only read, which changes its dump.
func contentCommand(client rueidis.Client, kind, key string) rueidis.Completed {
	switch kind {
	case "set":
		return client.B().Smembers().Key(key).Build()
	case "hash":
		return client.B().Hgetall().Key(key).Build()
	}
	return client.B().Dump().Key(key).Build()
}

func contentOf(result rueidis.RedisResult) (string, error) {
	m, err := result.ToMessage()
	switch {
	case err != nil:
		return "", err
	case m.IsMap():
		fields, err := m.AsStrMap()
		pairs := make([]string, 0, len(fields))
		for name, value := range fields {
			pairs = append(pairs, fmt.Sprintf("%q=%q", name, value))
		}
		slices.Sort(pairs)
		return strings.Join(pairs, " "), err
	case m.IsArray():
		members, err := m.AsStrSlice()
		slices.Sort(members)
		return fmt.Sprintf("%q", members), err
	}
	return m.ToString()
}

// changes lists the keys that differ, without those that the patterns allow and those that ran out.
func (g *generator) changes(before, after map[string]stored, allowed []string) []string {
	var out []string
	now := time.Now().Add(time.Second).UnixMilli()
	note := func(key string) {
		for _, pattern := range allowed {
			if regexp.MustCompile(pattern).MatchString(key) {
				return
			}
		}
		out = append(out, key)
	}
	for key, old := range before {
		switch current, there := after[key]; {
		case !there && old.expires > 0 && old.expires < now:
		case !there || current != old:
			note(key)
		}
	}
	for key := range after {
		if _, there := before[key]; !there {
			note(key)
		}
	}
	return out
}

func (g *generator) report(t *testing.T, outcomes map[string]map[string]int) {
	t.Helper()
	var never []string
	for name, counts := range outcomes {
		t.Logf("%-40s %v", name, counts)
		if counts["ok"] == 0 {
			never = append(never, name)
		}
	}
	slices.Sort(never)
	t.Logf("never successful: %v", never)
}

// declaredWrites reads from the headers of the Lua files which keys a refused call may write: "function code" →
// patterns of keys. A header names a key by its role in the function, by its template, or by the template's last part.
func declaredWrites(dir string) (map[string][]string, error) {
	var all strings.Builder
	for _, file := range lualib.Files() {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
		if err != nil {
			return nil, err
		}
		all.Write(text)
	}
	templates := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^-- @template +(\S+) +(\S+)`).FindAllStringSubmatch(all.String(), -1) {
		templates[m[1]] = "^[^:]*:" + regexp.MustCompile(`\\\{[\w:]+\\\}`).ReplaceAllString(regexp.QuoteMeta(m[2]), ".*") + "$"
	}
	out := make(map[string][]string)
	var function string
	var roles map[string]string
	header := regexp.MustCompile(`(?m)^-- @(function|key|writes_on) +(.*(?:\n--    .*)*)`)
	for _, m := range header.FindAllStringSubmatch(all.String(), -1) {
		words := strings.Fields(strings.ReplaceAll(m[2], "\n--", " "))
		switch m[1] {
		case "function":
			function, roles = words[0], make(map[string]string)
		case "key":
			template, _, _ := strings.Cut(words[1], "(")
			roles[words[0]] = templates[template]
		case "writes_on":
			for _, name := range words[1:] {
				patterns := patternsOf(name, roles, templates)
				if slices.Contains(patterns, templates["exec.core"]) { // or a row in its place
					patterns = append(patterns, templates["flow.nodes"], templates["flow.more"])
				}
				if len(patterns) == 0 {
					return nil, fmt.Errorf("%s: unknown key %s in @writes_on", function, name)
				}
				out[function+" "+words[0]] = append(out[function+" "+words[0]], patterns...)
			}
		}
	}
	return out, nil
}

func patternsOf(name string, roles, templates map[string]string) []string {
	if pattern, ok := roles[name]; ok {
		return []string{pattern}
	}
	var out []string
	for template, pattern := range templates {
		if template == name || strings.HasSuffix(template, "."+name) {
			out = append(out, pattern)
		}
	}
	return out
}
