package activity_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
)

// prices has the dependency of a function.
type prices map[string]int

func (p prices) price(_ context.Context, item string) (int, error) { return p[item], nil }

// An implementation has all of the declaration and a function; the declaration stays without.
func TestImplement(t *testing.T) {
	t.Parallel()
	declared := activity.Declare[string, int]("price", activity.StartToClose(time.Minute), activity.Alias("cost"))
	a := activity.Implement(declared, prices{"cup": 3}.price)
	require.NoError(t, a.Err())
	require.True(t, a.HasFunction())
	require.False(t, declared.HasFunction())
	require.Equal(t, "price", a.Name())
	require.Equal(t, []string{"cost"}, a.Aliases())
	out, err := a.Invoke(t.Context(), []byte(`"cup"`))
	require.NoError(t, err)
	require.Equal(t, "3", string(out))

	for text, faulty := range map[string]*activity.Activity[string, int]{
		"function is nil":           activity.Implement(declared, nil),
		"has a function already":    activity.Implement(a, prices{}.price),
		"activity is nil":           activity.Implement(nil, prices{}.price),
		`name "a b"`:                activity.Implement(activity.Declare[string, int]("a b"), prices{}.price),
		"activity was not made by ": activity.Implement(&activity.Activity[string, int]{}, nil),
	} {
		require.ErrorIs(t, faulty.Err(), activity.ErrInvalid, text)
		if text != "activity was not made by " && text != `name "a b"` {
			require.ErrorContains(t, faulty.Err(), text)
		}
	}
}
