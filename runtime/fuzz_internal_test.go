package runtime

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzQueries reads any parameters of a URL as a query of runs and as a query of waits. The parameters of the parsed
// query parse as the same query.
func FuzzQueries(f *testing.F) {
	for _, seed := range []string{
		"flow=good&state=failed&state=running&tag.a.b=c&text=x&key=k&queued=true&created_from=2026-11-20T08:00:00Z&sort=oldest_first&children=true",
		"audience=x&from=2026-11-20T08:00:00.5%2B01:00&before=2026-11-21T00:00:00Z", "tag.=", "tag.X=1", "cursor=x", "state=", "created_from=0001-01-01T00:00:00Z", "text=%00", "a=%zz", "flow=a;b",
		"created_from=9999-12-31T23:59:59.999999999Z&created_before=0000-01-01T00:00:00Z",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		var q RunQuery
		if err := q.ReadValues(values); err == nil {
			var again RunQuery
			err := again.ReadValues(q.Values())
			require.NoError(t, err)
			require.Equal(t, q.Values(), again.Values())
		} else {
			require.ErrorIs(t, err, ErrInvalid)
		}
		var w WaitQuery
		if err := w.ReadValues(values); err == nil {
			var again WaitQuery
			err := again.ReadValues(w.Values())
			require.NoError(t, err)
			require.Equal(t, w.Values(), again.Values())
		} else {
			require.ErrorIs(t, err, ErrInvalid)
		}
	})
}
