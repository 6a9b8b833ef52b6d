package flowtest_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flowtest"
	"github.com/flowfabric/flowfabric-go/flowtest/runcheck"
)

// A run that waits for an answer is carried on by the program that started it, and not by one without the activity that
// comes then.
func TestCheckRuns(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		fakes(t)
		def := refund(t)
		run := flowtest.Start(t, def, order{ID: 7})
		run.Node("approve").Waiting()
		var file bytes.Buffer
		if err := runcheck.Export(&file, runcheck.Open(context.Background(), t.Client())); err != nil {
			t.Fatal(err)
		}
		today := runcheck.Program{Workers: []runcheck.Worker{{Activities: def.Handlers()}}}
		flowtest.CheckRuns(t, today, runcheck.Read(bytes.NewReader(file.Bytes())))

		later := runcheck.Program{Workers: []runcheck.Worker{{Activities: []activity.Handler{charge}}}}
		text := failureOf(t, func() { flowtest.CheckRuns(t, later, runcheck.Read(&file)) })
		if !strings.Contains(text, "activity_missing: no worker has the activity") {
			t.Errorf("a missing activity is %q", text)
		}
		run.Node("approve").Waiting().Signal("approve", "ann")
		run.MustResult()
	})
}
