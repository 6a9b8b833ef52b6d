package flowtest

import (
	"context"
	"encoding/json"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Decide makes a condition of a flow take a case, whatever its function returns, from the next decision on: "true" or
// "false" for a condition of flow.When, the name of a case or "default" for one of flow.Switch. With a name that is not
// a case the condition fails. A test whose flows do not have the condition fails at its end.
func (t *T) Decide(flowName, condition, caseName string) {
	t.Helper()
	t.FakeName(flowgraph.ConditionActivity(flowName, condition), func(context.Context, []byte) (any, error) {
		return caseName, nil
	})
}

// isDecision reports whether the result of a node is the decision for the value that the function of a condition has
// returned.
func isDecision(stored, returned []byte) bool {
	var decision struct {
		Case   string
		Number int
	}
	var name string
	if json.Unmarshal(stored, &decision) != nil || json.Unmarshal(returned, &name) != nil || decision.Number == 0 {
		return false
	}
	return decision.Case == name || decision.Case == flowgraph.DefaultCase
}
