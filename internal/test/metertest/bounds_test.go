package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {1221, 1301},
	"Deadline":            {2818, 3050},
	"HeartbeatTimeout":    {2747, 2970},
	"Retention":           {2747, 2970},
	"ScheduleToStart":     {5541, 5757},
	"StartAt":             {15389, 16009},
	"StartToClose":        {2862, 3089},
	"WithID":              {3963, 4363},
	"WithKey":             {9052, 9155},
	"WithSignal":          {25399, 25503},
	"a call":              {2308, 1270},
	"any-of":              {7401, 7492},
	"chain of ten":        {894, 988},
	"chain, Finally":      {6399, 6465},
	"chain, fails once":   {2815, 2959},
	"chain, forked":       {6994, 7062},
	"fails once":          {21291, 22056},
	"priority, memo, tag": {3030, 3258},
	"quorum":              {6893, 6978},
	"single":              {2747, 2970},
}
