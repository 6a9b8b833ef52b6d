package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {1053, 1132},
	"Deadline":            {2328, 2549},
	"HeartbeatTimeout":    {2257, 2469},
	"Retention":           {2257, 2469},
	"ScheduleToStart":     {5208, 5428},
	"StartAt":             {15274, 15921},
	"StartToClose":        {2333, 2546},
	"WithID":              {3547, 3925},
	"WithKey":             {8938, 9053},
	"WithSignal":          {25773, 25889},
	"a call":              {1999, 1337},
	"budget":              {2362, 2576},
	"any-of":              {7725, 7821},
	"chain of ten":        {754, 850},
	"chain, used budget":  {822, 943},
	"chain, Finally":      {6479, 6546},
	"chain, fails once":   {2777, 2925},
	"chain, forked":       {7177, 7247},
	"fails once":          {21805, 22613},
	"priority, memo, tag": {2540, 2757},
	"quorum":              {7276, 7365},
	"used budget":         {2362, 2599},
	"single":              {2233, 2455},
}
