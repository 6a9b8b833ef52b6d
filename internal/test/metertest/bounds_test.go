package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {1025, 1103},
	"Deadline":            {1648, 1863},
	"HeartbeatTimeout":    {1591, 1794},
	"Retention":           {1591, 1794},
	"ScheduleToStart":     {4602, 4814},
	"StartAt":             {16767, 17413},
	"StartToClose":        {1667, 1870},
	"WithID":              {2316, 2762},
	"WithKey":             {10319, 10440},
	"WithSignal":          {27359, 27481},
	"a call":              {1919, 1342},
	"budget":              {1656, 1862},
	"any-of":              {8589, 8684},
	"chain of ten":        {722, 818},
	"chain, used budget":  {785, 906},
	"chain, Finally":      {7060, 7127},
	"chain, fails once":   {2802, 2952},
	"chain, forked":       {8122, 8193},
	"fails once":          {21788, 22597},
	"priority, memo, tag": {1800, 2009},
	"quorum":              {7982, 8071},
	"used budget":         {1656, 1885},
	"single":              {1591, 1794},
}
