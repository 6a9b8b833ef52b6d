package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {1010, 1086},
	"Deadline":            {1128, 1342},
	"HeartbeatTimeout":    {1060, 1263},
	"Retention":           {1060, 1263},
	"ScheduleToStart":     {1120, 1324},
	"StartAt":             {2747, 3379},
	"StartToClose":        {1136, 1339},
	"WithID":              {1976, 2428},
	"WithKey":             {4872, 4976},
	"WithSignal":          {10579, 10683},
	"a call":              {1934, 1314},
	"any-of":              {1621, 1707},
	"budget":              {1105, 1310},
	"chain of ten":        {546, 640},
	"chain, Finally":      {1323, 1390},
	"chain, fails once":   {983, 1126},
	"chain, forked":       {2982, 3065},
	"chain, sleeps":       {1962, 2085},
	"chain, used budget":  {595, 714},
	"fails once":          {4422, 5202},
	"priority, memo, tag": {1272, 1480},
	"quorum":              {1735, 1816},
	"quorum, let run":     {1480, 1556},
	"single":              {1060, 1263},
	"used budget":         {1105, 1333},
}
