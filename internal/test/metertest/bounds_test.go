package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {1167, 1247},
	"Deadline":            {2400, 2614},
	"HeartbeatTimeout":    {2324, 2532},
	"Retention":           {2324, 2532},
	"ScheduleToStart":     {2384, 2593},
	"StartAt":             {3548, 4178},
	"StartToClose":        {2401, 2609},
	"WithID":              {3580, 3948},
	"WithKey":             {4925, 5030},
	"WithSignal":          {21295, 21400},
	"a call":              {1999, 1337},
	"budget":              {2396, 2607},
	"any-of":              {6354, 6449},
	"chain of ten":        {815, 911},
	"chain, used budget":  {880, 1001},
	"chain, Finally":      {1788, 1803},
	"chain, fails once":   {1517, 1666},
	"chain, forked":       {4051, 4138},
	"fails once":          {9465, 10268},
	"priority, memo, tag": {2529, 2738},
	"quorum":              {5209, 5298},
	"used budget":         {2396, 2630},
	"single":              {2324, 2532},
}
