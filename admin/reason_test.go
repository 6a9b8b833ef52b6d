package admin_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// A reason that is too long or cannot be shown on a line is refused, and nothing has been done.
func TestBadReasons(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, _ *enginetest.Bench) {
		id := d.create(admin.ExecutionSpec{Lane: lane})
		flow, _, err := d.CreateFlow(d.ctx, admin.FlowSpec{Kind: "f"})
		require.NoError(t, err)
		for _, reason := range []string{"two\nlines", "\xff", strings.Repeat("x", 2048+1)} {
			_, cancelErr := d.CancelExecution(d.ctx, id, reason)
			_, revokeErr := d.RevokeLease(d.ctx, id, "", reason)
			_, flowErr := d.CancelFlow(d.ctx, flow, admin.FlowCancel{Reason: reason})
			_, waitErr := d.CancelFlowAndWait(d.ctx, flow, admin.FlowCancel{Reason: reason})
			closeErr := d.CloseWaitpoint(d.ctx, id, "w", reason)
			for _, err := range []error{cancelErr, revokeErr, flowErr, waitErr, closeErr} {
				require.ErrorIs(t, err, admin.ErrInvalid)
				require.ErrorContains(t, err, `reason "`)
			}
		}
		require.NotEqual(t, fabrictype.NodeCancelled, d.state(id))
		info, err := d.Flow(d.ctx, flow)
		require.NoError(t, err)
		require.Empty(t, info.CancelReason)
	})
}
