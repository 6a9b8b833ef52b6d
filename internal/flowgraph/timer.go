package flowgraph

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// ErrTimer marks a timer whose time is invalid: not positive, too long, or taken from something that has none.
var ErrTimer = errors.New("bad timer")

// TimerSpec makes a waitpoint a timer: it takes no signals, and ends when its time has come.
type TimerSpec struct {
	// Until is true for a timer that ends at a time in the node's input, a text in the form of RFC 3339. One without
	// ends when the timeout of its wait is over.
	Until bool
	// Path are the names of the fields in the input that lead to the time; empty if the input is the time.
	Path []string
}

// wait returns the wait that the timer must have: its timeout is 0 for a timer that ends at a time.
func (t *TimerSpec) wait(timeout activityspec.Wait) activityspec.Wait {
	w := activityspec.Wait{Count: 1}
	if !t.Until {
		w.Timeout, w.OnTimeout = timeout.Timeout, activityspec.ResumeOnTimeout
	}
	return w
}

// IsTimer reports whether the node is a timer.
func (n *Node) IsTimer() bool { return n.Wait != nil && n.Wait.Timer != nil }

// HasInput reports whether the node has an input. Waitpoints have none, except timers that take a time from it.
func (n *Node) HasInput() bool { return n.Wait == nil || n.Wait.Timer != nil && n.Wait.Timer.Until }

// timer checks a node that is a timer.
func (v *Validation) timer(n *Node, skipInput bool) {
	w, t := n.Wait, n.Wait.Timer
	switch {
	case t.Until && w.Timeout != 0:
		v.Faults.Add(n.Name, "wait", ErrTimer, "it has both a duration and a time")
	case !t.Until && w.Timeout <= 0:
		v.Faults.Add(n.Name, "wait", ErrTimer, "duration %s is not positive", w.Timeout)
	case w.Timeout > activityspec.MaxWait:
		v.Faults.Add(n.Name, "wait", ErrTimer, "duration %s, the limit is %s", w.Timeout, activityspec.MaxWait)
	case w.Timeout%time.Millisecond != 0:
		v.Faults.Add(n.Name, "wait", ErrTimer, "duration %s is not in whole milliseconds", w.Timeout)
	case !t.Until && len(t.Path) > 0:
		v.Faults.Add(n.Name, "wait", ErrTimer, "a duration is in no field")
	case w.Collect || w.Type != "" || !reflect.DeepEqual(w.Wait, t.wait(w.Wait)):
		v.Faults.Add(n.Name, "wait", ErrTimer, "a timer takes no signals and has no texts")
	}
	for _, name := range t.Path {
		if name == "" {
			v.Faults.Add(n.Name, "wait", ErrTimer, "%q: a field has no name", strings.Join(t.Path, "."))
			break
		}
	}
	if !t.Until || skipInput {
		return
	}
	switch n.Input.Kind {
	case ExprInput, ExprNode, ExprFirst:
	case ExprConst:
		if len(t.Path) > 0 {
			v.Faults.Add(n.Name, "input", ErrTimer, "a constant is the time itself")
		}
	default:
		v.Faults.Add(n.Name, "input", ErrTimer,
			"a timer takes its time from the flow's input, the result of a node, or a constant")
	}
}

// timerText describes in words when a timer ends.
func (n *Node) timerText() string {
	t := n.Wait.Timer
	if !t.Until {
		return fmt.Sprintf("sleeps for %s", n.Wait.Timeout)
	}
	from := "input"
	switch n.Input.Kind {
	case ExprConst:
		return "sleeps until " + strings.Trim(string(n.Input.Value), `"`)
	case ExprNode, ExprFirst:
		from = strings.Join(n.Input.InputNodes(), " or ")
	}
	return "sleeps until " + strings.Join(append([]string{from}, t.Path...), ".")
}

func (t *TimerSpec) clone() *TimerSpec {
	if t == nil {
		return nil
	}
	return &TimerSpec{Until: t.Until, Path: append([]string(nil), t.Path...)}
}

// storedTimer is the stored form of a TimerSpec.
type storedTimer struct {
	Until bool     `json:"until"`
	Path  []string `json:"path"`
}

func (s *storedTimer) spec() *TimerSpec {
	if s == nil {
		return nil
	}
	return &TimerSpec{Until: s.Until, Path: s.Path}
}

func (w *writer) timer(t *TimerSpec) {
	if t == nil {
		return
	}
	w.raw(`,"timer":{`)
	w.key("until")
	w.raw(map[bool]string{true: "true", false: "false"}[t.Until])
	w.list("path", t.Path)
	w.raw("}")
}
