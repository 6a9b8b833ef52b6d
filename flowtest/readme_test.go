package flowtest_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest"
)

type (
	City    struct{ Code string }
	Report  struct{}
	Summary struct{}
	Edition struct{ Day string }
	Letter  struct {
		Edition Edition `json:"edition"`
		Summary Summary `json:"summary"`
	}
	Receipt struct{}
)

var (
	fetch               = activity.New("fetch", Fetch, activity.StartToClose(10*time.Second))
	merge               = activity.New("merge", Merge)
	send                = activity.New("send", Send, activity.Retry(activity.RetryPolicy{Attempts: 8}))
	morning, errMorning = Morning([]City{{Code: "lim"}, {Code: "osl"}, {Code: "nbo"}})
)

func Fetch(context.Context, City) (Report, error)      { return Report{}, errUnreal }
func Merge(context.Context, []Report) (Summary, error) { return Summary{}, nil }
func Send(context.Context, Letter) (Receipt, error)    { return Receipt{}, errUnreal }

func Morning(cities []City) (*flow.Definition[Edition, Receipt], error) {
	f := flow.New[Edition, Receipt]("morning-report", flow.Deadline(time.Hour))
	reports := make([]flow.Ref[Report], len(cities))
	for i, city := range cities {
		reports[i] = flow.Node(f, "fetch-"+city.Code, fetch, flow.Const(city))
	}
	summary := flow.Node(f, "merge", merge, flow.List(reports...))
	receipt := flow.Node(f, "send", send, flow.Struct[Letter](
		flow.Field("edition", f.Input()), flow.Field("summary", summary)))
	flow.Return(f, receipt)
	return f.Build() // every fault at once, with its place
}

func TestMorning(t *testing.T) {
	flowtest.Run(t, func(t *flowtest.T) { // the engine, a keeper and a worker, with a virtual clock
		flowtest.Fake(t, fetch, func(context.Context, City) (Report, error) { return Report{}, nil })
		flowtest.Fake(t, send, func(context.Context, Letter) (Receipt, error) { return Receipt{}, nil })
		t.Inject(send, flowtest.Attempt(1), flowtest.Error(errors.New("no connection")))
		run := flowtest.Start(t, morning, Edition{Day: "Friday"})
		run.MustResult()
		run.Node("send").Attempts(2)
	})
}

// README shows the flow and its test as they are here, where they run.
func TestReadmeShowsThisTest(t *testing.T) {
	t.Parallel()
	if errMorning != nil {
		t.Fatal(errMorning)
	}
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Morning", "TestMorning"} {
		_, after, found := strings.Cut(string(source), "\nfunc "+name+"(")
		function, _, _ := strings.Cut(after, "\n}\n")
		if !found || !strings.Contains(string(page), "func "+name+"("+function+"\n}\n") {
			t.Errorf("README.md does not show the function %s as it is", name)
		}
	}
}
