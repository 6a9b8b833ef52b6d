package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
)

// Pause is a pause with its actor, reason and beginning.
type Pause struct {
	By, Reason string
	Since      time.Time
}

// RunPaused explains a node whose run was paused.
func RunPaused(p Pause) fabrictype.Explanation {
	return p.of(waitreason.RunPaused, "", "the run", "resume the run with flowfabric run resume or RunRef.Resume")
}

// ActivityPaused explains a node whose activity was paused.
func ActivityPaused(name string, p Pause) fabrictype.Explanation {
	return p.of(waitreason.ActivityPaused, name, fmt.Sprintf("activity %q", name),
		fmt.Sprintf("resume activity %q with flowfabric activity resume or ActivityRef.Resume", name))
}

// LanePaused explains a node whose lane was paused.
func LanePaused(name string, p Pause) fabrictype.Explanation {
	return p.of(waitreason.LanePaused, name, "lane "+name,
		"resume lane "+name+" with flowfabric lane resume or LaneRef.Resume")
}

// anonymous is the actor of calls that name none.
const anonymous = "client"

func (p Pause) of(r string, subject, what, remedy string) fabrictype.Explanation {
	sentence := what + " is paused"
	if p.By != "" && p.By != anonymous {
		sentence += " by " + p.By
	}
	if p.Reason != "" {
		sentence += ": " + p.Reason
	}
	return fabrictype.Explanation{
		Reason: r, Subject: subject, By: p.By, Detail: p.Reason, Since: p.Since, Remedy: remedy, Sentence: sentence,
	}
}

// NamesBudget reports whether the sentence of a node that waits for a budget is about the budget with a name.
func NamesBudget(e fabrictype.Explanation, name string) bool {
	return strings.HasPrefix(e.Sentence, fmt.Sprintf("budget %q", name))
}

// Budget explains a node that an exhausted budget keeps from starting. words describe the state of the budget.
func Budget(e fabrictype.Explanation, name, key, words string, resetsAt time.Time) fabrictype.Explanation {
	return fabrictype.Explanation{
		Reason: waitreason.Budget, Subject: name, Key: key, Sentence: words, Since: e.Since, Until: resetsAt,
		Remedy: raiseBudget,
	}
}

// RunOver explains a node of a run that has ended in a state.
func RunOver(e fabrictype.Explanation, state string) fabrictype.Explanation {
	return fabrictype.Explanation{
		Reason: waitreason.RunOver, Since: e.Since, Detail: state,
		Sentence: "the run has " + ended(state) + ": the node is about to end",
	}
}

// ended puts a state of a run into a sentence.
func ended(state string) string {
	if state == "cancelled" {
		return "been cancelled"
	}
	return state
}
