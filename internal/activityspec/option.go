package activityspec

import (
	"errors"
	"math"
	"time"
)

// Mark is a parameter of methods that mark option types: a type with such a method is an option of this module.
type Mark struct{}

// Target is changed by options of package activity: the options of an activity under declaration, or the options of a
// node.
type Target struct {
	*Options
	// Node is true for a node, which may replace options of its activity.
	Node bool
}

// AddLimit adds a limit. The limit of a node replaces the activity's limit with the same name and key.
func (t Target) AddLimit(l Limit) {
	if t.Node {
		t.SetLimit(l)
		return
	}
	t.Limits = append(t.Limits, l)
}

// LimitConfig is activity.LimitConfig.
type LimitConfig struct {
	AtMost  int
	Per     time.Duration
	AtOnce  int
	KeyFrom []string
}

// NewLimit returns the limit of a config, which may be invalid: see Validate.
func NewLimit(name string, c LimitConfig) Limit {
	return Limit{Name: name, AtMost: c.AtMost, Per: Milliseconds(c.Per), AtOnce: c.AtOnce, KeyFrom: c.KeyFrom}
}

// NewWait returns the wait defined by the options, which may be invalid: see Validate.
func NewWait[O ~func(*Wait)](opts ...O) Wait {
	w := Wait{Count: 1}
	for _, opt := range opts {
		if opt == nil {
			w.Count = nilOption
			continue
		}
		opt(&w)
	}
	return w
}

// nilOption is the Count of a Wait with an option that is nil, which Validate refuses.
const nilOption = math.MinInt32

// ErrNilOption is the fault of an option that is nil.
var ErrNilOption = errors.New("option is nil")

// IsMark reports whether an error of a function requests another end of its attempt than a failure: a cancellation or
// a postponement.
func IsMark(err error) bool {
	var cancellation *Cancellation
	var postponement *Postponement
	return errors.As(err, &cancellation) || errors.As(err, &postponement)
}
