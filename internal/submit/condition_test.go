package submit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

func TestConditions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		opts []activity.WaitOption
		want string
	}{
		"any":      {nil, `{"condition_type":"signal_set","required_signal_names":[],"signal_match_mode":"any","minimum_signal_count":1}`},
		"one of":   {[]activity.WaitOption{activity.Signals("a", "b")}, `{"condition_type":"signal_set","required_signal_names":["a","b"],"signal_match_mode":"any","minimum_signal_count":1}`},
		"all":      {[]activity.WaitOption{activity.Signals("a", "b"), activity.MatchAll()}, `{"condition_type":"signal_set","required_signal_names":["a","b"],"signal_match_mode":"all","minimum_signal_count":2}`},
		"two":      {[]activity.WaitOption{activity.AtLeast(2)}, `{"condition_type":"signal_set","required_signal_names":[],"signal_match_mode":"any","minimum_signal_count":2}`},
		"two of":   {[]activity.WaitOption{activity.Signals("a", "b"), activity.AtLeast(2)}, `{"condition_type":"signal_set","required_signal_names":["a","b","a","b"],"signal_match_mode":"any","minimum_signal_count":2}`},
		"distinct": {[]activity.WaitOption{activity.Signals("a"), activity.AtLeastDistinct(2)}, `{"condition_type":"signal_set","required_signal_names":["a","a"],"signal_match_mode":"any","minimum_signal_count":2,"distinct_sources":true}`},
		"decisive": {[]activity.WaitOption{activity.Signals("a"), activity.AtLeast(2), activity.Decisive("no")}, `{"condition_type":"signal_set","required_signal_names":["a","a"],"signal_match_mode":"any","minimum_signal_count":2,"decisive_signal_names":["no"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := activityspec.NewWait(tc.opts...)
			require.NoError(t, w.Validate())
			require.JSONEq(t, tc.want, string(EncodeCondition(w)))
		})
	}
	for _, b := range []activityspec.TimeoutBehavior{activityspec.FailOnTimeout, activityspec.CancelOnTimeout, activityspec.ExpireOnTimeout, activityspec.ResumeOnTimeout, activityspec.Escalate} {
		require.Equal(t, b, TimeoutBehavior(TimeoutBehaviors[b]))
	}
}
