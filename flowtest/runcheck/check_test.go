package runcheck_test

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest/runcheck"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

type (
	order struct {
		ID  int
		Sum int
	}
	// laterOrder lacks the sum.
	laterOrder struct{ ID int }
	receipt    struct{ Number string }
)

// activities are the activities of the version that started the runs.
type activities struct {
	charge *activity.Activity[order, receipt]
	mail   *activity.Activity[receipt, string]
	pack   *activity.Activity[int, int]
}

func present() activities {
	return activities{
		charge: activity.New("charge", func(context.Context, order) (receipt, error) { return receipt{"7"}, nil }),
		mail: activity.New("mail", func(_ context.Context, r receipt) (string, error) { return r.Number, nil },
			activity.Lane("mail"), activity.Capabilities("smtp")),
		pack: activity.New("pack", func(_ context.Context, n int) (int, error) { return n, nil }, activity.Lane("store")),
	}
}

func (a activities) definition(t *testing.T) *flow.Definition[order, string] {
	t.Helper()
	f := flow.New[order, string]("sale")
	charged := flow.Node(f, "charge", a.charge, f.Input())
	flow.Map(f, "pack", a.pack, flow.Const([]int{1, 2}))
	flow.Waitpoint[string](f, "approve", flow.After(charged))
	flow.Return(f, flow.Node(f, "mail", a.mail, charged))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func all(a activities) runcheck.Program {
	return runcheck.Program{Workers: []runcheck.Worker{
		{Activities: []activity.Handler{a.charge, a.pack}, Lanes: []string{"default", "store"}},
		{Activities: []activity.Handler{a.mail}, Lanes: []string{"mail"}, Capabilities: []string{"smtp"}},
	}}
}

// problems returns the problems of a program with the runs, each as "node code detail".
func problems(t *testing.T, p runcheck.Program, runs iter.Seq2[*runtime.RunDescription, error]) []string {
	t.Helper()
	var found []string
	for problem, err := range p.Check(runs) {
		require.NoError(t, err)
		found = append(found, strings.TrimSpace(problem.Node+" "+string(problem.Code)+" "+problem.Detail))
		require.Contains(t, problem.String(), problem.Run)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// Each way in which a program may fail to carry runs on is found in open runs, and in the file of their export.
func TestCheck(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := present()
		def := a.definition(t)
		b.Keeper(t)
		run, err := runtime.Start(ctx, b.Client, def, order{ID: 1, Sum: 2}, runtime.WithID("one"))
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{a.charge})
		enginetest.Eventually(t, func() string {
			d, err := b.Client.Run("sale", "one").Describe(ctx)
			require.NoError(t, err)
			for _, n := range d.Nodes {
				if n.Name == "charge" && n.State != fabrictype.NodeSucceeded {
					return n.Name + " is " + string(n.State)
				}
			}
			return ""
		})
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		kinds := make(map[string]fabrictype.NodeKind)
		for _, n := range d.Nodes {
			kinds[n.Name] = n.Kind
		}
		require.Equal(t, map[string]fabrictype.NodeKind{
			"charge": fabrictype.KindActivity, "pack": fabrictype.KindMap, "approve": fabrictype.KindWaitpoint, "mail": fabrictype.KindActivity,
		}, kinds)

		var file bytes.Buffer
		require.NoError(t, runcheck.Export(&file, runcheck.Open(ctx, b.Client)))
		for what, runs := range map[string]func() iter.Seq2[*runtime.RunDescription, error]{
			"open":     func() iter.Seq2[*runtime.RunDescription, error] { return runcheck.Open(ctx, b.Client) },
			"exported": func() iter.Seq2[*runtime.RunDescription, error] { return runcheck.Read(bytes.NewReader(file.Bytes())) },
		} {
			for _, step := range steps(a, def) {
				require.Equal(t, step.want, problems(t, step.program, runs()), "%s runs: %s", what, step.name)
			}
		}
	})
}

type step struct {
	name    string
	program runcheck.Program
	want    []string
}

func steps(a activities, def *flow.Definition[order, string]) []step {
	same := all(a)
	same.Flows = []runtime.Definition{def}

	none := all(a)
	none.Workers = none.Workers[:1]

	lane := all(a)
	lane.Workers[1].Lanes = nil

	capability := all(a)
	capability.Workers[1].Capabilities = []string{"imap"}

	renamed := all(a)
	renamed.Workers[1].Activities = []activity.Handler{
		activity.New("send", a.mail.Call, activity.Alias("mail"), activity.Lane("mail")),
	}
	declared := all(a)
	declared.Workers[1].Activities = []activity.Handler{activity.Declare[receipt, string]("mail")}

	types := all(a)
	types.Workers[0].Activities = []activity.Handler{
		activity.New("charge", func(context.Context, order) (int, error) { return 0, nil }),
		activity.New("pack", func(context.Context, string) (int, error) { return 0, nil }),
	}
	types.Workers[1].Activities = []activity.Handler{
		activity.New("mail", func(context.Context, struct{ Total int }) (string, error) { return "", nil }),
	}

	later := all(a)
	f := flow.New[laterOrder, string]("sale")
	flow.Return(f, flow.Node(f, "hello", activity.New("hello", func(context.Context, laterOrder) (string, error) { return "", nil }),
		f.Input()))
	laterDef, err := f.Build()
	if err != nil {
		panic(err)
	}
	later.Flows = []runtime.Definition{laterDef}

	return []step{
		{"the same program", same, nil},
		{"an activity is missing", none, []string{`mail activity_missing no worker has the activity "mail"`}},
		{"a lane is not served", lane, []string{`mail lane_unserved no worker with the activity "mail" serves the lane "mail"`}},
		{"a capability is not offered", capability, []string{
			`mail capability_unserved no worker with the activity "mail" on the lane "mail" has the capability "smtp"`,
		}},
		{"an alias", renamed, nil},
		{"an activity without a function", declared, []string{`mail activity_missing no worker has the activity "mail"`}},
		{"other types", types, []string{
			`charge result_mismatch the stored result does not fit int: cannot unmarshal object into Go value of type int`,
			`mail input_mismatch the stored input does not fit struct { Total int }: unknown field "Number"`,
			`pack input_mismatch the stored input does not fit []string: cannot unmarshal number into Go value of type string`,
		}},
		{"another input of the flow", later, []string{
			`input_mismatch the stored input does not fit runcheck_test.laterOrder: unknown field "Sum"`,
		}},
	}
}

// Unreadable input is an error, which names the run.
func TestReadOfDamage(t *testing.T) {
	t.Parallel()
	for d, err := range runcheck.Read(strings.NewReader("{\"Run\":\"x\"}\n{\"Run\":")) {
		if err == nil {
			require.Equal(t, "x", d.Run)
			continue
		}
		require.ErrorContains(t, err, "exported run 2: ")
	}
}
