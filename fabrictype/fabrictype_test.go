package fabrictype_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// The HTTP API sends the data as JSON, and a program decodes it with encoding/json.
func Example() {
	const text = `{"code": "eviction.on", "severity": "error", "subject": "10.0.0.7:6379",
		"found": "maxmemory-policy allkeys-lru", "remedy": "CONFIG SET maxmemory-policy noeviction"}`
	var finding fabrictype.Finding
	if err := json.Unmarshal([]byte(text), &finding); err != nil {
		panic(err)
	}
	if finding.Severity >= fabrictype.SeverityWarning {
		fmt.Println(finding)
	}
	// Output:
	// eviction.on: 10.0.0.7:6379: maxmemory-policy allkeys-lru (CONFIG SET maxmemory-policy noeviction)
}

func ExampleEvent_Ends() {
	events := []fabrictype.Event{
		{Kind: fabrictype.EventStarted, Node: "pay", Attempt: 1},
		{Kind: fabrictype.EventRunSucceeded},
	}
	for _, e := range events {
		fmt.Println(e.Kind, e.Ends())
	}
	// Output:
	// started false
	// flow_success true
}

func TestValue_Bytes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		value fabrictype.Value
		want  string
		json  string
	}{
		{fabrictype.Value{Codec: "json", Size: 30, JSON: json.RawMessage(`{"z":12345678901234567890,"a":1}`)},
			`{"z":12345678901234567890,"a":1}`, `{"codec":"json","size":30,"json":{"z":12345678901234567890,"a":1}}`},
		{fabrictype.Value{Codec: "json", Size: 9, Text: `{"z`, Truncated: true},
			`{"z`, `{"codec":"json","size":9,"text":"{\"z","truncated":true}`},
		{fabrictype.Value{Codec: "gob", Size: 2, Data: []byte{1, 2}}, "\x01\x02", `{"codec":"gob","size":2,"data":"AQI="}`},
	} {
		require.Equal(t, test.want, string(test.value.Bytes()))
		text, err := json.Marshal(&test.value)
		require.NoError(t, err)
		require.Equal(t, test.json, string(text))
		var again fabrictype.Value
		require.NoError(t, json.Unmarshal(text, &again))
		require.Equal(t, test.value, again)
	}
	require.Nil(t, (*fabrictype.Value)(nil).Bytes())
}

func TestSeverity(t *testing.T) {
	t.Parallel()
	for _, s := range []fabrictype.Severity{fabrictype.SeverityInfo, fabrictype.SeverityWarning, fabrictype.SeverityError} {
		text, err := s.MarshalText()
		require.NoError(t, err)
		var again fabrictype.Severity
		require.NoError(t, again.UnmarshalText(text))
		require.Equal(t, s, again)
	}
	require.Error(t, new(fabrictype.Severity).UnmarshalText([]byte("fatal")))
}

func TestWorker_Free(t *testing.T) {
	t.Parallel()
	w := fabrictype.Worker{State: "running", Slots: 16, Used: 3}
	require.Equal(t, 13, w.Free())
	w.DrainRequestedAt = time.Unix(1, 0)
	require.Zero(t, w.Free())
}
