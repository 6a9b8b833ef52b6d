package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {974, 1046},
	"Deadline":            {1540, 1742},
	"HeartbeatTimeout":    {1483, 1674},
	"Retention":           {1483, 1674},
	"ScheduleToStart":     {1544, 1735},
	"StartAt":             {2667, 3288},
	"StartToClose":        {1560, 1750},
	"WithID":              {2267, 2680},
	"WithKey":             {4720, 4820},
	"WithSignal":          {10450, 10550},
	"a call":              {1813, 1237},
	"budget":              {1547, 1740},
	"any-of":              {1602, 1686},
	"chain of ten":        {688, 777},
	"chain, used budget":  {753, 867},
	"chain, Finally":      {1268, 1334},
	"chain, fails once":   {966, 1106},
	"chain, forked":       {2928, 3009},
	"fails once":          {4120, 4882},
	"priority, memo, tag": {1693, 1889},
	"quorum, let run":     {1444, 1517},
	"chain, sleeps":       {1914, 2036},
	"quorum":              {1707, 1786},
	"used budget":         {1547, 1763},
	"single":              {1483, 1674},
}
