package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {1122, 1195},
	"Deadline":            {2278, 2482},
	"HeartbeatTimeout":    {2203, 2401},
	"Retention":           {2203, 2401},
	"ScheduleToStart":     {2263, 2462},
	"StartAt":             {3427, 4028},
	"StartToClose":        {2279, 2477},
	"WithID":              {3473, 3810},
	"WithKey":             {4729, 4830},
	"WithSignal":          {21120, 21222},
	"a call":              {1932, 1234},
	"budget":              {2273, 2473},
	"any-of":              {6349, 6438},
	"chain of ten":        {759, 848},
	"chain, used budget":  {825, 939},
	"chain, Finally":      {1767, 1774},
	"chain, fails once":   {1483, 1622},
	"chain, forked":       {4013, 4094},
	"fails once":          {9291, 10053},
	"priority, memo, tag": {2409, 2607},
	"quorum":              {5198, 5282},
	"used budget":         {2273, 2496},
	"single":              {2203, 2401},
}
