package activity_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
)

// A step without a function is an error that names the step, not a panic.
func TestStepWithoutFunction(t *testing.T) {
	_, err := activity.Step[int](context.Background(), "s", nil)
	require.EqualError(t, err, `step "s": the function is nil`)
}
