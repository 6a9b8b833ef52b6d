package submit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Flags of the edge of a case: its kind, and above that the number of the case.
const (
	edgeOfCase = 3
	caseStep   = 8
)

func caseFlags(condition *flowgraph.Node, edge flowgraph.Edge) byte {
	return edgeOfCase + caseStep*byte(condition.Condition.Number(edge.Case))
}

// StoredCases is the part of a policy that makes a node a condition: the names of its cases.
type StoredCases struct {
	Names   []string `json:"names"`
	Default bool     `json:"default,omitempty"`
}

func storedCases(n *flowgraph.Node) *StoredCases {
	if n.Condition == nil {
		return nil
	}
	return &StoredCases{Names: n.Condition.Cases, Default: n.Condition.Default}
}

// Decision is the result of a condition. The library reads it to find out which edges are satisfied.
type Decision struct {
	Case string `json:"case"`
	// Number is the index of the case in the condition of the run's graph, from 1. The member must be the last one.
	Number int `json:"number"`
}

// Decide returns the encoded Decision for the result of the condition's activity, the JSON text of a case. node is the
// name of the condition. A text that is not a case is an error that is not retried.
func (c *StoredCases) Decide(node string, result []byte) ([]byte, error) {
	var name string
	if err := json.Unmarshal(result, &name); err != nil {
		return nil, activity.NonRetryable(fmt.Errorf("condition %s: %w", node, err))
	}
	decision := Decision{Case: name, Number: slices.Index(c.Names, name) + 1}
	if decision.Number == 0 && c.Default {
		decision = Decision{Case: flowgraph.DefaultCase, Number: len(c.Names) + 1}
	}
	if decision.Number == 0 {
		return nil, activity.NonRetryable(fmt.Errorf("condition %s chose %q, which is not one of its cases: %s", node,
			name, strings.Join(c.Names, ", ")))
	}
	return json.Marshal(decision)
}
