package flowtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest"
)

func TestGolden(t *testing.T) {
	t.Parallel()
	flowtest.Golden(t, refund(t))
}

func TestGoldenOfNoFlow(t *testing.T) {
	t.Parallel()
	var def *flow.Definition[string, string]
	noted := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		flowtest.Golden(noted, def)
	}()
	<-done
	require.Equal(t, "flowtest.Golden: the flow is nil: look at the error of Build\n", noted.text)
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		run := approved(t)
		run.MustSucceed().Snapshot("testdata/refund.run")
		other := filepath.Join(t.TempDir(), "other.run")
		text, err := os.ReadFile("testdata/refund.run")
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(text), "undo: skipped", "undo: completed", 1)
		if err := os.WriteFile(other, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		if flowtest.Updating() {
			return
		}
		failure := failureOf(t, func() { run.Snapshot(other) })
		if !strings.Contains(failure, "- undo: completed\n+ undo: skipped\n") {
			t.Errorf("the failure does not show the difference: %s", failure)
		}
		missing := failureOf(t, func() { run.Snapshot(filepath.Join(t.TempDir(), "none.run")) })
		if !strings.Contains(missing, "-flowtest.update") {
			t.Errorf("the failure does not name the remedy: %s", missing)
		}
	})
}
