// Package contractcheck compares flows with the constructs of the FlowFabric contract: the ones without a counterpart
// are refused in contract mode. Package contract refuses such flows before it writes anything, and runtime.Plan shows
// the refusals without an engine.
package contractcheck
