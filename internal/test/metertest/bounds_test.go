package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {1017, 1095},
	"Deadline":            {2390, 2608},
	"HeartbeatTimeout":    {2318, 2528},
	"Retention":           {2318, 2528},
	"ScheduleToStart":     {5192, 5410},
	"StartAt":             {15209, 15853},
	"StartToClose":        {2395, 2605},
	"WithID":              {3578, 3957},
	"WithKey":             {8892, 9006},
	"WithSignal":          {25223, 25337},
	"a call":              {2046, 1315},
	"any-of":              {7397, 7492},
	"chain of ten":        {722, 817},
	"chain, Finally":      {6417, 6484},
	"chain, fails once":   {2652, 2799},
	"chain, forked":       {6974, 7043},
	"fails once":          {20932, 21737},
	"priority, memo, tag": {2601, 2815},
	"quorum":              {6919, 7008},
	"single":              {2318, 2528},
}
