package explain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/explain"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
)

// The reasons that follow from records alone, including reasons that a running deployment shows only for a moment.
func TestReasonsOfRecords(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_763_806_400_000)
	for _, test := range []struct {
		name string
		node enginerpc.DescribedNode
		want string
		says string
	}{
		{"ended", enginerpc.DescribedNode{LifecyclePhase: "terminal", BlockingReason: "none"}, "", ""},
		{"runs", enginerpc.DescribedNode{LifecyclePhase: "active", LeaseExpiresAt: now.Add(time.Second)}, "", ""},
		{"submission", enginerpc.DescribedNode{BlockingReason: "held", BlockingDetail: "held until the flow is submitted"},
			waitreason.Submission, "held until the flow is submitted"},
		{"of another program", enginerpc.DescribedNode{BlockingReason: "waiting_for_locality_match"}, waitreason.Other,
			"waiting_for_locality_match"},
		{"pause by policy", enginerpc.DescribedNode{BlockingReason: "paused_by_policy", BlockingDetail: "quarantine"},
			waitreason.Operator, "quarantine"},
		{"block of another program that looks like a pause", enginerpc.DescribedNode{
			BlockingReason: "paused_by_policy", BlockingDetail: "the run is paused: no",
		}, waitreason.Operator, "the run is paused: no"},
		{"pause of an activity", enginerpc.DescribedNode{
			BlockingReason: "paused_by_operator", BlockingDetail: `activity "add" is paused: broken`,
		}, waitreason.ActivityPaused, `activity "add" is paused: broken`},
		{"input that no worker decodes, by its mark", enginerpc.DescribedNode{
			BlockingReason: "waiting_for_decoder", BlockingDetail: "delayed until noon", DelayUntil: now,
		}, waitreason.Undecodable, "delayed until noon; tried again at " + explain.Time(now)},
		{"delay with any text", enginerpc.DescribedNode{
			BlockingReason: "waiting_for_delay", BlockingDetail: "worker w cannot decode the input", DelayUntil: now,
		}, waitreason.Delay, "delayed until " + explain.Time(now)},
		{"budget without words", enginerpc.DescribedNode{BlockingReason: "waiting_for_budget"}, waitreason.Budget,
			"its budget is exhausted"},
		{"limit without words", enginerpc.DescribedNode{BlockingReason: "waiting_for_quota"}, waitreason.Limit,
			"waits for room under a limit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := explain.Waiting(test.node, nil, now)
			require.Equal(t, test.want, e.Reason)
			require.Equal(t, test.says, e.Sentence)
		})
	}
}

// A node whose upstreams have ended waits for the engine alone.
func TestNodeWithEndedUpstreamsIsSettling(t *testing.T) {
	t.Parallel()
	spec := &flowgraph.Node{Upstreams: []flowgraph.Edge{{Node: "a"}}}
	always := func(string) bool { return true }
	e := explain.Upstreams(fabrictype.Explanation{Reason: waitreason.Upstreams}, spec, always, always)
	require.Equal(t, waitreason.Settling, e.Reason)
	require.NotEmpty(t, e.Sentence)
	require.Empty(t, e.Names)
}

// A limit that has room by now is not blamed: the node waits for its turn.
func TestLimitWithHeadroomIsNotNamed(t *testing.T) {
	t.Parallel()
	waits := fabrictype.Explanation{Reason: waitreason.Limit, Sentence: "waits for room"}
	e := explain.Limits(waits, []enginerpc.QuotaState{{Name: "crm", Cap: 7, Running: 6}}, time.Now())
	require.Equal(t, waits, e)
	e = explain.Limits(waits, []enginerpc.QuotaState{{Name: "crm", Cap: 7, Running: 7, Waiting: 3}}, time.Now())
	require.Equal(t, "waits for room; 7 of 7 places are taken, 3 wait", e.Sentence)
}
