package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {1005, 1080},
	"Deadline":            {1099, 1312},
	"HeartbeatTimeout":    {1030, 1233},
	"Retention":           {1030, 1233},
	"ScheduleToStart":     {1091, 1294},
	"StartAt":             {2743, 3375},
	"StartToClose":        {1106, 1309},
	"WithID":              {1946, 2399},
	"WithKey":             {4863, 4968},
	"WithSignal":          {16395, 16498},
	"a call":              {1935, 1312},
	"any-of":              {1617, 1703},
	"budget":              {1075, 1280},
	"chain of ten":        {545, 639},
	"chain, Finally":      {1316, 1383},
	"chain, fails once":   {976, 1120},
	"chain, forked":       {4080, 4163},
	"chain, sleeps":       {2406, 2529},
	"chain, used budget":  {594, 713},
	"fails once":          {4401, 5180},
	"priority, memo, tag": {1242, 1451},
	"quorum":              {1730, 1811},
	"quorum, let run":     {1474, 1550},
	"single":              {1030, 1233},
	"used budget":         {1075, 1304},
}
