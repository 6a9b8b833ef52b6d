// Package lanes pauses lanes and activities in all partitions, ends the pauses, and reads the lanes with the numbers of
// their executions and the pauses that are in force. Clients use it; pauses of single runs are in package runcontrol.
package lanes
