// Package lostworkertest tests executions whose workers are lost: killed processes, programs that crash in a loop, and
// functions that kill the process that runs them.
package lostworkertest
