package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/activity/activitytest"
	"github.com/flowfabric/flowfabric-go/approvals"
)

// The flow is stored with every run: a change of it makes a run of before unknown to a second start, so it should be
// meant.
func TestFlow(t *testing.T) {
	t.Parallel()
	def, err := Deployment(15*time.Minute, false)
	require.NoError(t, err)
	path := filepath.Join("testdata", "flow.txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(def.Outline()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), def.Outline())
}

func TestCount(t *testing.T) {
	t.Parallel()
	says := func(choice, by, comment string) activity.Signal[approvals.Decision] {
		return activity.Signal[approvals.Decision]{Name: choice, Source: by, Payload: approvals.Decision{Choice: choice, By: by, Comment: comment}}
	}
	agreed, err := Count(t.Context(), []activity.Signal[approvals.Decision]{says(approve, "bob", ""), says(approve, "ann", "fine")})
	require.NoError(t, err)
	require.Equal(t, Approval{By: []string{"ann", "bob"}}, agreed)

	for comment, want := range map[string]string{"": "rejected by bob", "too late": "rejected by bob: too late"} {
		_, err = Count(t.Context(), []activity.Signal[approvals.Decision]{says(approve, "ann", ""), says(reject, "bob", comment)})
		require.EqualError(t, err, want)
		require.True(t, activitytest.IsNonRetryable(err))
	}
}
