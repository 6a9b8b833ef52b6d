package main

import (
	"maps"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

// The activities. A step that may succeed a moment later is tried again; a test that fails would fail again.
var (
	build    = activity.New("site.build", Build, transientRetry, activity.StartToClose(10*time.Minute))
	test     = activity.New("site.test", Test, transientRetry, activity.StartToClose(10*time.Minute))
	count    = activity.New("site.count", Count, activity.Retry(activity.RetryPolicy{Attempts: 1}))
	deploy   = activity.New("site.deploy", Deploy, transientRetry)
	verify   = activity.New("site.verify", Verify, transientRetry)
	rollback = activity.New("site.rollback", Rollback, transientRetry)
	clean    = activity.New("site.clean", Clean, transientRetry)

	transientRetry = activity.Retry(activity.RetryPolicy{
		First: 200 * time.Millisecond, Max: 2 * time.Second, Attempts: 4,
	})
)

// matrix has the tests that a release has to pass: arguments of the go command, by the name of the test.
var matrix = map[string][]string{
	"unit":     {"test", "./..."},
	"shuffled": {"test", "-shuffle=on", "-count=20", "./..."},
	"vet":      {"vet", "./..."},
}

// Names of the flow and of its waitpoint.
const (
	flowName = "deploy-site"
	approval = "approval"
)

// approvers is how many people have to agree.
const approvers = 2

// Deployment declares the flow. If it is not decided within the time of escalation, it escalates and keeps waiting. A
// plain flow omits the parts that an engine with the contract's functions alone lacks: it waits for two answers, of
// which none may be a rejection, and rolls nothing back.
func Deployment(escalation time.Duration, plain bool) (*flow.Definition[Change, Deployed], error) {
	f := flow.New[Change, Deployed](flowName,
		flow.Describe("Deploys a web site when two people agree, and takes back what is not good."))

	release := flow.Node(f, "build", build, f.Input())
	var tests []flow.Ref[string]
	for _, name := range slices.Sorted(maps.Keys(matrix)) {
		tests = append(tests, flow.Node(f, "test-"+name, test, flow.Struct[TestInput](
			flow.Field("release", release), flow.Field("args", flow.Const(matrix[name])))))
	}

	agreed := agreement(f, plain, flow.AfterEach(tests), activity.Timeout(escalation, activity.Escalate))
	live := flow.Node(f, "deploy", deploy,
		flow.Struct[DeployInput](flow.Field("release", release), flow.Field("approvals", agreed)))
	verified := flow.Node(f, "verify", verify, live)
	flow.Return(f, verified)
	if !plain {
		takeBack(f, agreed, live, verified)
	}
	return f.Build()
}

// agreement adds the nodes that succeed when people have agreed, and fail when they have not.
func agreement(
	f *flow.Builder[Change, Deployed], plain bool, opts ...flow.WaitOption,
) flow.Ref[[]activity.Signal[activity.Decision]] {
	if !plain {
		return flow.Approval(f, approval, append(opts, activity.Approvers(approvers))...)
	}
	return flow.Node(f, "count", count, flow.WaitpointSignals[activity.Decision](f, approval,
		append(opts, activity.Signals(approve, reject), activity.AtLeast(approvers))...))
}

// takeBack adds the nodes that undo a deployment which has failed, and that clean up after each.
func takeBack(f *flow.Builder[Change, Deployed], steps ...flow.Upstream) {
	// When a node fails, its downstreams are skipped, which is not a failure of theirs. So every step has its own way
	// back.
	ends := []flow.Upstream{steps[len(steps)-1]}
	for _, step := range steps {
		ends = append(ends, flow.Node(f, "undo-"+step.Name(), rollback, f.Input(), flow.OnFailure(step)))
	}
	flow.Node(f, "clean", clean, f.Input(), flow.Always(ends...))
}
