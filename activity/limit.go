package activity

import (
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// LimitConfig has the bounds of a limit: AtMost with Per, or AtOnce, or all three.
type LimitConfig struct {
	// AtMost is how many functions may begin within any time of the length Per, up to 1,000,000: a sliding window, by
	// the clock of the engine. Each attempt counts, and each time that a function begins again after a wait or in place
	// of a lost worker. A task of Worker.Next counts when Next returns it, an item of NewBatch when it joins the batch,
	// a map or sub-flow when its child runs are started. Per is 1 ms to 30 days. By default this bound is absent.
	AtMost int
	Per    time.Duration
	// AtOnce is how many executions may run at a time, up to 1,000,000. By default this bound is absent.
	AtOnce int
	// KeyFrom makes it one limit for each value that the flow's input has at a path of field names, such as "tenant",
	// "id". The value must be a string, a number or a boolean: the flow's Build checks the type of the input, and the
	// start of a run checks the value. The default is one limit for all runs.
	KeyFrom []string
}

// Limit bounds how many executions that share it start within a time or run at a time. Executions share a limit of the
// same name and key in one namespace, across activities and flows. Several limits all apply; a limit of a node replaces
// the limit of its activity with the same name and key.
func Limit(name string, config LimitConfig) ExecutionOption {
	return func(t activityspec.Target) error {
		t.AddLimit(activityspec.NewLimit(name, activityspec.LimitConfig(config)))
		return nil
	}
}
