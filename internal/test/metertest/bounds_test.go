package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {1145, 1221},
	"Deadline":            {2453, 2653},
	"HeartbeatTimeout":    {2378, 2572},
	"Retention":           {2378, 2572},
	"ScheduleToStart":     {5298, 5502},
	"StartAt":             {16690, 17317},
	"StartToClose":        {2454, 2649},
	"WithID":              {3582, 3927},
	"WithKey":             {10241, 10354},
	"WithSignal":          {26779, 26893},
	"a call":              {1815, 1306},
	"budget":              {2460, 2671},
	"any-of":              {8263, 8355},
	"chain of ten":        {764, 857},
	"chain, used budget":  {793, 913},
	"chain, Finally":      {7004, 7069},
	"chain, fails once":   {2745, 2891},
	"chain, forked":       {7919, 7988},
	"fails once":          {21605, 22395},
	"priority, memo, tag": {2597, 2792},
	"quorum":              {7630, 7714},
	"used budget":         {2460, 2695},
	"single":              {2378, 2572},
}
