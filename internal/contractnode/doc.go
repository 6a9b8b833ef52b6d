// Package contractnode reads the nodes of runs that the functions of the FlowFabric contract have submitted. Such runs
// keep the fields that the contract lacks in tags of flows and executions.
//
// Package contract writes the tags and reads them for its workers. A worker that uses the whole library reads them when
// it claims a node that a program in contract mode has submitted to the same server.
package contractnode
