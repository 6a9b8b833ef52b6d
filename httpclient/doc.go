// Package httpclient calls the HTTP API of a FlowFabric server. Every operation of package api is called by Call or
// Follow, with its own types:
//
//	client, err := httpclient.New("https://flows.example.com", httpclient.Config{Token: token})
//	page, err := httpclient.Call(ctx, client, api.ListRuns, api.ListRunsInput{Query: query.Values()})
//	for event, err := range httpclient.Follow(ctx, client, api.FollowRun, in) { … }
//
// Programs that can reach the engine itself use package runtime, which types inputs and results.
//
// Import it to call a server from Go without a connection to its engine.
package httpclient
