package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime/why"
)

// RunPaused explains a node whose run was paused.
func RunPaused(reason string, since time.Time) why.Explanation {
	return paused(why.RunPaused, "", "the run is paused", reason, since, "resume the run with RunRef.Resume")
}

// ActivityPaused explains a node whose activity was paused.
func ActivityPaused(name, reason string, since time.Time) why.Explanation {
	return paused(why.ActivityPaused, name, fmt.Sprintf("activity %q is paused", name), reason, since,
		fmt.Sprintf("resume activity %q with Client.ResumeActivity", name))
}

// LanePaused explains a node whose lane was paused.
func LanePaused(name, reason string, since time.Time) why.Explanation {
	return paused(why.LanePaused, name, "lane "+name+" is paused", reason, since,
		"resume lane "+name+" with Client.ResumeLane")
}

func paused(r why.Reason, subject, text, reason string, since time.Time, remedy string) why.Explanation {
	return why.Explanation{
		Reason: r, Subject: subject, Detail: reason, Since: since, Remedy: remedy,
		Sentence: strings.TrimSuffix(text+": "+reason, ": "),
	}
}

// NamesBudget reports whether the sentence of a node that waits for a budget is about the budget with a name.
func NamesBudget(e why.Explanation, name string) bool {
	return strings.HasPrefix(e.Sentence, fmt.Sprintf("budget %q", name))
}

// Budget explains a node that an exhausted budget keeps from starting. words say how the budget stands.
func Budget(e why.Explanation, name, key, words string, resetsAt time.Time) why.Explanation {
	return why.Explanation{
		Reason: why.Budget, Subject: name, Key: key, Sentence: words, Since: e.Since, Until: resetsAt,
		Remedy: raiseBudget,
	}
}

// RunOver explains a node of a run that has ended in a state.
func RunOver(e why.Explanation, state string) why.Explanation {
	return why.Explanation{
		Reason: why.RunOver, Since: e.Since, Detail: state,
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
