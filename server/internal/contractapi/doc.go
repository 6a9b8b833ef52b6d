// Package contractapi serves the HTTP routes under /v1 that FlowFabric servers of the contract have: executions, claims
// of workers, attempt streams, flows, budgets, quotas and waitpoints, with their replies, statuses and errors. Clients
// and remote workers of such a server can call this one instead.
//
// A Handler has the table of routes; each topic has a file. Package server puts logins in front of it, and each route
// has the right that a principal needs. docs/reference/contract-api.md lists the differences from other servers.
package contractapi
