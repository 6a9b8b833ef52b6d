package approvals

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// gate is a flow that waits for two people.
func gate(t *testing.T, opts ...flow.WaitOption) *flow.Definition[string, []activity.Signal[activity.Decision]] {
	t.Helper()
	f := flow.New[string, []activity.Signal[activity.Decision]]("gate")
	flow.Return(f, flow.WaitpointSignals[activity.Decision](f, "approval",
		append([]flow.WaitOption{activity.Signals("approve"), activity.AtLeastDistinct(2), activity.Decisive("reject")}, opts...)...))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// waiting starts a run and returns it with the path of its link.
func waiting(t *testing.T, ctx context.Context, b *enginetest.Bench, def *flow.Definition[string, []activity.Signal[activity.Decision]]) (*runtime.Run[[]activity.Signal[activity.Decision]], string) {
	t.Helper()
	run, err := runtime.Start(ctx, b.Client, def, "")
	require.NoError(t, err)
	waits, err := run.Waitpoints(ctx)
	require.NoError(t, err)
	require.Len(t, waits, 1)
	return run, Path(waits[0].Token)
}

// One approval does not decide, one rejection does, and the flow receives the votes.
func TestPeopleDecide(t *testing.T) {
	t.Parallel()
	def := gate(t)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		s := serve(t, b.Client, Config{Logger: b.Logger()})
		run, path := waiting(t, ctx, b, def)
		ann, bob := s.visit(t), s.visit(t)

		page := ann.send(path, "approve", "Ann", "looks good")
		require.Equal(t, http.StatusOK, page.status)
		require.Contains(t, page.body, "Answers of others may still be needed")
		page = ann.send(path, "approve", "ann", "")
		require.Equal(t, http.StatusOK, page.status)
		require.Contains(t, page.body, "You have answered already")
		page = bob.send(path, "reject", "Bob", "")
		require.Equal(t, http.StatusOK, page.status)
		require.Contains(t, page.body, "it is decided now")

		answers, err := run.Result(ctx)
		require.NoError(t, err)
		require.Len(t, answers, 2)
		require.Equal(t, activity.Decision{Choice: "approve", By: "Ann", Comment: "looks good"}, answers[0].Payload)
		require.Equal(t, [2]string{"reject", "bob"}, [2]string{answers[1].Name, answers[1].Source})

		// The first click counts, also when it is repeated after the end; a new answer is too late.
		require.Contains(t, bob.send(path, "reject", "Bob", "").body, "You have answered already")
		page = s.visit(t).send(path, "approve", "Cem", "")
		require.Equal(t, http.StatusConflict, page.status)
		require.Contains(t, page.body, "It is decided already")
		require.NotContains(t, b.Log()+s.log.String(), strings.TrimPrefix(path, "/"))
		require.Contains(t, b.Log(), "by=Ann")
	})
}

// Altered and foreign tokens look like malformed ones, and change nothing.
func TestOtherTokensGiveNoRight(t *testing.T) {
	t.Parallel()
	def := gate(t)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		s := serve(t, b.Client, Config{AddressBurst: 1000, LinkBurst: 1000})
		run, path := waiting(t, ctx, b, def)
		stranger := enginetest.New(t, b.Kind)
		_, foreign := waiting(t, ctx, stranger, def)
		v := s.visit(t)
		invalid := v.open("/malformed")
		require.Equal(t, http.StatusNotFound, invalid.status)
		paths := []string{foreign}
		for i := 1; i < len(path); i += 5 {
			other := byte('A')
			if path[i] == other {
				other = 'B'
			}
			paths = append(paths, path[:i]+string(other)+path[i+1:])
		}
		for _, altered := range paths {
			page := v.open(altered)
			if page.status == http.StatusOK { // it could be one
				page = v.send(altered, "approve", "Ann", "")
			}
			require.Equal(t, http.StatusNotFound, page.status, altered)
			require.Equal(t, invalid.body, page.body, altered)
		}
		waits, err := run.Waitpoints(ctx)
		require.NoError(t, err)
		require.Equal(t, 0, waits[0].Received)
	})
}

// An answer that comes after the timeout is refused with its own page.
func TestLateAnswer_IsRefused(t *testing.T) {
	t.Parallel()
	def := gate(t, activity.Timeout(time.Second, activity.FailOnTimeout))
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Keeper(t)
		s := serve(t, b.Client, Config{})
		run, path := waiting(t, ctx, b, def)
		_, err := run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		page := s.visit(t).send(path, "approve", "Ann", "")
		require.Equal(t, http.StatusGone, page.status, fmt.Sprint(err))
		require.Contains(t, page.body, "It is too late")
	})
}

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
