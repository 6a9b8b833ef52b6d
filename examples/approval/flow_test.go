package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/activity/activitytest"
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
	says := func(choice, by string) activity.Signal[activity.Decision] {
		return activity.Signal[activity.Decision]{Name: choice, Source: by, Payload: activity.Decision{Choice: choice, By: by}}
	}
	answers := []activity.Signal[activity.Decision]{says(approve, "bob"), says(approve, "ann")}
	agreed, err := Count(t.Context(), answers)
	require.NoError(t, err)
	require.Equal(t, answers, agreed)

	_, err = Count(t.Context(), []activity.Signal[activity.Decision]{says(approve, "ann"), says(reject, "bob")})
	require.EqualError(t, err, "rejected by bob")
	require.True(t, activitytest.IsNonRetryable(err))
}
