package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// typed are the commands of the transcript. A line that begins with "!" may fail.
const typed = `
start charge --id a --input 7 --tag shop.id=north
run wait charge/a
start charge --id b --input -1 --actor ann
!run wait charge/b
start charge --id c --input 1 --delay 1h -o json
run list --sort created --columns flow,run,state,open,failed,tags
run list --sort created -o name
run list --state failed -o jsonl
run list --state failed -o yaml
run list --text nothing
run list --text nothing -o json
run count
run show charge/b --columns node,activity,state,attempts,why
run show charge/a --node take
run why charge/b
run why charge/b book
run result charge/a
!run result charge/b
!run result charge/c
run events charge/a --columns kind,node,attempt
run logs charge/a take --columns attempt,level,message,attributes
run graph charge/a
values charge/a
values charge/a take -o jsonl
attempts charge/b --columns node,attempt,outcome,error
run fork charge/a --id d --input 9
run wait charge/d
run diff charge/a d --columns node,differs,state
run move charge/c 2030-01-01T00:00:00Z
run priority charge/c 7
run pause charge/c --reason later
run resume charge/c
run cancel charge/c --dry-run
!run cancel charge/c
run cancel charge/c --yes
run rerun charge/b
!run wait charge/b
!run show charge/nobody
run purge charge/b --yes
start ask --id x --input 1
inbox --columns flow,run,node,title,signals,received
inbox ask/x -o name
!signal maybe ask x gate
!signal yes ask x gate --payload {"approve":false}
run why ask/x
answer ask/x --approve --comment fine
run wait ask/x
!answer ask/x --approve
flow list --columns flow,nodes,input,result,by
flow show ask --graph outline
flow diff ask charge
flow check
lane pause slow --reason release
lane pauses --columns kind,name,reason
lane resume slow
activity pause mail --reason quiet
activity resume mail
limit set crm --at-once 3
limit show crm -o yaml
limit reset crm
!limit set crm --at-once 3 --key ""
schedule create nightly charge --cron "0 3 * * *" --input 3 --paused --reason soon -o yaml
schedule next nightly --count 1 -o name
schedule edit nightly --every 2h
schedule list --columns schedule,flow,times
schedule resume nightly
!schedule delete nightly
schedule delete nightly --yes
bulk preview rerun --flow charge --state succeeded -o json
bulk preview cancel --flow charge --state failed
token create ann --role viewer -o name
token list --columns token,role
token delete ann --yes
audit --limit 3 --columns action,name,detail
!token delete ann --yes
!lane show nowhere
!worker drain nobody --yes
!keeper run nothing
!execution show {fp:1}:00000000-0000-4000-8000-000000000000
`

// stable replaces texts that differ from one session to another.
var stable = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?`), "TIME"},
	{regexp.MustCompile(`\{fp:\d+\}:[0-9a-f-]{36}`), "EXECUTION"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`worker-ID`), "WORKER"},
	{regexp.MustCompile(`took [0-9.hms]+`), "took SPAN"},
	{regexp.MustCompile(`\(build [^,]*,`), "(build),"},
	{regexp.MustCompile(`"(flowfabric|anonymous|ann)"`), `"ACTOR"`},
	{regexp.MustCompile(`(started_by|actor|created_by|by): (flowfabric|anonymous|ann)`), "$1: ACTOR"},
	{regexp.MustCompile(`[ \t]+\n`), "\n"},
}

// words splits a line as a shell does, with double quotes.
func words(line string) []string {
	var list []string
	for _, match := range regexp.MustCompile(`"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		list = append(list, match[1]+match[2])
	}
	return list
}

// A session of many commands prints the same on an engine and through a server.
func TestTranscript(t *testing.T) {
	const file = "testdata/transcript.golden"
	for name, way := range map[string]func(*testing.T, *enginetest.Bench) terminal{"engine": onEngine, "server": onServer} {
		t.Run(name, func(t *testing.T) {
			b := embeddedBench(t)
			prepareTranscript(t, b)
			got := transcript(way(t, b))
			if *update && name == "engine" {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), got, "run go test -run Transcript -update if this is wanted")
		})
	}
}

func prepareTranscript(t *testing.T, b *enginetest.Bench) {
	t.Helper()
	ctx := enginetest.Context(t)
	take := activity.New("take", func(ctx context.Context, amount int) (int, error) {
		activity.Logger(ctx).Info("taking", "amount", amount)
		if amount < 0 {
			return 0, activity.NonRetryable(errors.New("nothing to take"))
		}
		return amount, nil
	})
	add := activity.New("add", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	f := flow.New[int, int]("charge", flow.Describe("Takes money."))
	flow.Return(f, flow.Node(f, "book", add, flow.Node(f, "take", take, f.Input())))
	charge, err := f.Build()
	require.NoError(t, err)
	type decision struct {
		Approve bool   `json:"approve"`
		Comment string `json:"comment,omitempty"`
	}
	g := flow.New[int, decision]("ask")
	flow.Return(g, flow.Waitpoint[decision](g, "gate", activity.Signals("yes"), activity.Title("Go on?")))
	ask, err := g.Build()
	require.NoError(t, err)
	require.NoError(t, b.Client.Publish(ctx, runtime.Publication{Flow: charge, By: "shop"}, runtime.Publication{Flow: ask, By: "shop"}))
	b.Keeper(t)
	b.Worker(t, charge.Handlers(), runtime.WorkerConfig{Name: "worker"})
	enginetest.Eventually(t, func() string {
		workers, err := b.Client.Workers(ctx)
		require.NoError(t, err)
		if len(workers) == 0 {
			return "the worker has not reported"
		}
		return ""
	})
}

// transcript types the session and returns its output, with stable fields.
func transcript(x terminal) string {
	x.t.Helper()
	var text strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(typed), "\n") {
		line, mayFail := strings.CutPrefix(line, "!")
		args := words(line)
		if x.where.IsServer() { // which knows the actor by the login
			args = words(strings.Replace(line, " --actor ann", "", 1))
		}
		code, stdout, stderr := x.run(args...)
		if code != 0 && !mayFail {
			x.t.Errorf("%s: exit code %d: %s", line, code, stderr)
		}
		if run, waits := strings.CutPrefix(line, "run wait "); waits {
			x.untilClosed(run)
		}
		fmt.Fprintf(&text, "$ flowfabric %s\n%s%s", line, stdout, stderr)
		if code != 0 {
			fmt.Fprintf(&text, "exit code %d\n", code)
		}
		text.WriteByte('\n')
	}
	out := text.String()
	for _, s := range stable {
		out = s.pattern.ReplaceAllString(out, s.text)
	}
	return out
}

// untilClosed waits until all nodes of a run that is over have ended, which may be after its failure.
func (x terminal) untilClosed(run string) {
	x.t.Helper()
	enginetest.Eventually(x.t, func() string {
		if x.lines("run", "show", run)[0]["closed_at"] == nil {
			return "nodes are open"
		}
		return ""
	})
}
