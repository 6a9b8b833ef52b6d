package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {1029, 1107},
	"Deadline":            {2450, 2669},
	"HeartbeatTimeout":    {2378, 2588},
	"Retention":           {2378, 2588},
	"ScheduleToStart":     {5245, 5465},
	"StartAt":             {15227, 15872},
	"StartToClose":        {2455, 2665},
	"WithID":              {3642, 4018},
	"WithKey":             {8891, 9006},
	"WithSignal":          {25219, 25336},
	"a call":              {2205, 1329},
	"budget":              {2460, 2671},
	"any-of":              {7399, 7493},
	"chain of ten":        {729, 824},
	"chain, used budget":  {793, 913},
	"chain, Finally":      {6412, 6477},
	"chain, fails once":   {2656, 2802},
	"chain, forked":       {6965, 7033},
	"fails once":          {20942, 21748},
	"priority, memo, tag": {2661, 2876},
	"quorum":              {6921, 7009},
	"used budget":         {2460, 2695},
	"single":              {2282, 2502},
}
