package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {1005, 1080},
	"Deadline":            {1097, 1310},
	"HeartbeatTimeout":    {1028, 1231},
	"Retention":           {1028, 1231},
	"ScheduleToStart":     {1089, 1292},
	"StartAt":             {2743, 3375},
	"StartToClose":        {1104, 1307},
	"WithID":              {1942, 2396},
	"WithKey":             {4868, 4972},
	"WithSignal":          {16398, 16502},
	"a call":              {1935, 1312},
	"any-of":              {1617, 1703},
	"budget":              {1073, 1278},
	"chain of ten":        {545, 639},
	"chain, Finally":      {1316, 1383},
	"chain, fails once":   {976, 1120},
	"chain, forked":       {4081, 4163},
	"chain, sleeps":       {2406, 2530},
	"chain, used budget":  {594, 713},
	"fails once":          {4399, 5178},
	"priority, memo, tag": {1240, 1449},
	"quorum":              {1730, 1811},
	"quorum, let run":     {1474, 1550},
	"single":              {1028, 1231},
	"used budget":         {1073, 1302},
}
