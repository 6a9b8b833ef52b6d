package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity/activitytest"
)

// Another provider's model gets the key and the name. Its faults are classified by whether another try can help.
func TestModelOfAnotherProvider(t *testing.T) {
	t.Parallel()
	const counted = `data: {"choices":[],"usage":{"total_tokens":7}}` + "\n\n"
	const call = `data: {"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"a","function":{"name":"calculate"}}]}}]}` + "\n\n"
	for name, c := range map[string]struct {
		status    int
		body      string
		want      string // of the error; empty for none
		hopeless  bool
		wantCalls int
	}{
		"a reply":             {200, ": comment\n\n" + fmt.Sprintf(call, 0) + counted + "data: [DONE]\n\n", "", false, 1},
		"a wrong key":         {401, "no such key", "no such key", true, 0},
		"too many calls":      {429, "slow down", "slow down", false, 0},
		"a fault":             {500, "", "status 500", false, 0},
		"no usage":            {200, "data: [DONE]\n\n", "no usage", true, 0},
		"no end":              {200, counted, "broke off", false, 0},
		"no JSON":             {200, "data: {\n\n", "event", false, 0},
		"too many tool calls": {200, fmt.Sprintf(call, maxToolCalls), "at most 16", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := make(chan string, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen <- r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization")
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			}))
			defer server.Close()
			client := &modelClient{http: server.Client(), base: server.URL + "/v1", name: "m", key: "k"}
			reply, err := client.complete(t.Context(), nil, nil, func(string) error { return nil })
			require.Equal(t, "POST /v1/chat/completions Bearer k", <-seen)
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				require.Equal(t, c.hopeless, activitytest.IsNonRetryable(err))
				return
			}
			require.NoError(t, err)
			require.Len(t, reply.Message.ToolCalls, c.wantCalls)
			require.EqualValues(t, 7, reply.Usage.Total)
		})
	}
}
