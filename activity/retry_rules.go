package activity

import (
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// RetryOnly restricts retries to failures of the categories named, which may be categories of the library, such as
// CategoryTimeout, or your own by Category. Any other failure is final. It replaces a RetryOnly or RetryExcept given
// before or by the activity. Names are one line of at most 128 bytes, up to 32 of them.
func RetryOnly(categories ...string) ExecutionOption {
	return retryCategories(func(o *activityspec.Options) { o.RetryRules.Only = categories }, categories)
}

// RetryExcept makes failures of the categories named final, without another attempt; all others are retried by Retry.
// It replaces a RetryOnly or RetryExcept given before or by the activity.
func RetryExcept(categories ...string) ExecutionOption {
	return retryCategories(func(o *activityspec.Options) { o.RetryRules.Except = categories }, categories)
}

func retryCategories(change func(*activityspec.Options), categories []string) ExecutionOption {
	return func(t activityspec.Target) error {
		if len(categories) == 0 {
			return errors.New("retry: no category is named")
		}
		t.RetryRules.Only, t.RetryRules.Except = nil, nil
		change(t.Options)
		return nil
	}
}

// RetryWithin limits the time of all attempts together: no attempt begins later than limit after the beginning of the
// first attempt that failed. A failure after which the next attempt would begin later is final, even if Retry grants
// more attempts. The delays before attempts and the time of waits count. The last attempt may take as long as
// StartToClose allows. The default is 0, no limit; at most ten years. A rerun begins anew.
func RetryWithin(limit time.Duration) ExecutionOption {
	return set(func(o *activityspec.Options) { o.RetryRules.Within = activityspec.Milliseconds(limit) })
}
