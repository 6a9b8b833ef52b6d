package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {1010, 1086},
	"Deadline":            {1096, 1309},
	"HeartbeatTimeout":    {1027, 1230},
	"Retention":           {1027, 1230},
	"ScheduleToStart":     {1088, 1292},
	"StartAt":             {2747, 3379},
	"StartToClose":        {1103, 1306},
	"WithID":              {1946, 2399},
	"WithKey":             {4872, 4976},
	"WithSignal":          {10581, 10684},
	"a call":              {1935, 1314},
	"any-of":              {1621, 1707},
	"budget":              {1072, 1277},
	"chain of ten":        {546, 640},
	"chain, Finally":      {1322, 1389},
	"chain, fails once":   {983, 1126},
	"chain, forked":       {2982, 3065},
	"chain, sleeps":       {1962, 2085},
	"chain, used budget":  {595, 714},
	"fails once":          {4406, 5186},
	"priority, memo, tag": {1239, 1448},
	"quorum":              {1735, 1816},
	"quorum, let run":     {1480, 1556},
	"single":              {1027, 1230},
	"used budget":         {1072, 1301},
}
