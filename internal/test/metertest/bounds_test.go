package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {977, 1048},
	"Deadline":            {1514, 1716},
	"HeartbeatTimeout":    {1457, 1648},
	"Retention":           {1457, 1648},
	"ScheduleToStart":     {4534, 4735},
	"StartAt":             {16775, 17397},
	"StartToClose":        {1534, 1724},
	"WithID":              {2238, 2649},
	"WithKey":             {10214, 10334},
	"WithSignal":          {27276, 27399},
	"a call":              {1809, 1238},
	"budget":              {1520, 1714},
	"any-of":              {8602, 8692},
	"chain of ten":        {665, 753},
	"chain, used budget":  {730, 844},
	"chain, Finally":      {7073, 7135},
	"chain, fails once":   {2769, 2909},
	"chain, forked":       {8125, 8192},
	"fails once":          {21671, 22440},
	"priority, memo, tag": {1667, 1863},
	"quorum":              {7991, 8075},
	"used budget":         {1520, 1738},
	"single":              {1457, 1648},
}
