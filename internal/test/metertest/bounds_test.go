package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {973, 1045},
	"Deadline":            {1540, 1742},
	"HeartbeatTimeout":    {1483, 1673},
	"Retention":           {1483, 1673},
	"ScheduleToStart":     {1543, 1734},
	"StartAt":             {3407, 4008},
	"StartToClose":        {1559, 1750},
	"WithID":              {2266, 2679},
	"WithKey":             {4705, 4807},
	"WithSignal":          {16211, 16312},
	"a call":              {1809, 1238},
	"budget":              {1546, 1740},
	"any-of":              {6042, 6131},
	"chain of ten":        {688, 777},
	"chain, used budget":  {753, 866},
	"chain, Finally":      {1256, 1321},
	"chain, fails once":   {1418, 1558},
	"chain, forked":       {4031, 4111},
	"fails once":          {8594, 9349},
	"priority, memo, tag": {1693, 1889},
	"quorum":              {5034, 5117},
	"used budget":         {1546, 1763},
	"single":              {1483, 1673},
}
