package serverstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/serverstore"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

func TestMain(m *testing.M) {
	enginetest.Main(m)
}

// Sessions are read in pages, also sessions that end in the same millisecond. No page is larger than requested, and no
// reply of the engine exceeds its bound.
func TestSessionsInPages(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		const principals, each, bound = 7, 60, 200
		ctx := enginetest.Context(t)
		store := serverstore.New(b.Engine.Internal(), "default")
		var added []string
		now := time.Now()
		for i := range principals * each {
			s := serverstore.Session{
				Login: "oidc", Principal: fmt.Sprint("p", i%principals), CreatedAt: now, ExpiresAt: now.Add(time.Hour),
			}
			s.ID = s.NewID()
			require.NoError(t, store.AddSession(ctx, s))
			added = append(added, s.ID)
		}
		slices.Sort(added)
		read := func(principal string, limit int) (ids []string) {
			for cursor := ""; ; {
				page, next, err := store.Sessions(ctx, principal, cursor, limit)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page), limit)
				for _, s := range page {
					if principal != "" {
						require.Equal(t, principal, s.Principal)
					}
					ids = append(ids, s.ID)
				}
				if cursor = next; cursor == "" {
					return ids
				}
				require.Len(t, page, limit)
			}
		}
		for _, limit := range []int{1, 64, bound, 1000} {
			ids := read("", limit)
			slices.Sort(ids)
			require.Equal(t, added, ids, limit)
		}
		for _, limit := range []int{7, each, 1000} {
			require.Len(t, read("p3", limit), each)
		}
		require.Empty(t, read("nobody", 10))

		reply, err := engine.ConnOf(b.Engine.Internal()).ListAPISessions(ctx, enginerpc.ListAPISessionsCall{
			Partition: keyspace.Partition{Family: keyspace.FlowFamily}, Namespace: "default", Limit: 1000,
		})
		require.NoError(t, err)
		require.Len(t, reply.Sessions, bound)
		require.NotEmpty(t, reply.NextCursor)

		first, next, err := store.Sessions(ctx, "", "", 1)
		require.NoError(t, err)
		require.NoError(t, store.RemoveSession(ctx, first[0].ID))
		rest, _, err := store.Sessions(ctx, "", next, 1000)
		require.NoError(t, err)
		require.Len(t, rest, len(added)-1, "after a session that has ended meanwhile")
		_, _, err = store.Sessions(ctx, "", "elsewhere", 1)
		require.ErrorIs(t, err, errorcode.InvalidInput)
	})
}
