package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {973, 1045},
	"Deadline":            {1539, 1741},
	"HeartbeatTimeout":    {1482, 1673},
	"Retention":           {1482, 1673},
	"ScheduleToStart":     {1543, 1734},
	"StartAt":             {3407, 4008},
	"StartToClose":        {1559, 1749},
	"WithID":              {2265, 2678},
	"WithKey":             {4704, 4806},
	"WithSignal":          {16210, 16312},
	"a call":              {1809, 1237},
	"budget":              {1546, 1739},
	"any-of":              {6042, 6131},
	"chain of ten":        {687, 776},
	"chain, used budget":  {752, 866},
	"chain, Finally":      {1267, 1333},
	"chain, fails once":   {1418, 1557},
	"chain, forked":       {4031, 4111},
	"fails once":          {8593, 9348},
	"priority, memo, tag": {1692, 1888},
	"quorum, let run":     {1403, 1476},
	"chain, sleeps":       {2360, 2479},
	"quorum":              {5037, 5120},
	"used budget":         {1546, 1762},
	"single":              {1482, 1673},
}
