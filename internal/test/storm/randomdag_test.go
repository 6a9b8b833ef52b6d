package storm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

// product is the result of every node. It names its inputs, so that a result can be traced.
type product struct {
	Node  string   `json:"node"`
	Nonce string   `json:"nonce"` // of the one call that made it
	From  []string `json:"from,omitempty"`
	Turn  int      `json:"turn,omitempty"` // one more than the last turn of its inputs
}

// task selects the behaviour of a node's function.
type task struct {
	Fails   int           `json:"fails"`   // number of failing attempts
	Dies    bool          `json:"dies"`    // and so do all others
	Later   bool          `json:"later"`   // failures ask for a delay
	Pace    time.Duration `json:"pace"`    // how long it works
	Once    bool          `json:"once"`    // it has a durable step
	Asks    bool          `json:"asks"`    // it waits for a signal
	Limited bool          `json:"limited"` // the storm's limit applies to it
	Holds   int64         `json:"holds"`   // coins that it reserves while it works
	Spends  int64         `json:"spends"`  // the usage that it reports
}

// order is the input of a node's function.
type order struct {
	Task   task      `json:"task"`
	All    []product `json:"all,omitempty"`
	First  *product  `json:"first,omitempty"`
	Backed *backing  `json:"backed,omitempty"`
}

// backing are the results that may be constants.
type backing struct {
	A product `json:"a,omitzero"`
	B product `json:"b,omitzero"`
	C product `json:"c,omitzero"`
	D product `json:"d,omitzero"`
}

// kind selects how a node is wired.
type kind string

const (
	plain   kind = "plain"   // takes the results of all its upstreams
	anyOf   kind = "any"     // takes the result of the first that succeeds
	quorum  kind = "quorum"  // takes the results of the first that succeed
	waits   kind = "waits"   // is a waitpoint
	hurried kind = "hurried" // is a waitpoint with a short timeout
	rescue  kind = "rescue"  // runs when its upstream has failed
	always  kind = "always"  // runs when its upstream has ended
	mapped  kind = "mapped"  // takes the results of a node that runs the function for each item of a list
	nested  kind = "nested"  // is another flow
	looped  kind = "looped"  // runs another flow until its condition holds
	grown   kind = "grown"   // runs the plan that its function makes
	undoing kind = "undoing" // runs when one of its upstreams has failed
	slept   kind = "slept"   // runs when a timer after its upstreams has ended
	chosen  kind = "chosen"  // runs if a condition holds, which it does
	barred  kind = "barred"  // runs if the same condition does not hold
	hollow  kind = "hollow"  // is another flow, whose result is skipped for a condition
	backed  kind = "backed"  // takes the results of its upstreams, or constants in place of those skipped for a condition
)

// dagNode is one node of a random flow.
type dagNode struct {
	name     string
	kind     kind
	from     []int
	needed   int // of a quorum
	letRun   bool
	lane     string
	priority int
	task     task
}

// isJoin reports whether the node's upstreams may be cancelled by its start.
func (n *dagNode) isJoin() bool { return n.kind == anyOf || n.kind == quorum }

// isFlow reports whether the node runs another flow, whose nodes do not do its task.
func (n *dagNode) isFlow() bool {
	return n.kind == nested || n.kind == looped || n.kind == grown || n.kind == hollow
}

// isWait reports whether signals end the node.
func (n *dagNode) isWait() bool { return n.kind == waits || n.kind == hurried }

// randomDAG is a random flow. All processes draw the same one from the same seed.
type randomDAG struct {
	nodes []dagNode
	// closes reports whether the flow has a node that runs however the run ends: closing.
	closes bool
}

const closing = "close"

// activities are the activities of random flows.
type activities struct {
	step  *activity.Activity[order, product]
	until *activity.Activity[product, bool] // ends loops
	plan  *activity.Activity[int, flow.Plan[product]]
	mail  *activity.Activity[[]string, []string]
}

func (a activities) handlers() []activity.Handler {
	f := flow.New[int, product](flowName)
	flow.Return(f, flow.Node(f, "only", a.step, flow.Const(order{}), holds(f)))
	def, err := f.Build()
	if err != nil {
		panic(err)
	}
	empty, err := hollowFlow(a.step)
	if err != nil {
		panic(err)
	}
	return append(append(def.Handlers(), a.until, a.plan, a.mail), empty.Handlers()...)
}

// holds is the condition of the flows, which is true.
func holds(f *flow.Builder[int, product]) flow.Condition {
	return flow.When(f.Input(), "holds", func(n int) bool { return n == 1 })
}

const (
	limitName  = "storm"
	limitPlace = 3
	retries    = 3 // beyond the failures of the task
	hurry      = 150 * time.Millisecond
)

func newRandomDAG(seed uint64) *randomDAG {
	r := rand.New(rand.NewPCG(seed, 7))
	s := &randomDAG{nodes: make([]dagNode, 2+r.IntN(14)), closes: r.IntN(3) == 0}
	for i := range s.nodes {
		n := &s.nodes[i]
		n.name = fmt.Sprintf("n%02d", i)
		n.lane = []string{activity.DefaultLane, activity.DefaultLane, "other"}[r.IntN(3)]
		n.priority = []int{0, 0, r.IntN(9000)}[r.IntN(3)]
		n.kind = plain
		if i > 0 {
			n.wire(r, i)
		}
		if i == len(s.nodes)-1 && n.kind != anyOf && n.kind != quorum {
			n.kind = plain
		}
		n.task = newTask(r)
	}
	return s
}

func (n *dagNode) wire(r *rand.Rand, i int) {
	taken := make(map[int]bool)
	for range r.IntN(min(i, 4) + 1) {
		// Most edges come from near by, so that the flows are deep as well as wide.
		up := max(0, i-1-r.IntN(4))
		if !taken[up] {
			taken[up] = true
			n.from = append(n.from, up)
		}
	}
	if len(n.from) == 0 {
		return
	}
	n.letRun = r.IntN(2) == 0
	switch r.IntN(23) {
	case 0:
		n.kind = waits
	case 1:
		n.kind = hurried
	case 2:
		n.kind, n.from = rescue, n.from[:1]
	case 3:
		n.kind, n.from = always, n.from[:1]
	case 4, 5:
		n.kind = anyOf
	case 6, 7:
		n.kind, n.needed = quorum, 1+r.IntN(len(n.from))
	case 8:
		n.kind, n.needed = mapped, 1+r.IntN(6)
	case 9:
		n.kind = nested
	case 10:
		n.kind = looped
	case 11:
		n.kind = grown
	case 12:
		n.kind = undoing
	case 13:
		n.kind = slept
	case 14:
		n.kind = chosen
	case 15:
		n.kind = barred
	case 16:
		n.kind = hollow
	case 17, 18:
		n.kind = backed
	}
}

func newTask(r *rand.Rand) task {
	t := task{
		Dies: r.IntN(25) == 0, Later: r.IntN(2) == 0, Once: r.IntN(5) == 0, Asks: r.IntN(14) == 0, Limited: r.IntN(6) == 0,
		Pace: time.Duration(r.IntN(30)) * time.Millisecond,
	}
	if r.IntN(6) == 0 {
		t.Fails = 1 + r.IntN(2)
	}
	if r.IntN(12) == 0 {
		t.Pace = time.Duration(200+r.IntN(500)) * time.Millisecond // long enough to be killed in
	}
	if r.IntN(4) == 0 {
		t.Spends = 1 + r.Int64N(9)
	}
	if r.IntN(4) == 0 && reserves() {
		t.Holds = 1 + r.Int64N(3)
	}
	return t
}

const flowName = "storm"

// define makes the flow that the random DAG describes.
func (s *randomDAG) define(a activities) (*flow.Definition[int, product], error) {
	f := flow.New[int, product](flowName, ledger())
	step, refs := a.step, make([]flow.Ref[product], len(s.nodes))
	var condition flow.Condition
	if slices.ContainsFunc(s.nodes, func(n dagNode) bool { return n.kind == chosen || n.kind == barred }) {
		condition = holds(f)
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		up := make([]flow.Ref[product], len(n.from))
		for k, from := range n.from {
			up[k] = refs[from]
		}
		if n.isWait() {
			opts := []flow.WaitOption{flow.AfterEach(up)}
			if n.kind == hurried {
				opts = append(opts, activity.Timeout(hurry, activity.FailOnTimeout))
			}
			refs[i] = flow.Waitpoint[product](f, n.name, opts...)
			continue
		}
		switch n.kind {
		case mapped:
			items := make([]order, n.needed)
			for k := range items {
				items[k].Task.Pace = time.Duration(k) * 5 * time.Millisecond
			}
			list := flow.Map(f, n.itemsName(), step, flow.Const(items), flow.ItemsAtOnce(3), flow.AfterEach(up))
			input := flow.Struct[order](flow.Field("task", flow.Const(n.task)), flow.Field("all", list))
			refs[i] = flow.Node(f, n.name, step, input, n.options(up)...)
		case nested:
			inner, err := innerFlow(step)
			if err != nil {
				return nil, err
			}
			refs[i] = flow.Sub(f, n.name, inner, flow.Const(1), flow.AfterEach(up))
		case hollow:
			empty, err := hollowFlow(step)
			if err != nil {
				return nil, err
			}
			refs[i] = flow.Sub(f, n.name, empty, flow.Const(1), flow.AfterEach(up))
		case looped:
			turn, err := turnFlow(step)
			if err != nil {
				return nil, err
			}
			refs[i] = flow.Loop(f, n.name, turn, a.until, flow.Const(product{}), turns+2, flow.AfterEach(up))
		case grown:
			refs[i] = flow.Expand(f, n.name, a.plan, flow.Const(1), flow.MayRun(step), flow.AfterEach(up))
		case slept:
			timer := flow.Sleep(f, n.timerName(), n.task.Pace+time.Millisecond, flow.AfterEach(up))
			refs[i] = flow.Node(f, n.name, step, n.input(up), append(n.options(up), flow.After(timer))...)
		case chosen:
			refs[i] = flow.Node(f, n.name, step, n.input(up), append(n.options(up), condition, flow.AfterEach(up))...)
		case barred:
			refs[i] = flow.Node(f, n.name, step, n.input(up), append(n.options(up), condition.Not(), flow.AfterEach(up))...)
		default:
			refs[i] = flow.Node(f, n.name, step, n.input(up), n.options(up)...)
		}
	}
	if s.closes {
		flow.Node(f, closing, step, flow.Const(order{}), flow.Finally(0))
	}
	flow.Return(f, refs[len(refs)-1])
	return f.Build()
}

// turns is how many turns loops take.
const turns = 3

// turnFlow is the flow of the turns of loops.
func turnFlow(step *activity.Activity[order, product]) (*flow.Definition[product, product], error) {
	f := flow.New[product, product]("turn")
	flow.Return(f, flow.Node(f, "turn", step, flow.Struct[order](flow.Field("task", flow.Const(task{})), flow.Field("all", flow.List(f.Input())))))
	return f.Build()
}

// itemsName is the node with the list of a mapped node's items.
func (n *dagNode) itemsName() string { return n.name + "-items" }

// timerName is the timer before a node that sleeps.
func (n *dagNode) timerName() string { return n.name + "-timer" }

// innerFlow is the flow that nested nodes run: two nodes, of which the second one retries once.
func innerFlow(step *activity.Activity[order, product]) (*flow.Definition[int, product], error) {
	f := flow.New[int, product]("inner")
	first := flow.Node(f, "first", step, flow.Const(order{}))
	second := flow.Struct[order](flow.Field("task", flow.Const(task{Fails: 1})), flow.Field("all", flow.List(first)))
	flow.Return(f, flow.Node(f, "second", step, second, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 1 + retries, Factor: 1})))
	return f.Build()
}

// hollowFlow is the flow of hollow nodes: its result is skipped, and it has a cleanup.
func hollowFlow(step *activity.Activity[order, product]) (*flow.Definition[int, product], error) {
	f := flow.New[int, product]("hollow")
	never := flow.When(f.Input(), "never", func(n int) bool { return n != 1 })
	flow.Return(f, flow.Node(f, "only", step, flow.Const(order{}), never))
	flow.Node(f, "work", step, flow.Const(order{Task: task{Pace: 5 * time.Millisecond}}))
	flow.Node(f, closing, step, flow.Const(order{}), flow.Finally(0))
	return f.Build()
}

func (n *dagNode) input(up []flow.Ref[product]) flow.Binding[order] {
	fields := []flow.FieldBinding{flow.Field("task", flow.Const(n.task))}
	switch {
	case n.kind == plain && len(up) > 0:
		fields = append(fields, flow.Field("all", flow.List(up...)))
	case n.kind == backed && len(up) > 0:
		var taken []flow.FieldBinding
		for i := range up {
			taken = append(taken, flow.Field("abcd"[i:i+1], flow.OrElse(up[i], product{})))
		}
		fields = append(fields, flow.Field("backed", flow.Struct[backing](taken...)))
	case n.kind == anyOf:
		fields = append(fields, flow.Field("first", flow.AnyOf(up...)))
	case n.kind == quorum:
		fields = append(fields, flow.Field("all", flow.Quorum(n.needed, up...)))
	}
	return flow.Struct[order](fields...)
}

func (n *dagNode) options(up []flow.Ref[product]) []flow.NodeOption {
	opts := []flow.NodeOption{
		activity.Lane(n.lane), activity.Priority(n.priority),
		activity.Retry(activity.RetryPolicy{First: time.Millisecond, Max: 20 * time.Millisecond, Attempts: n.task.Fails + retries}),
	}
	if n.task.Limited {
		opts = append(opts, activity.Limit(limitName, activity.LimitConfig{AtOnce: limitPlace}))
	}
	switch {
	case n.kind == undoing:
		opts = append(opts, flow.OnAnyFailure(upstreams(up)...))
	case n.kind == rescue:
		opts = append(opts, flow.OnFailure(up[0]))
	case n.kind == always:
		opts = append(opts, flow.Always(up[0]))
	case n.isJoin() && n.letRun:
		opts = append(opts, flow.LetRun())
	}
	return opts
}

// upstreams are references without their types.
func upstreams(refs []flow.Ref[product]) []flow.Upstream {
	list := make([]flow.Upstream, len(refs))
	for i, ref := range refs {
		list[i] = ref
	}
	return list
}

// newActivities returns the activities of all nodes; the functions of steps record their effects in the diary.
func newActivities(d *diary) activities {
	step := activity.New("storm.step", func(ctx context.Context, o order) (product, error) { return d.step(ctx, o) })
	return activities{
		step:  step,
		until: activity.New("storm.until", func(_ context.Context, p product) (bool, error) { return p.Turn >= turns, nil }),
		plan: activity.New("storm.plan", func(context.Context, int) (flow.Plan[product], error) {
			inner, err := innerFlow(step)
			if err != nil {
				return flow.Plan[product]{}, activity.NonRetryable(err)
			}
			return flow.PlanOf(inner, 1)
		}),
		mail: activity.New("storm.mail", collect),
	}
}
