package metertest

// bounds are the most instructions of each workload, without and with the instructions of calls. "a call" has the bounds of a
// call that starts runs, and of a call that ends and claims nodes.
var bounds = map[string]bound{
	"1 to 3 to 1":         {1055, 1133},
	"Deadline":            {2354, 2573},
	"HeartbeatTimeout":    {2282, 2493},
	"Retention":           {2282, 2493},
	"ScheduleToStart":     {5226, 5444},
	"StartAt":             {15282, 15926},
	"StartToClose":        {2359, 2569},
	"WithID":              {3566, 3937},
	"WithKey":             {8892, 9007},
	"WithSignal":          {25726, 25843},
	"a call":              {2066, 1299},
	"any-of":              {7722, 7816},
	"chain of ten":        {757, 852},
	"chain, Finally":      {6466, 6531},
	"chain, fails once":   {2775, 2922},
	"chain, forked":       {7157, 7225},
	"fails once":          {21772, 22577},
	"priority, memo, tag": {2566, 2780},
	"quorum":              {7271, 7359},
	"single":              {2282, 2493},
}
