package admin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The actions of an operator are in the audit log with the name of the actor, also those that failed.
func TestActionsAreAudited(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newDesk(t, b)
		id := d.create(admin.ExecutionSpec{})
		ann := d.As("ann")
		_, err := ann.ChangePriority(d.ctx, id, 7)
		require.NoError(t, err)
		require.NoError(t, ann.TagExecution(d.ctx, id, map[string]string{"team.name": "x"}))
		_, err = ann.CancelExecution(d.ctx, id, "enough")
		require.NoError(t, err)
		_, err = d.ReplayExecution(d.ctx, id)
		require.NoError(t, err)
		_, err = d.ReplayExecution(d.ctx, id)
		require.Error(t, err)
		var got []fabrictype.AuditEntry
		for e, err := range b.Client.Audit(d.ctx, runtime.AuditQuery{Name: string(id)}) {
			require.NoError(t, err)
			got = append(got, e)
		}
		require.Len(t, got, 6)
		require.NotEmpty(t, got[0].Failure)
		entry := func(e fabrictype.AuditEntry) []string { return []string{e.Actor, e.Action, e.Detail} }
		require.Equal(t, []string{"admin", "replay_execution", ""}, entry(got[0]))
		require.Equal(t, []string{"admin", "replay_execution", ""}, entry(got[2]))
		require.Equal(t, []string{"ann", "cancel_execution", "enough"}, entry(got[3]))
		require.Equal(t, []string{"ann", "set_tags", "team.name x"}, entry(got[4]))
		require.Equal(t, []string{"ann", "set_priority", "7"}, entry(got[5]))
		_, err = d.As("a\nb").ChangePriority(d.ctx, id, 1)
		require.Error(t, err)
	})
}
