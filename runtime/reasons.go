package runtime

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
)

// Bounds of texts for the record, in bytes.
const (
	// MaxReason bounds the reason of a cancel, a pause or the end of a wait. The text of a failure is cut to it, with a mark
	// that says how long it was.
	MaxReason = 2048
	// MaxActor bounds the name of who acts: that of By, Creator and ScheduledBy.
	MaxActor = 256
)

// ErrText marks a text for the record that is longer than its bound, not valid UTF-8, or has control characters.
var ErrText = errors.New("bad text")

func checkReason(reason string) error { return checkText("reason", reason, MaxReason) }

func checkText(thing, text string, limit int) error {
	if err := recordtext.Check(thing, text, limit); err != nil {
		return fmt.Errorf("%w: %w", ErrText, err)
	}
	return nil
}

// plainFailures say in plain words, with a category, what the contract's functions know by words of their own.
var plainFailures = map[string]struct{ reason, category string }{
	"max_reclaims_exceeded": {"its worker was lost too often", CategoryWorkerLost},
	"attempt_timeout":       {"the attempt ran longer than its start-to-close timeout", activity.CategoryTimeout},
	"execution_deadline":    {"the run exceeded its deadline", activity.CategoryTimeout},
	"flow_deadline":         {"the run exceeded its deadline", activity.CategoryTimeout},
}

// plainFailure is how the failure of a node is told: a reason and a category as the engine has recorded them, in the words of
// the documentation.
func plainFailure(reason, category string) (string, string) {
	plain, found := plainFailures[reason]
	if !found {
		return reason, category
	}
	if category == "expired" { // an outcome, of which contract mode makes up for a category
		category = ""
	}
	return plain.reason, cmp.Or(category, plain.category)
}
