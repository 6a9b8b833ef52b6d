// Command peers compares FlowFabric with other systems that run work in the background: asynq, go-workflows, River on
// PostgreSQL, and Temporal's development server. All do the same work on this machine.
//
//	go run . -rounds 3
//	go run . -only asynq,river -time 5s
//
// The command starts every server itself. Each measurement is a process of its own, with a server of its own, and
// stands next to one of FlowFabric, which is measured right before it. The output is Markdown: what
// docs/reference/peers.md shows.
package main
