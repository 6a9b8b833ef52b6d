// Command dag-pipeline takes a census of Go source code: it finds the packages of a tree, shares them out to parallel
// nodes that parse and measure them, joins and ranks what they found, and writes a report in Markdown with a chart.
//
// flow.go declares the work as a graph; the other files hold the ordinary functions that its nodes run. A census that
// was interrupted, even by kill -9, goes on where it was when the command is given again, as long as the engine
// outlives the process: -engine embedded:DIR or a server.
package main
