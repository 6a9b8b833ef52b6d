package server_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// The times of a timing can be listed before a schedule has it.
func TestPreviewOfFires(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	var fires fabrictype.Page[time.Time]
	require.Equal(t, http.StatusOK, p.do("GET", "/schedules/none/fires?cron=30+2+*+*+*&time_zone=Europe/Berlin&limit=3", nil, &fires).StatusCode)
	require.Len(t, fires.Items, 3)
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for _, at := range fires.Items {
		require.Equal(t, "02:30", at.In(berlin).Format("15:04"))
	}
	var problem api.Problem
	require.Equal(t, http.StatusUnprocessableEntity, p.do("GET", "/schedules/none/fires?cron=61+*+*+*+*", nil, &problem).StatusCode)
	require.Contains(t, problem.Error(), "61")
	require.Equal(t, http.StatusUnprocessableEntity, p.do("GET", "/schedules/none/fires?every=1ms", nil, nil).StatusCode)
	require.Equal(t, http.StatusNotFound, p.do("GET", "/schedules/none/fires", nil, nil).StatusCode)
}
