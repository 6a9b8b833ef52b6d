package task

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// The next task asks again after an error of the engine. Answers are kept for knownFor.
func TestMisfits_KeepAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var m misfits
		away, looks := errors.New("away"), 0
		look := func() (fabrictype.Worker, bool, error) {
			if looks++; looks == 1 {
				return fabrictype.Worker{}, false, away
			}
			return fabrictype.Worker{Instance: "w"}, true, nil
		}
		_, found, err := m.other("mail", "default", look)
		require.ErrorIs(t, err, away)
		require.False(t, found)
		for range 2 {
			w, found, err := m.other("mail", "default", look)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, "w", w.Instance)
		}
		require.Equal(t, 2, looks)
		time.Sleep(knownFor) //nolint:forbidigo // by the virtual clock
		_, _, err = m.other("mail", "default", look)
		require.NoError(t, err)
		require.Equal(t, 3, looks)
	})
}
