package flowgraph

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParsePlan reads any bytes as the plan that an activity has made. A plan that is written again is read as the same.
func FuzzParsePlan(f *testing.F) {
	graph := `{"version":1,"name":"p","nodes":[{"name":"a","activity":"x","input":{"input":true}}],"result":{"node":"a"}}`
	for _, seed := range []string{`{"graph":` + graph + `,"input":{}}`, `{"value":null}`, `{"value":1}`, `{}`, `{"graph":{},"value":1}`, `{"graph":null}`, `[`, `null`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		plan, err := ParsePlan(data)
		if err != nil {
			return
		}
		first, err := plan.Encode()
		require.NoError(t, err)
		again, err := ParsePlan(first)
		require.NoError(t, err)
		second, err := again.Encode()
		require.NoError(t, err)
		require.True(t, bytes.Equal(first, second), "%s and %s", first, second)
	})
}

// FuzzDecodeInput reads any bytes as the stored input of a node. An input that is written again is read as the same.
func FuzzDecodeInput(f *testing.F) {
	for _, seed := range []string{
		`{"input":true}`, `{"node":"a"}`, `{"const":{"a":[1e400]}}`, `{"list":[{"input":true},{"const":null}]}`, `{"struct":[{"name":"a","value":{"node":"b"}}]}`,
		`{"first":["a","b"]}`, `{"some":["a"]}`, `{"failure":[]}`, `{"data":"AA=="}`, `{}`, `{"input":true,"node":"a"}`,
	} {
		f.Add([]byte(seed), "json")
		f.Add([]byte(seed), "raw")
	}
	f.Fuzz(func(t *testing.T, data []byte, codec string) {
		e, err := DecodeInput(data, codec)
		if err != nil {
			return
		}
		stored := (&Node{Input: e, Codec: codec}).EncodeInput()
		again, err := DecodeInput(stored, codec)
		require.NoError(t, err, "%s", stored)
		require.Equal(t, string(stored), string((&Node{Input: again, Codec: codec}).EncodeInput()))
	})
}
