package submit

import (
	"encoding/json"
	"fmt"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// storedCondition is the resume condition of a suspension: a list of matchers, each of which takes one signal of its
// name, and how many of them are needed.
type storedCondition struct {
	Type     string   `json:"condition_type"`
	Names    []string `json:"required_signal_names"`
	Mode     string   `json:"signal_match_mode"`
	Minimum  int      `json:"minimum_signal_count"`
	Distinct bool     `json:"distinct_sources,omitempty"`
	Decisive []string `json:"decisive_signal_names,omitempty"`
	// About has the texts for the people who answer, for functions of the engine that have no argument for them.
	About string `json:"about,omitempty"`
}

// EncodeConditionWithTexts is EncodeCondition with the texts of the wait. It returns the errors of EncodeAbout.
func EncodeConditionWithTexts(w activityspec.Wait) ([]byte, error) {
	about, err := EncodeAbout(w.WaitText)
	if err != nil {
		return nil, err
	}
	return encodeCondition(w, about), nil
}

// EncodeCondition turns a wait into matchers. For n signals of some names, each name is listed n times. Decisive names
// are listed separately.
func EncodeCondition(w activityspec.Wait) []byte { return encodeCondition(w, nil) }

func encodeCondition(w activityspec.Wait, about []byte) []byte {
	c := storedCondition{
		Type: "signal_set", Names: []string{}, Mode: "any", Minimum: max(1, w.Count), Distinct: w.Distinct,
		Decisive: w.Decisive, About: string(about),
	}
	repeat := c.Minimum
	if w.All {
		c.Mode, c.Minimum, repeat = "all", len(w.Signals), 1
	}
	for range repeat {
		c.Names = append(c.Names, w.Signals...)
	}
	data, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("texts and numbers have a JSON form: %v", err))
	}
	return data
}

// TimeoutBehaviors maps the behavior after a timeout to the term of the contract. [TimeoutBehavior] is the reverse.
var TimeoutBehaviors = map[activityspec.TimeoutBehavior]string{
	"":                           "fail", // without a timeout it does not matter
	activityspec.FailOnTimeout:   "fail",
	activityspec.CancelOnTimeout: "cancel",
	activityspec.ExpireOnTimeout: "expire",
	activityspec.ResumeOnTimeout: "auto_resume_with_timeout_signal",
	activityspec.Escalate:        "escalate",
}

// TimeoutBehavior returns the behavior that a term of the contract denotes; an unknown term is returned as it is.
func TimeoutBehavior(word string) activityspec.TimeoutBehavior {
	for behavior, w := range TimeoutBehaviors {
		if w == word && behavior != "" {
			return behavior
		}
	}
	return activityspec.TimeoutBehavior(word)
}

// storedWait is the form in which a submission carries a waitpoint node.
type storedWait struct {
	Condition json.RawMessage `json:"condition"`
	TimeoutMS int64           `json:"timeout,omitempty"`
	OnTimeout string          `json:"timeout_behavior"`
	Collect   bool            `json:"collect,omitempty"`
	Approval  bool            `json:"approval,omitempty"`
	About     string          `json:"about,omitempty"`
	Timer     *storedTimer    `json:"timer,omitempty"`
}

// encodeWait returns the wait of a waitpoint node. The ids of its waitpoints derive from the run's and the node's name.
func encodeWait(n *flowgraph.Node) ([]byte, error) {
	w := n.Wait
	if w.Timer != nil {
		return encodeTimer(n)
	}
	about, err := EncodeAbout(w.WaitText)
	if err != nil {
		return nil, err
	}
	return json.Marshal(storedWait{
		Condition: EncodeCondition(w.Wait),
		TimeoutMS: w.Timeout.Milliseconds(), OnTimeout: TimeoutBehaviors[w.OnTimeout], Collect: w.Collect,
		Approval: w.Approval, About: string(about),
	})
}

// WaitpointKey returns the key that the contract requires of a waitpoint, derived from its id.
func WaitpointKey(id enginecore.WaitpointID) string { return "wpk:" + string(id) }

// ConditionOf encodes the resume condition of a wait inside an activity.
func ConditionOf(w activitycontext.Wait) []byte {
	if w.Sleep {
		return TimerCondition
	}
	return EncodeCondition(activityspec.Wait{
		Signals: w.Signals, All: w.All, Count: w.Count, Distinct: w.Distinct, Decisive: w.Decisive,
	})
}
