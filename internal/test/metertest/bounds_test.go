package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {987, 1062},
	"Deadline":            {1077, 1289},
	"HeartbeatTimeout":    {1009, 1211},
	"Retention":           {1009, 1211},
	"ScheduleToStart":     {1069, 1272},
	"StartAt":             {2716, 3346},
	"StartToClose":        {1085, 1286},
	"WithID":              {1914, 2366},
	"WithKey":             {4773, 4877},
	"WithSignal":          {16282, 16386},
	"a call":              {1918, 1312},
	"any-of":              {1606, 1692},
	"budget":              {1054, 1258},
	"chain of ten":        {538, 632},
	"chain, Finally":      {1303, 1370},
	"chain, fails once":   {965, 1108},
	"chain, forked":       {4050, 4133},
	"chain, sleeps":       {2381, 2505},
	"chain, used budget":  {586, 706},
	"fails once":          {4374, 5153},
	"priority, memo, tag": {1221, 1428},
	"quorum":              {1716, 1796},
	"quorum, let run":     {1458, 1533},
	"single":              {1009, 1211},
	"used budget":         {1054, 1281},
}
