package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {1131, 1204},
	"Deadline":            {2253, 2457},
	"HeartbeatTimeout":    {2178, 2376},
	"Retention":           {2178, 2376},
	"ScheduleToStart":     {5255, 5463},
	"StartAt":             {16768, 17389},
	"StartToClose":        {2254, 2452},
	"WithID":              {3443, 3779},
	"WithKey":             {10209, 10330},
	"WithSignal":          {27272, 27394},
	"a call":              {1932, 1233},
	"budget":              {2248, 2448},
	"any-of":              {8600, 8690},
	"chain of ten":        {744, 834},
	"chain, used budget":  {810, 925},
	"chain, Finally":      {7072, 7134},
	"chain, fails once":   {2841, 2981},
	"chain, forked":       {8124, 8192},
	"fails once":          {22393, 23169},
	"priority, memo, tag": {2384, 2582},
	"quorum":              {7989, 8073},
	"used budget":         {2248, 2471},
	"single":              {2178, 2376},
}
