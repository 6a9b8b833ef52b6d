package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
)

func TestCalculate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		"3 * 240 * (100 - 15) / 100": 612, "1 - 2 - 3": -4, "-(2+.5)*2": -5, "8/2/2": 2, " 7 ": 7,
	} {
		got, err := calculate(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"": "no number", "1+": "no number", "(1": "not closed", "1 2": "not expected", "1/0": "division by zero",
		"1.2.3": "no number", strings.Repeat("(", 100): "nested", strings.Repeat("1", 2000): "at most 1024",
		strings.Repeat("9", 400): "no number",
	} {
		_, err := calculate(text)
		require.ErrorContains(t, err, want, text)
	}
}

// A mistake of the model is a result that it reads.
func TestWrongCallsAreResults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := newAgent(nil, newTools(dir))
	yes := &activity.Decision{Choice: approve, By: "ann"}
	for _, c := range []struct {
		name, arguments, want string
	}{
		{"fly", "{}", `there is no tool "fly"`},
		{calculateName, `{"expression":"1+"}`, "bad arguments"},
		{searchName, `{"query":`, "bad arguments"},
		{writeName, `{"file":"../x.md","text":""}`, "must be lower-case letters"},
		{searchName, `{"query":"zebras"}`, "nothing found"},
	} {
		got, err := a.Call(t.Context(), ToolInput{
			Call: ToolCall{ID: "7", Function: FunctionCall{Name: c.name, Arguments: c.arguments}}, Decision: yes,
		})
		require.NoError(t, err)
		require.Equal(t, "7", got.ToolCallID)
		require.Contains(t, got.Content, c.want)
	}
	_, err := a.Call(t.Context(), ToolInput{Call: ToolCall{Function: FunctionCall{Name: writeName, Arguments: `{}`}}})
	require.ErrorContains(t, err, "nobody was asked")
}
