package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {966, 1039},
	"Deadline":            {1530, 1732},
	"HeartbeatTimeout":    {1473, 1664},
	"Retention":           {1473, 1664},
	"ScheduleToStart":     {1534, 1725},
	"StartAt":             {3398, 3999},
	"StartToClose":        {1550, 1741},
	"WithID":              {2260, 2671},
	"WithKey":             {4696, 4798},
	"WithSignal":          {21155, 21256},
	"a call":              {1809, 1238},
	"budget":              {1537, 1730},
	"any-of":              {6344, 6433},
	"chain of ten":        {679, 768},
	"chain, used budget":  {744, 857},
	"chain, Finally":      {1761, 1769},
	"chain, fails once":   {1411, 1551},
	"chain, forked":       {4023, 4104},
	"fails once":          {8585, 9340},
	"priority, memo, tag": {1683, 1879},
	"quorum":              {5193, 5277},
	"used budget":         {1537, 1754},
	"single":              {1473, 1664},
}
