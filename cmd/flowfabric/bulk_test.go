package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestBulk(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		x := terminal{t, b}
		f := flow.New[string, string]("import")
		flow.Return(f, flow.Waitpoint[string](f, "gate"))
		def, err := f.Build()
		require.NoError(t, err)
		for _, id := range []string{"monday", "tuesday"} {
			_, err := runtime.Start(ctx, b.Client, def, "in", runtime.WithID(id))
			require.NoError(t, err)
		}
		preview := x.lines("bulk", "preview", "cancel", "-flow", "import")[0]
		require.Equal(t, 2.0, preview["runs"])
		require.Len(t, preview["sample"], 2)
		require.Contains(t, x.ok("bulk", "preview", "cancel", "-flow", "import"), "2 runs")
		for range 2 {
			x.ok("bulk", "start", "cancel", "-flow", "import", "-id", "clean", "-reason", "enough", "-by", "ann")
		}
		require.Equal(t, "running", x.lines("bulk", "show", "clean")[0]["state"])
		_, err = b.RunKeeperTask(ctx, "bulk_job")
		require.NoError(t, err)
		job := x.lines("bulk", "list")[0]
		require.Equal(t, "completed", job["state"])
		require.Equal(t, 2.0, job["done"])
		require.Equal(t, "flow=import", job["query"])
		x.ok("bulk", "start", "rerun", "-from", "nobody", "-every-run", "-id", "wrong")
		_, err = b.RunKeeperTask(ctx, "bulk_job")
		require.NoError(t, err)
		require.Contains(t, x.ok("bulk", "show", "wrong"), "no such node")
		x.ok("bulk", "stop", "wrong")
		x.ok("bulk", "start", "priority", "-priority", "3", "-rate", "1", "-most", "5", "-state", "running", "-id", "p")
		x.ok("bulk", "stop", "p")
		require.Contains(t, x.ok("bulk", "list"), "priority 3")
	})
}

func TestBulkUsage(t *testing.T) {
	x := terminal{t, enginetest.New(t, testserver.Embedded)}
	for want, args := range map[string]string{
		"want start, preview":       "",
		`"begin": want start`:       "begin",
		`no action "kill"`:          "start kill -flow x",
		"-every-run":                "start purge",
		"exclude each other":        "start rerun -all -from x -flow x",
		"want 1 arguments (ID)":     "show",
		"want 1 arguments (ACTION)": "preview",
		"must be one of running":    "start cancel -state gone",
		"priority -1: must be 0 to": "start priority -priority -1 -flow x",
		"the payload is not JSON":   "start signal -signal go -payload { -flow x",
	} {
		code, _, stderr := x.run(append([]string{"bulk"}, strings.Fields(args)...)...)
		require.Equal(t, exitUsage, code, args)
		require.Contains(t, stderr, want)
	}
}
