package execution

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// The retry policy of an execution may be of any program of the contract.
func TestRetryAcceptsAnyPolicy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy  string
		retries int64
		after   time.Duration
		want    string // of the delay; "" for no retry
	}{
		{policy: ``},
		{policy: `{}`},
		{policy: `{"retry_policy":null}`},
		{policy: `{"retry_policy":"often"}`},
		{policy: `{"retry_policy":{"max_retries":2}}`, want: `1000`},
		{policy: `{"retry_policy":{"max_retries":2,"backoff":null}}`, want: `1000`},
		{policy: `{"retry_policy":{"max_retries":2,"backoff":"fast"}}`, want: `1000`},
		{policy: `{"retry_policy":{"max_retries":2,"backoff":{"type":"sometimes","delay_ms":5}}}`, want: `1000`},
		{policy: `{"retry_policy":{"max_retries":2,"backoff":{"type":"fixed"}}}`, want: `1000`},
		{policy: `{"retry_policy":{"max_retries":2,"backoff":{"type":"fixed","delay_ms":250}}}`, want: `250`},
		{policy: `{"retry_policy":{"max_retries":2,"backoff":{"type":"fixed","delay_ms":"x"}}}`, want: `1000`},
		{policy: `{"retry_policy":{"max_retries":2,"backoff":{"type":"exponential"}}}`, retries: 3, want: `8000`},
		{policy: `{"retry_policy":{"max_retries":2,"backoff":{"type":"exponential"}}}`, retries: 99, want: `60000`},
		{policy: `{"retry_policy":{"max_retries":2,"backoff":{"type":"exponential","initial_delay_ms":10,"multiplier":3,` +
			`"max_delay_ms":50}},"codec":7}`, retries: 1, want: `30`},
		{policy: `{"retry_policy":{"max_retries":2,"only":["quota"],"except":"x"}}`, want: `1000`},
		{policy: `{"retry_policy":{"max_retries":2,"only":["timeout"]}}`},
		{policy: `{"retry_policy":{"max_retries":2,"except":["quota"]}}`},
		{policy: `{"retry_policy":{"max_retries":2,"within_ms":61000}}`, want: `1000`},
		{policy: `{"retry_policy":{"max_retries":2,"within_ms":60999}}`},
		{policy: `{"retry_policy":{"max_retries":2}}`, after: 7 * time.Millisecond, want: `7`},
	} {
		got := retryOf(&heldLease{policy: []byte(c.policy), retries: c.retries},
			enginerpc.FailCall{Retryable: true, RetryAfter: c.after, Category: "quota"},
			func() time.Duration { return time.Minute })
		if c.want == "" {
			require.Empty(t, got, c.policy)
			continue
		}
		require.JSONEq(t, `{"max_retries":2,"backoff":{"type":"fixed","delay_ms":`+c.want+`}}`, string(got), c.policy)
	}
}
