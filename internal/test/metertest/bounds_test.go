package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {1129, 1202},
	"Deadline":            {2287, 2491},
	"HeartbeatTimeout":    {2212, 2410},
	"Retention":           {2212, 2410},
	"ScheduleToStart":     {2272, 2471},
	"StartAt":             {3436, 4038},
	"StartToClose":        {2288, 2486},
	"WithID":              {3480, 3817},
	"WithKey":             {4737, 4839},
	"WithSignal":          {16176, 16278},
	"a call":              {1932, 1234},
	"budget":              {2282, 2482},
	"any-of":              {6048, 6137},
	"chain of ten":        {768, 857},
	"chain, used budget":  {834, 948},
	"chain, Finally":      {1270, 1337},
	"chain, fails once":   {1490, 1629},
	"chain, forked":       {4020, 4101},
	"fails once":          {9300, 10062},
	"priority, memo, tag": {2418, 2616},
	"quorum, let run":     {1403, 1476},
	"chain, sleeps":       {2353, 2471},
	"quorum":              {5042, 5125},
	"used budget":         {2282, 2506},
	"single":              {2212, 2410},
}
