package runtime_test

import (
	"context"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// resultOf reads the stored result of an execution, nil when it has none.
func resultOf(ctx context.Context, b *enginetest.Bench, id enginecore.ExecutionID) ([]byte, error) {
	c, err := admin.New(b.Engine)
	if err != nil {
		return nil, err
	}
	result, _, err := c.ExecutionResult(ctx, id)
	return result, err
}
