package completion

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Undecodable marks an error as not retryable, with the category of decoding errors.
func Undecodable(err error) error {
	return activity.NonRetryable(activity.Category(err, activityspec.CategoryDecode))
}

// Final returns a failure of a category that is not retried.
func Final(category, format string, args ...any) error {
	return activity.NonRetryable(activity.Category(fmt.Errorf(format, args...), category))
}
