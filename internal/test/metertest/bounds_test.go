package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {986, 1061},
	"Deadline":            {1076, 1288},
	"HeartbeatTimeout":    {1008, 1209},
	"Retention":           {1008, 1209},
	"ScheduleToStart":     {1068, 1271},
	"StartAt":             {3457, 4066},
	"StartToClose":        {1084, 1285},
	"WithID":              {1914, 2365},
	"WithKey":             {4772, 4876},
	"WithSignal":          {16281, 16384},
	"a call":              {1916, 1307},
	"any-of":              {6044, 6135},
	"budget":              {1053, 1256},
	"chain of ten":        {538, 631},
	"chain, Finally":      {1302, 1368},
	"chain, fails once":   {1421, 1563},
	"chain, forked":       {4050, 4132},
	"chain, sleeps":       {2380, 2501},
	"chain, used budget":  {586, 705},
	"fails once":          {8739, 9511},
	"priority, memo, tag": {1220, 1427},
	"quorum":              {5063, 5149},
	"quorum, let run":     {1457, 1532},
	"single":              {1008, 1209},
	"used budget":         {1053, 1280},
}
