package approvals

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The audit log has an entry for each answer by a link: the visitor, the answer, the wait, the way of identification
// and the address; an answer that changed nothing has its reason, too. Answers to a wait that is over, and invalid
// links, leave no entry.
func TestAnswersAreAudited(t *testing.T) {
	t.Parallel()
	def := gate(t)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		address := func(*http.Request) string { return "203.0.113.7" }
		s := serve(t, b.Client, Config{RemoteAddress: address})
		run, path := waiting(t, ctx, b, def)
		v := s.visit(t)
		require.Equal(t, http.StatusOK, v.send(path, "approve", "Ann", "fine").status)
		require.Equal(t, http.StatusOK, v.send(path, "approve", "Ann", "").status)
		staff := serve(t, b.Client, Config{
			RemoteAddress: address,
			Identity:      func(*http.Request) (string, bool) { return "bob@example.com", true },
		})
		require.Equal(t, http.StatusOK, staff.visit(t).send(path, "reject", "", "").status)
		require.Equal(t, http.StatusConflict, s.visit(t).send(path, "approve", "Cem", "").status)
		require.Equal(t, http.StatusNotFound, v.send("/"+wellFormed('A'), "approve", "Ann", "").status)

		type answer struct{ actor, name, detail, failure string }
		var got []answer
		for e, err := range b.Client.Audit(ctx, runtime.AuditQuery{Action: auditlink.AnswerWait}) {
			require.NoError(t, err)
			got = append(got, answer{e.Actor, e.Name, e.Detail, e.Failure})
			require.NotContains(t, e.Detail+e.Name+e.Failure, path[1:], "the token")
		}
		name := "gate/" + run.ID() + "/approval"
		typed := "approve, through a link; name as the visitor typed; from 203.0.113.7"
		require.Equal(t, []answer{
			{"bob@example.com", name, "reject, through a link; name by login; from 203.0.113.7", ""},
			{"Ann", name, typed, "nothing was recorded: the answer is duplicate"}, {"Ann", name, typed, ""}, {"Ann", name, typed, ""},
		}, got)
	})
}
